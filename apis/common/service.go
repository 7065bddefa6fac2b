package common

import corev1 "k8s.io/api/core/v1"

// ServiceOptions are the settings of a Service that kinds have in common, apart
// from its type and ports. A kind inlines them.
type ServiceOptions struct {
	// annotations of the Service, such as for a load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue() && !k.contains('platform-operator.io/'))",message="keys must be names such as example.com/key, outside of platform-operator.io"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="keys and values must have at most 163840 bytes in all"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// loadBalancerClass is the implementation of the load balancer. It applies
	// only to type LoadBalancer, and Kubernetes does not allow changing it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="loadBalancerClass cannot be changed; remove it together with type LoadBalancer first"
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`

	// externalTrafficPolicy is Cluster, which balances over all pods, or Local,
	// which preserves the client's address. Unset means Cluster. It applies
	// only to types NodePort and LoadBalancer.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// sessionAffinity ClientIP routes all connections of a client to the same
	// pod. Unset means None.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
}
