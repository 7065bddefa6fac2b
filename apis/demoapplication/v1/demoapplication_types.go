package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the kind's name.
const Kind = "DemoApplication"

// DemoApplication is a web application: a Deployment, a Service and what more
// the spec asks for, all named as the object. It serves from the moment its Available condition is True;
// Ready says that the whole of the current spec serves.
//
// +kubebuilder:object:root=true
// +kubebuilder:storageversion
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replica,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=demoapplications,singular=demoapplication,shortName=demoapp,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`,description="replicas that exist now"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="replicas that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.status.addresses[0].url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: the Service has the same name"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': it becomes the name of a Service"
type DemoApplication struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec DemoApplicationSpec `json:"spec"`

	// status is what is there, as the operator last saw it.
	// +optional
	Status DemoApplicationStatus `json:"status,omitzero"`
}

// DemoApplicationSpec is what is wanted.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas)",message="this kind's field is called replica: use spec.replica",fieldPath=".replicas",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replica)",message="with autoscaling the autoscaler sets the number of pods: remove replica, or autoscaling",fieldPath=".replica",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetCPUUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'cpu' in self.resources.requests ? string(self.resources.requests['cpu']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'cpu' in self.resources.limits && string(self.resources.limits['cpu']).matches('^[+]?[0.]*[1-9]')))",message="a target for CPU is in percent of what the pods request: set resources.requests.cpu to more than 0",fieldPath=".autoscaling.targetCPUUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'memory' in self.resources.requests ? string(self.resources.requests['memory']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'memory' in self.resources.limits && string(self.resources.limits['memory']).matches('^[+]?[0.]*[1-9]')))",message="a target for memory is in percent of what the pods request: set resources.requests.memory to more than 0",fieldPath=".autoscaling.targetMemoryUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || (has(self.ports) && self.ports.exists(p, !has(p.protocol) || p.protocol == 'TCP'))",message="expose leads to the first TCP port: add one to ports",fieldPath=".expose"
// +kubebuilder:validation:XValidation:rule="!has(self.monitoring) || !has(self.monitoring.enabled) || !self.monitoring.enabled || (has(self.ports) && self.ports.exists(p, !has(p.protocol) || p.protocol == 'TCP'))",message="metrics are scraped from a TCP port: add one to ports",fieldPath=".monitoring"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.type) || self.service.type != 'ClusterIP' || !has(self.ports) || self.ports.all(p, !has(p.nodePort))",message="a Service of type ClusterIP has no node ports: remove the nodePorts, or the type",fieldPath=".service.type"
type DemoApplicationSpec struct {
	// image is the container image that serves. It runs as it is, under the
	// Pod Security Standard baseline.
	// +required
	Image common.Image `json:"image"`

	common.Container  `json:",inline"`
	common.Entrypoint `json:",inline"`

	// resources are what the container asks for, and what it may use at most.
	// +optional
	Resources *common.Resources `json:"resources,omitempty"`

	// pod says more about the pods: where they run, what they mount, their
	// labels and annotations.
	// +optional
	Pod *common.Pod `json:"pod,omitempty"`

	// security says how much the pods may do. The profile unset means Baseline
	// for this kind: images run as they are.
	// +optional
	Security *common.Security `json:"security,omitempty"`

	// replica is the number of pods. Unset means 1; 0 stops all of them and
	// keeps the Service. It cannot be set together with autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replica *int32 `json:"replica,omitempty"`

	// replicas is always refused: this kind's field is called replica. It is
	// here so that clients which do not ask for strict validation hear of the
	// mistake too, instead of getting one pod.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// ports are the ports of the Service, and what of the pods is behind each.
	// Without any there is no Service. Unless service.type says something else,
	// a nodePort on any of them makes the Service one of type NodePort; else its
	// type is ClusterIP.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.size() <= 1 || self.all(p, has(p.name))",message="each of several ports must have a name",reason=FieldValueRequired
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="the name of a port must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="a port can be listed once for each protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.nodePort) || self.exists_one(q, has(q.nodePort) && q.nodePort == p.nodePort && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="a nodePort can be used once for each protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.targetPort) || type(p.targetPort) != string || self.exists_one(q, has(q.targetPort) && type(q.targetPort) == string && q.targetPort == p.targetPort))",message="the name in targetPort stands for one port of the container and can be used once; use numbers where two ports lead to the same"
	Ports []Port `json:"ports,omitempty"`

	// service says more about the Service; its ports are in ports.
	// +optional
	Service *Service `json:"service,omitempty"`

	// expose makes the application reachable from outside of the cluster by
	// the names of hosts. They lead to the first TCP port.
	// +optional
	Expose *common.Expose `json:"expose,omitempty"`

	// autoscaling lets the load decide the number of pods, instead of replica.
	// Whoever removes it sets replica, or gets 1.
	// +optional
	Autoscaling *common.Autoscaling `json:"autoscaling,omitempty"`

	// podDisruptionBudget says how many pods a drain of nodes may take at a
	// time. Unset, with more than one pod, means one.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy says who may connect to the pods. Unset means whoever the
	// cluster lets. It takes a network plugin that enforces policies.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// monitoring makes the application's own metrics known to Prometheus, at
	// the path /metrics of the TCP port that is called metrics, or else of the
	// first TCP port.
	// +optional
	Monitoring *common.Monitoring `json:"monitoring,omitempty"`

	// rollout says how a change reaches the pods, and what becomes of one that
	// fails. restartOnConfigChange unset means false for this kind.
	// +optional
	Rollout *common.Rollout `json:"rollout,omitempty"`

	// paused leaves all children as they are, whatever the spec says, except that
	// their owner references follow deletionPolicy. The status goes on, and so
	// does deletion.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy says what becomes of the Deployment, the Service and the
	// rest when this object is deleted. Delete, the default, deletes them too; Orphan
	// leaves them serving, managed by nobody.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Service says more about the Service.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass)",message="loadBalancerClass cannot be added or removed while the type is LoadBalancer; change the type first",fieldPath=".loadBalancerClass"
type Service struct {
	// type is ClusterIP, NodePort or LoadBalancer. Unset means NodePort where
	// one of ports has a nodePort, and else ClusterIP.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	common.ServiceOptions `json:",inline"`
}

// Port is a port of the Service.
type Port struct {
	// name of the port. It may be left out where there is only one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// protocol of the port. Unset means TCP.
	// +optional
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// appProtocol says which protocol the application speaks, as a hint for
	// proxies: a standard name such as https, or one with a prefix such as
	// kubernetes.io/h2c.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`
	AppProtocol *string `json:"appProtocol,omitempty"`

	// port is the port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`

	// targetPort is the port on which the container listens. Unset, or 0,
	// means the same as port. A name instead of a number becomes the name of
	// the container's port, whose number is then that of port.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 65535)",message="must be a name, or a number from 0 to 65535"
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// nodePort is the port on every node. It is got, or waited for; no other is
	// taken instead. Where only some ports of a Service say one, Kubernetes
	// chooses those of the others.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort *int32 `json:"nodePort,omitempty"`
}

// DemoApplicationStatus is what is there, as the operator last saw it.
type DemoApplicationStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

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

	// addresses are the places where the application can be reached, those
	// with the widest reach first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Addresses []common.Address `json:"addresses,omitempty"`
}

// DemoApplicationList is a list of DemoApplications.
//
// +kubebuilder:object:root=true
type DemoApplicationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []DemoApplication `json:"items"`
}

// GetStatus returns the part of the status that every kind has.
func (d *DemoApplication) GetStatus() *common.Status { return &d.Status.Status }

// GetDeletionPolicy returns the deletion policy in force.
func (d *DemoApplication) GetDeletionPolicy() common.DeletionPolicy {
	if d.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return d.Spec.DeletionPolicy
}
