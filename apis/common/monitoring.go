package common

// Monitoring configures how Prometheus scrapes the pods.
type Monitoring struct {
	// enabled makes the pods expose metrics. If the cluster serves PodMonitor,
	// of the Prometheus operator, one is created. Changing this field replaces
	// the pods.
	// +optional
	Enabled bool `json:"enabled,omitempty"`

	// resources are the compute resources of the exporter of a WebServer. Unset
	// requests 5m of CPU and 16Mi of memory, and limits the memory to 64Mi and,
	// if the CPU of nginx is limited, the CPU to 100m.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// interval is the time between two scrapes, such as 30s. Unset means the
	// default of Prometheus.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^([1-9][0-9]*h)?([1-9][0-9]*m)?([1-9][0-9]*s)?$`
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]{1,5}h)?([0-9]{1,5}m)?([0-9]{1,5}s)?$') ? !self.matches('[0-9]{6}') : duration(self) <= duration('24h')",message="must be 24h or less"
	Interval string `json:"interval,omitempty"`

	// labels of the PodMonitor, by which a Prometheus can select it.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue() && !k.contains('platform-operator.io/') && k != 'app.kubernetes.io/managed-by')",message="keys must be names such as example.com/key, and none of the operator's own"
	Labels map[string]LabelValue `json:"labels,omitempty"`
}
