package common

// ExposeType is the API by which the object is exposed.
//
// +kubebuilder:validation:Enum=Gateway;Ingress
type ExposeType string

const (
	// ExposeGateway creates an HTTPRoute.
	ExposeGateway ExposeType = "Gateway"
	// ExposeIngress creates an Ingress.
	ExposeIngress ExposeType = "Ingress"
)

// Expose configures the hosts under which the object is reachable from outside
// of the cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.gateway) || self.type != 'Gateway'",message="gateway is required for type Gateway",fieldPath=".gateway"
type Expose struct {
	// type is Gateway, which creates an HTTPRoute, or Ingress, which creates an
	// Ingress. If the options of the other type are set too, both exist, and the
	// status is about this one.
	// +required
	Type ExposeType `json:"type"`

	// hosts are the DNS names under which the object is reachable. The first
	// label of a name can be "*".
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self.all(h, !isIP(h))",message="a host is a name, not an address"
	// +kubebuilder:validation:XValidation:rule="self.all(h, !h.matches('(^|[.])([0-9]+|0x[0-9a-f]*)$'))",message="the last part of a host must not be a number, because clients would read the host as an address"
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o == h))",message="each host can be listed once"
	Hosts []string `json:"hosts"`

	// path is the prefix of the request paths that are routed to the object.
	// Unset means /, which matches all of them.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/(\.?[-A-Za-z0-9_~!$&'()*+,;=:@][-A-Za-z0-9_~!$&'()*+,;=:@.]*/)*(\.?[-A-Za-z0-9_~!$&'()*+,;=:@][-A-Za-z0-9_~!$&'()*+,;=:@.]*)?$`
	Path string `json:"path,omitempty"`

	// gateway configures type Gateway. TLS is configured in the listener of the
	// Gateway. With type Ingress, it creates an HTTPRoute too.
	// +optional
	Gateway *ExposeGatewayOptions `json:"gateway,omitempty"`

	// ingress configures type Ingress. With type Gateway, it creates an Ingress
	// too, for clients whose DNS records do not lead to the Gateway yet.
	// +optional
	Ingress *ExposeIngressOptions `json:"ingress,omitempty"`
}

// ExposeGatewayOptions configures the HTTPRoute.
type ExposeGatewayOptions struct {
	// parentRef is the Gateway that the HTTPRoute attaches to.
	// +required
	ParentRef GatewayReference `json:"parentRef"`
}

// GatewayReference refers to a Gateway.
type GatewayReference struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// namespace of the Gateway, which must be allowed by the platform
	// configuration. Unset means the namespace of the object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// sectionName is the name of a listener. Unset means all listeners that
	// match the hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SectionName string `json:"sectionName,omitempty"`
}

// ExposeIngressOptions configures the Ingress.
type ExposeIngressOptions struct {
	// ingressClassName is the name of the IngressClass. Unset means the default
	// class of the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tls serves the hosts over HTTPS.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// annotations of the Ingress, for its controller. Annotations that inject
	// configuration snippets are rejected.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue() && !k.contains('platform-operator.io/') && !k.endsWith('-snippet'))",message="keys must be names such as example.com/key, outside of platform-operator.io, and no snippets"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="keys and values must have at most 163840 bytes in all"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// IngressTLS is the certificate of an Ingress.
type IngressTLS struct {
	// secretRef is a Secret of type kubernetes.io/tls that contains the
	// certificate.
	// +required
	SecretRef LocalObjectReference `json:"secretRef"`
}
