package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the kind's name.
const Kind = "WebServer"

// WebServer is an nginx fleet: a Deployment named as the object and a Service
// named <name>-service. It serves from the moment its Available condition is
// True; Ready says that the whole of the current spec serves.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=webservers,singular=webserver,shortName=ws,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="replicas that exist now"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="replicas that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.addresses[0].url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 55",message="metadata.name must be no more than 55 characters: the Service is named <name>-service, and a Service name has at most 63"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': it becomes the name of a Service"
type WebServer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec WebServerSpec `json:"spec"`

	// status is what is there, as the operator last saw it.
	// +optional
	Status WebServerStatus `json:"status,omitzero"`
}

// WebServerSpec is what is wanted.
type WebServerSpec struct {
	// image is the container image that serves: the stock nginx image or one
	// built on it, which listens on port 80. It runs as user 101 with a
	// read-only root file system; /var/cache/nginx, /run and /tmp are writable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image"`

	// replicas is the number of pods. Unset means 1; 0 stops all of them and
	// keeps the Service.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replicas *int32 `json:"replicas,omitempty"`

	// service says how the fleet is reached.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`

	// deletionPolicy says what becomes of the Deployment and the Service when
	// this object is deleted. Delete, the default, deletes them too; Orphan
	// leaves them serving, managed by nobody.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// ServiceSpec says how the fleet is reached.
//
// +kubebuilder:validation:XValidation:rule="!has(self.nodePort) || !has(self.type) || self.type != 'ClusterIP'",message="nodePort needs type NodePort or LoadBalancer; remove nodePort or change type",fieldPath=".nodePort",reason=FieldValueForbidden
type ServiceSpec struct {
	// type is the type of the Service. Unset takes the platform's preference,
	// NodePort as delivered, and NodePort where nodePort is set. The value in
	// force is in status.service.type.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	// port is the port of the Service. Unset means 80. The pods always listen
	// on port 80.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// nodePort is the port on every node. Unset takes the platform's
	// preference, 30010 as delivered; where that is taken Kubernetes allocates
	// one. The port in force is in status.service.nodePort and is kept when
	// the Service is deleted and created again.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort *int32 `json:"nodePort,omitempty"`
}

// WebServerStatus is what is there, as the operator last saw it.
type WebServerStatus struct {
	common.Status `json:",inline"`

	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is the number of pods made from the current spec.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// selector selects the pods, in the form kubectl -l takes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// image is the image that serves: the spec's, once all its pods are
	// available, and the previous one until then.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// service is the Service as it is.
	// +optional
	Service *ServiceStatus `json:"service,omitempty"`

	// addresses are the places where the fleet can be reached, the one for
	// most people first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Addresses []common.Address `json:"addresses,omitempty"`
}

// ServiceStatus is the Service as it is.
type ServiceStatus struct {
	// name of the Service.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// type of the Service.
	// +optional
	Type corev1.ServiceType `json:"type,omitempty"`

	// port of the Service.
	// +optional
	Port int32 `json:"port,omitempty"`

	// nodePort on every node, 0 where there is none.
	// +optional
	NodePort int32 `json:"nodePort,omitempty"`
}

// WebServerList is a list of WebServers.
//
// +kubebuilder:object:root=true
type WebServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []WebServer `json:"items"`
}

// GetStatus returns the part of the status that every kind has.
func (w *WebServer) GetStatus() *common.Status { return &w.Status.Status }

// GetDeletionPolicy returns the deletion policy in force.
func (w *WebServer) GetDeletionPolicy() common.DeletionPolicy {
	if w.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return w.Spec.DeletionPolicy
}
