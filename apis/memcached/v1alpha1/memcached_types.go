package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the name of the kind.
const Kind = "Memcached"

// PodLabel is the label of a Memcached's pods whose value is its name.
const PodLabel = "memcached_cr"

// MaxNodes is the largest number of entries in status.nodes: 64 pods, and up to
// as many surge pods of a rollout.
const MaxNodes = 128

// Memcached is a cache: a Deployment of memcached pods and a headless Service,
// both with the name of the object. status.nodes lists the pods that are
// serving. Clients distribute their keys over the nodes, which do not
// communicate with each other.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=memcacheds,singular=memcached,shortName=mc,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`,description="desired number of nodes"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="nodes that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`,description="image that serves"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: it becomes the name of a Service"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and contain only lower-case letters, digits and '-': it becomes the name of a Service"
type Memcached struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec defines the desired state of the Memcached.
	// +required
	Spec MemcachedSpec `json:"spec"`

	// status defines the observed state of the Memcached.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MemcachedStatus `json:"status,omitzero"`
}

// MemcachedSpec defines the desired state of a Memcached.
type MemcachedSpec struct {
	// size is the number of nodes, each of which is a pod with its own cache. 0
	// deletes all pods and keeps the Service. After a change, keys move between
	// nodes; how many depends on the hashing of the client.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Size int32 `json:"size"`

	// image is the container image: the official memcached image, Debian or
	// Alpine, or an image based on it. It runs as user 11211 with a read-only
	// root file system. Unset means the default in the platform configuration
	// when the cache is created, and keeps that image from then on, so that a
	// new default does not empty the cache. The current image is in
	// status.image.
	// +optional
	Image common.Image `json:"image,omitempty"`

	// imagePullPolicy defines when the image is pulled. Unset means Always for
	// the tag latest and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets with the credentials for pulling the
	// image.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []common.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// memory configures how much each node stores.
	// +optional
	Memory *MemorySpec `json:"memory,omitempty"`

	// maxConnections is the maximum number of concurrent connections to a node.
	// Unset means 1024. A change replaces the pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MaxConnections *int32 `json:"maxConnections,omitempty"`

	// threads is the number of threads of a node that serve clients. Unset
	// means 4; more threads than processors do not improve throughput. A change
	// replaces the pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Threads *int32 `json:"threads,omitempty"`

	// resources are the compute resources of a node, except memory, which is
	// derived from memory.size, maxConnections and threads.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !('memory' in self.requests)",message="memory is derived from memory.size, maxConnections and threads: see status.memory.containerLimit",fieldPath=".requests",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits)",message="memory is derived from memory.size, maxConnections and threads: see status.memory.containerLimit",fieldPath=".limits",reason=FieldValueForbidden
	Resources *common.Resources `json:"resources,omitempty"`

	// pod configures the pods, such as their scheduling. Volumes are not
	// allowed, because memcached does not read them.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.volumes)",message="memcached reads no volumes; remove the field",fieldPath=".volumes",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts)",message="memcached reads no volumes; remove the field",fieldPath=".volumeMounts",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.drainSeconds)",message="clients would only store items in a node that is about to lose them; remove the field",fieldPath=".drainSeconds",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.initContainers)",message="memcached reads no volumes that another container could fill; remove the field",fieldPath=".initContainers",reason=FieldValueForbidden
	Pod *common.Pod `json:"pod,omitempty"`

	// security configures the security context of the pods. The profile is
	// always Restricted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile == 'Restricted'",message="profile must be Restricted: memcached needs no other privileges",fieldPath=".profile"
	Security *common.Security `json:"security,omitempty"`

	// service configures the Service, which is always headless.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`

	// podDisruptionBudget configures how many pods may be evicted at the same
	// time, such as during a node drain. Unset means one, if size is greater
	// than 1.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy restricts the connections to port 11211. memcached does not
	// authenticate clients.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// rollout configures how changes are rolled out, and what happens if a
	// rollout fails.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.restartOnConfigChange)",message="memcached reads no ConfigMaps; remove the field",fieldPath=".restartOnConfigChange",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.canary) && !has(self.promotedRevision)",message="a cache has no canary; remove canary and promotedRevision",fieldPath=".canary",reason=FieldValueForbidden
	Rollout *common.Rollout `json:"rollout,omitempty"`

	// paused stops changes to all children, except that their owner references
	// follow deletionPolicy. The status is still updated.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy defines what happens to the children when this object is
	// deleted. Delete, the default, deletes them. Orphan keeps them running,
	// and they are no longer managed.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// MemorySpec configures how much each node stores.
type MemorySpec struct {
	// size is the memory of each node for items, in whole MiB, such as 64Mi or
	// 1Gi. Unset means 64Mi. The container needs more, for connections and
	// indexes; its limit is in status.memory.containerLimit. A change replaces
	// the pods, and their items are lost.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][-+]?[0-9]{3}') || quantity(string(self)).isLessThan(quantity('2Mi')) || quantity(string(self)).isGreaterThan(quantity('1Ti')) || (int(quantity(string(self)).asApproximateFloat()) % 1048576 == 0 && double(int(quantity(string(self)).asApproximateFloat())) == quantity(string(self)).asApproximateFloat())",message="must be whole MiB, such as 64Mi or 1Gi"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && quantity(string(self)).compareTo(quantity('2Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="must be between 2Mi and 1Ti: memcached does not start with less than two items of the largest size"
	Size *resource.Quantity `json:"size,omitempty"`
}

// ServiceSpec configures the Service.
type ServiceSpec struct {
	// annotations of the Service, such as the host name for external-dns.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue() && !k.contains('platform-operator.io/'))",message="keys must be names such as example.com/key, outside of platform-operator.io"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="keys and values must have at most 163840 bytes in all"
	Annotations map[string]common.AnnotationValue `json:"annotations,omitempty"`
}

// Phase summarizes the state of a cache.
//
// +kubebuilder:validation:Enum=Pending;Running;Degraded;Failed
type Phase string

const (
	// PhasePending means that no node is serving yet.
	PhasePending Phase = "Pending"
	// PhaseRunning means that the current spec is completely rolled out and serving.
	PhaseRunning Phase = "Running"
	// PhaseDegraded means that only some of the nodes are serving.
	PhaseDegraded Phase = "Degraded"
	// PhaseFailed means that progress requires a change of the spec or of the cluster.
	PhaseFailed Phase = "Failed"
)

// MemcachedStatus defines the observed state of a Memcached.
type MemcachedStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

	// phase summarizes the state; the conditions have the details.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is the reason of the Ready condition.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// size is the desired number of replicas of the Deployment.
	// +optional
	Size int32 `json:"size"`

	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the pods, in the format of kubectl -l.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// nodes are the sorted names of the pods that are serving: ready and not
	// being deleted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes,omitzero"`

	// memory is the memory of a node in the revision in use, which is an
	// earlier one if the rollout of the spec failed.
	// +optional
	Memory *MemoryStatus `json:"memory,omitempty"`
}

