package common

import corev1 "k8s.io/api/core/v1"

// ServiceOptions is what a user can say about the Service of every kind,
// beside its type and ports. A kind inlines it.
type ServiceOptions struct {
	// annotations of the Service, which load balancers read.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue() && !k.contains('platform-operator.io/'))",message="keys must be names such as example.com/key, outside of platform-operator.io"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="all of them together must have at most 163840 bytes"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// loadBalancerClass is who makes the load balancer. It counts for type
	// LoadBalancer only, and Kubernetes does not let it be changed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="loadBalancerClass cannot be changed; remove it together with type LoadBalancer first"
	LoadBalancerClass string `json:"loadBalancerClass,omitempty"`

	// externalTrafficPolicy is Cluster, which spreads over all pods, or Local,
	// which keeps the client's address. Unset means Cluster. It counts for
	// types NodePort and LoadBalancer only.
	// +optional
	// +kubebuilder:validation:Enum=Cluster;Local
	ExternalTrafficPolicy corev1.ServiceExternalTrafficPolicy `json:"externalTrafficPolicy,omitempty"`

	// sessionAffinity ClientIP sends a client to the same pod each time. Unset
	// means None.
	// +optional
	// +kubebuilder:validation:Enum=None;ClientIP
	SessionAffinity corev1.ServiceAffinity `json:"sessionAffinity,omitempty"`
}
