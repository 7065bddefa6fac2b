package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
)

// DemoApplication is a web application: a Deployment, a Service and the
// auxiliary resources that the spec asks for, all with the name of the object.
// It serves while its Available condition is True; Ready reports that the
// current spec is completely rolled out. Version v1 has the same fields, and
// kubectl explain describes all of them there.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replica,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=demoapplications,singular=demoapplication,shortName=demoapp,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="replicas that exist now"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="replicas that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`,description="image that serves"
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.addresses[0].url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: the Service has the same name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and contain only lower-case letters, digits and '-': it becomes the name of a Service"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.pod) || !has(self.spec.pod.initContainers) || self.spec.pod.initContainers.all(c, !(c.name in ['judge', self.metadata.name]))",message="the operator uses judge and the name of the object; use other names",fieldPath=".spec.pod.initContainers"
type DemoApplication struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the desired state of the DemoApplication.
	// +required
	Spec demoapplicationv1.DemoApplicationSpec `json:"spec"`

	// status defines the observed state of the DemoApplication.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status demoapplicationv1.DemoApplicationStatus `json:"status,omitzero"`
}

// DemoApplicationList is a list of DemoApplications.
//
// +kubebuilder:object:root=true
type DemoApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DemoApplication `json:"items"`
}