// MemoryStatus is the memory of a node.
type MemoryStatus struct {
	// size is the memory for items.
	// +required
	Size resource.Quantity `json:"size"`

	// containerLimit is the memory limit of the container: the memory for
	// items, and what memcached needs in addition.
	// +required
	ContainerLimit resource.Quantity `json:"containerLimit"`
}

// MemcachedList is a list of Memcacheds.
//
// +kubebuilder:object:root=true
type MemcachedList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []Memcached `json:"items"`
}

// PodLabels returns the labels by which the pods are selected. They are those of the legacy
// operator and immutable in a Deployment, so that its objects can be adopted.
func (m *Memcached) PodLabels() map[string]string {
	return map[string]string{"app": "memcached", PodLabel: m.Name}
}

// GetStatus returns the part of the status that all kinds have in common.
func (m *Memcached) GetStatus() *common.Status { return &m.Status.Status }

// GetRollout returns how changes are rolled out, or nil for the defaults.
func (m *Memcached) GetRollout() *common.Rollout { return m.Spec.Rollout }

// GetRolloutStatus returns the observed state of rollouts.
func (m *Memcached) GetRolloutStatus() *common.RolloutStatus { return &m.Status.RolloutStatus }

// GetDeletionPolicy returns the deletion policy, or its default.
func (m *Memcached) GetDeletionPolicy() common.DeletionPolicy {
	if m.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return m.Spec.DeletionPolicy
}
