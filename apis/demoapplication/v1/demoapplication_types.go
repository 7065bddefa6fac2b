package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the name of the kind.
const Kind = "DemoApplication"

// PodLabel is the label of a DemoApplication's pods whose value is its name.
const PodLabel = "demoapplication_cr"

// DemoApplication is a web application: a Deployment, a Service and the
// auxiliary resources that the spec asks for, all with the name of the object.
// It serves while its Available condition is True; Ready reports that the
// current spec is completely rolled out.
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
	Spec DemoApplicationSpec `json:"spec"`

	// status defines the observed state of the DemoApplication.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status DemoApplicationStatus `json:"status,omitzero"`
}

// DemoApplicationSpec defines the desired state of a DemoApplication.
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas)",message="the field of this kind is named replica: use spec.replica",fieldPath=".replicas",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.replica)",message="must not be set together with autoscaling, which sets the number of pods: remove replica or autoscaling",fieldPath=".replica",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetCPUUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'cpu' in self.resources.requests ? string(self.resources.requests['cpu']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'cpu' in self.resources.limits && string(self.resources.limits['cpu']).matches('^[+]?[0.]*[1-9]')))",message="targetCPUUtilizationPercentage is a percentage of the requested CPU: set resources.requests.cpu to more than 0",fieldPath=".autoscaling.targetCPUUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.resources) && (has(self.resources.requests) && 'memory' in self.resources.requests ? string(self.resources.requests['memory']).matches('^[+]?[0.]*[1-9]') : has(self.resources.limits) && 'memory' in self.resources.limits && string(self.resources.limits['memory']).matches('^[+]?[0.]*[1-9]')))",message="targetMemoryUtilizationPercentage is a percentage of the requested memory: set resources.requests.memory to more than 0",fieldPath=".autoscaling.targetMemoryUtilizationPercentage"
// +kubebuilder:validation:XValidation:rule="!has(self.expose) || (has(self.ports) && self.ports.exists(p, !has(p.protocol) || p.protocol == 'TCP'))",message="expose routes requests to the first TCP port: add one to ports",fieldPath=".expose"
// +kubebuilder:validation:XValidation:rule="!has(self.monitoring) || !has(self.monitoring.enabled) || !self.monitoring.enabled || (has(self.ports) && self.ports.exists(p, !has(p.protocol) || p.protocol == 'TCP'))",message="metrics are scraped from a TCP port: add one to ports",fieldPath=".monitoring"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.type) || self.service.type != 'ClusterIP' || !has(self.ports) || self.ports.all(p, !has(p.nodePort))",message="a Service of type ClusterIP has no node ports: remove the nodePorts, or the type",fieldPath=".service.type"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.pod) || !has(self.pod.initContainers) || self.pod.initContainers.all(c, !has(c.restartPolicy) || [has(self.autoscaling.targetCPUUtilizationPercentage) ? 'cpu' : 'none', has(self.autoscaling.targetMemoryUtilizationPercentage) ? 'memory' : 'none'].all(r, r == 'none' || (has(c.resources) && ((has(c.resources.requests) && r in c.resources.requests) || (has(c.resources.limits) && r in c.resources.limits)))))",message="an autoscaling target is a percentage of the requests of all containers: set the request of each sidecar, too",fieldPath=".pod.initContainers"
type DemoApplicationSpec struct {
	// image is the container image. It runs under the Pod Security Standard
	// Baseline, with the user and the file system of the image.
	// +required
	Image common.Image `json:"image"`

	common.Container  `json:",inline"`
	common.Entrypoint `json:",inline"`

	// resources are the compute resources of the container.
	// +optional
	Resources *common.Resources `json:"resources,omitempty"`

	// pod configures the pods: scheduling, volumes, labels and annotations.
	// +optional
	Pod *common.Pod `json:"pod,omitempty"`

	// security configures the security context of the pods. Unset profile means
	// Baseline for this kind, in which most images run unchanged.
	// +optional
	Security *common.Security `json:"security,omitempty"`

	// replica is the number of pods. Unset means 1; 0 deletes all pods and
	// keeps the Service. It cannot be combined with autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Replica *int32 `json:"replica,omitempty"`

	// replicas is always rejected, because the field of this kind is named
	// replica. It is part of the schema so that clients without strict
	// validation get an error instead of a single pod.
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// ports are the ports of the Service, with the port of the pods for each.
	// Without ports, no Service is created. Unless service.type is set, the
	// type is NodePort if any port has a nodePort, and otherwise ClusterIP.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:XValidation:rule="self.size() <= 1 || self.all(p, has(p.name))",message="each port must have a name if there is more than one",reason=FieldValueRequired
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.name) || self.exists_one(q, has(q.name) && q.name == p.name))",message="the name of a port must be unique"
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port && (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP')))",message="a port can be listed once for each protocol"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.nodePort) || self.exists_one(q, has(q.nodePort) && q.nodePort == p.nodePort && (q.port != p.port || (has(q.protocol) ? q.protocol : 'TCP') == (has(p.protocol) ? p.protocol : 'TCP'))))",message="a nodePort can be used once, or for TCP and UDP of one port"
	// +kubebuilder:validation:XValidation:rule="self.all(p, !has(p.targetPort) || type(p.targetPort) != string || self.exists_one(q, has(q.targetPort) && type(q.targetPort) == string && q.targetPort == p.targetPort))",message="a name in targetPort is the name of one container port and can be used only once; use a number if several ports have the same target"
	Ports []Port `json:"ports,omitempty"`

	// service configures the Service, except for its ports.
	// +optional
	Service *Service `json:"service,omitempty"`

	// expose makes the application reachable from outside of the cluster under
	// host names, which are routed to the first TCP port.
	// +optional
	Expose *common.Expose `json:"expose,omitempty"`

	// autoscaling sets the number of pods by their load, instead of replica.
	// When you remove it, set replica, or the number becomes 1.
	// +optional
	Autoscaling *common.Autoscaling `json:"autoscaling,omitempty"`

	// podDisruptionBudget configures how many pods may be evicted at the same
	// time, such as during a node drain. Unset means one, if there is more than
	// one pod.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy restricts the connections to the pods. Unset means no
	// restriction. It requires a network plugin that enforces NetworkPolicies.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// monitoring makes Prometheus scrape the metrics of the application, at the
	// path /metrics of the TCP port named metrics, or else of the first TCP
	// port.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.resources)",message="this kind has no exporter; remove the field",fieldPath=".resources",reason=FieldValueForbidden
	Monitoring *common.Monitoring `json:"monitoring,omitempty"`

	// rollout configures how changes are rolled out, and what happens if a
	// rollout fails. Unset restartOnConfigChange means false for this kind.
	// +optional
	Rollout *Rollout `json:"rollout,omitempty"`

	// paused stops changes to all children, regardless of the spec, except that
	// their owner references follow deletionPolicy. The status is still updated,
	// and the object can be deleted.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy defines what happens to the children when this object is
	// deleted. Delete, the default, deletes them. Orphan keeps them running,
	// and they are no longer managed.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// Rollout configures how changes are rolled out, what runs before, and what
// happens if a rollout fails.
//
// +kubebuilder:validation:XValidation:rule="!has(self.requestCounter) || has(self.canary) && has(self.canary.maxErrorRatio)",message="set canary.maxErrorRatio, too, or remove requestCounter",fieldPath=".requestCounter"
type Rollout struct {
	common.Rollout `json:",inline"`

	// before is a command of the new image, such as a migration, which must succeed
	// before a revision is rolled out. It runs once for each revision, in a Job
	// with the environment, the volumes and the security of the pods. If it fails,
	// nothing is changed, until the spec or restartedAt changes.
	// +optional
	Before *common.Before `json:"before,omitempty"`

	// requestCounter is the Prometheus counter of requests that canary.maxErrorRatio
	// applies to.
	// +optional
	RequestCounter *RequestCounter `json:"requestCounter,omitempty"`
}

// RequestCounter is a counter in the metrics of each pod, in the text format.
type RequestCounter struct {
	// port of the metrics. Unset means the TCP port named metrics, or else the first one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// path of the metrics. Unset means /metrics.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^/[!-~]*$`
	Path string `json:"path,omitempty"`

	// name of the counter. Unset means http_requests_total.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_:][a-zA-Z0-9_:]*$`
	Name string `json:"name,omitempty"`

	// label contains the status. Unset means code, status or status_code.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-zA-Z_][a-zA-Z0-9_]*$`
	Label string `json:"label,omitempty"`
}

// Inputs returns the fields that a revision depends on, or nil if none is set.
func (r *Rollout) Inputs() *Rollout {
	if r == nil || r.RestartedAt == nil && r.Before == nil {
		return nil
	}
	in := &Rollout{Before: r.Before}
	in.RestartedAt = r.RestartedAt
	return in
}

// Shared returns the fields that kinds have in common. r may be nil.
func (r *Rollout) Shared() *common.Rollout {
	if r == nil {
		return nil
	}
	return &r.Rollout
}

// Service configures the Service, except for its ports.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || !has(oldSelf.type) || self.type != 'LoadBalancer' || oldSelf.type != 'LoadBalancer' || has(self.loadBalancerClass) == has(oldSelf.loadBalancerClass)",message="loadBalancerClass cannot be added or removed while the type is LoadBalancer; change the type first",fieldPath=".loadBalancerClass"
type Service struct {
	// type is ClusterIP, NodePort or LoadBalancer. Unset means NodePort if any
	// port has a nodePort, and otherwise ClusterIP.
	// +optional
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`

	common.ServiceOptions `json:",inline"`
}

// Port is a port of the Service.
type Port struct {
	// name of the port. It is required if there is more than one port. While it changes,
	// new connections are refused for one to two seconds.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// protocol of the port. Unset means TCP.
	// +optional
	// +kubebuilder:validation:Enum=TCP;UDP;SCTP
	Protocol corev1.Protocol `json:"protocol,omitempty"`

	// appProtocol is a hint for proxies about the protocol of the application:
	// a standard name such as https, or a prefixed name such as
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

	// targetPort is the port on which the container listens. Unset, or 0, means
	// the value of port. If it is a name, the container port gets that name and
	// the number of port.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:Pattern=`^([0-9]+-)*[0-9]*[a-z][a-z0-9]*(-[a-z0-9]+)*$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || (self >= 0 && self <= 65535)",message="must be a name, or a number from 0 to 65535"
	TargetPort *intstr.IntOrString `json:"targetPort,omitempty"`

	// nodePort is the port on every node. If it is not available, the operator
	// waits for it and does not use another one. If only some ports of a
	// Service set it, Kubernetes allocates the others.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	NodePort *int32 `json:"nodePort,omitempty"`
}

// DemoApplicationStatus defines the observed state of a DemoApplication.
type DemoApplicationStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// updatedReplicas is the number of pods of the current revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`

	// selector selects the pods, in the format of kubectl -l.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// addresses are the URLs of the application, those with the widest scope
	// first.
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

// PodLabels returns the labels by which the pods are selected.
func (d *DemoApplication) PodLabels() map[string]string {
	return map[string]string{"app": d.Name, PodLabel: d.Name}
}

// GetStatus returns the part of the status that all kinds have in common.
func (d *DemoApplication) GetStatus() *common.Status { return &d.Status.Status }

// GetRollout returns how changes are rolled out, or nil for the defaults.
func (d *DemoApplication) GetRollout() *common.Rollout { return d.Spec.Rollout.Shared() }

// GetRolloutStatus returns the observed state of rollouts.
func (d *DemoApplication) GetRolloutStatus() *common.RolloutStatus { return &d.Status.RolloutStatus }

// GetDeletionPolicy returns the deletion policy, or its default.
func (d *DemoApplication) GetDeletionPolicy() common.DeletionPolicy {
	if d.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return d.Spec.DeletionPolicy
}
