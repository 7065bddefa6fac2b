package common

// ExposeType says by what means something is reached from outside.
//
// +kubebuilder:validation:Enum=Gateway;Ingress
type ExposeType string

const (
	// ExposeGateway makes an HTTPRoute.
	ExposeGateway ExposeType = "Gateway"
	// ExposeIngress makes an Ingress.
	ExposeIngress ExposeType = "Ingress"
)

// Expose says under which names the object is reached from outside of the
// cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.gateway) == (self.type == 'Gateway')",message="gateway is required for type Gateway, and forbidden for any other",fieldPath=".gateway"
// +kubebuilder:validation:XValidation:rule="!has(self.ingress) || self.type == 'Ingress'",message="ingress is for type Ingress only",fieldPath=".ingress",reason=FieldValueForbidden
type Expose struct {
	// type is Gateway, which makes an HTTPRoute, or Ingress.
	// +required
	Type ExposeType `json:"type"`

	// hosts are the names under which it is reached. The first label of a name
	// can be "*".
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="self.all(h, !isIP(h))",message="a host is a name, not an address"
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o == h))",message="each host can be listed once"
	Hosts []string `json:"hosts"`

	// path is what the paths of requests begin with. Unset means /, all of them.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/(\.?[-A-Za-z0-9_~!$&'()*+,;=:@][-A-Za-z0-9_~!$&'()*+,;=:@.]*/)*(\.?[-A-Za-z0-9_~!$&'()*+,;=:@][-A-Za-z0-9_~!$&'()*+,;=:@.]*)?$`
	Path string `json:"path,omitempty"`

	// gateway is for type Gateway. TLS is a matter of the Gateway's listener.
	// +optional
	Gateway *ExposeGatewayOptions `json:"gateway,omitempty"`

	// ingress is for type Ingress.
	// +optional
	Ingress *ExposeIngressOptions `json:"ingress,omitempty"`
}

// ExposeGatewayOptions say which Gateway takes the requests.
type ExposeGatewayOptions struct {
	// parentRef is the Gateway.
	// +required
	ParentRef GatewayReference `json:"parentRef"`
}

// GatewayReference names a Gateway.
type GatewayReference struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// namespace of the Gateway; the platform configuration says which are
	// allowed. Unset means the object's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// sectionName is one of its listeners. Unset means all that take the hosts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SectionName string `json:"sectionName,omitempty"`
}

// ExposeIngressOptions say which controller takes the requests, and how.
type ExposeIngressOptions struct {
	// ingressClassName is the IngressClass. Unset takes the cluster's default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	IngressClassName string `json:"ingressClassName,omitempty"`

	// tls makes the controller serve the hosts by HTTPS.
	// +optional
	TLS *IngressTLS `json:"tls,omitempty"`

	// annotations of the Ingress, which its controller reads. Those that inject
	// pieces of a configuration are not accepted.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue() && !k.contains('platform-operator.io/') && !k.endsWith('-snippet'))",message="keys must be names such as example.com/key, outside of platform-operator.io, and no snippets"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="all of them together must have at most 163840 bytes"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// IngressTLS is the certificate of an Ingress.
type IngressTLS struct {
	// secretRef is the Secret of type kubernetes.io/tls that holds it.
	// +required
	SecretRef LocalObjectReference `json:"secretRef"`
}
