package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Kind is the kind's name.
const Kind = "Memcached"

// MaxNodes is how many names status.nodes holds at most: 64 pods, and as many
// that a rollout may have beside them.
const MaxNodes = 128

// Memcached is a cache: a Deployment of memcached and a headless Service, both
// named as the object. status.nodes lists the pods that serve. A client
// spreads its keys over them; no node knows of the others.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.size,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:path=memcacheds,singular=memcached,shortName=mc,categories=platform
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.spec.size`,description="nodes that are wanted"
// +kubebuilder:printcolumn:name="Up",type=integer,JSONPath=`.status.readyReplicas`,description="nodes that are ready"
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.status.image`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be no more than 63 characters: it becomes the name of a Service"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must start with a letter and hold only lower-case letters, digits and '-': it becomes the name of a Service"
type Memcached struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what is wanted.
	// +required
	Spec MemcachedSpec `json:"spec"`

	// status is what is there, as the operator last saw it.
	// +optional
	Status MemcachedStatus `json:"status,omitzero"`
}

// MemcachedSpec is what is wanted.
type MemcachedSpec struct {
	// size is the number of nodes, each a pod with a cache of its own. 0 stops
	// all of them and keeps the Service. A change moves keys between nodes, as
	// many as the client's hashing says.
	// +required
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=64
	Size int32 `json:"size"`

	// image is the container image: the stock memcached image, Debian or
	// Alpine, or one built on it. It runs as user 11211 with a read-only root
	// file system. Unset takes the platform's default when the cache is made
	// and keeps it from then on: another default of the platform empties no
	// cache. The image in force is in status.image.
	// +optional
	Image common.Image `json:"image,omitempty"`

	// imagePullPolicy says when the image is pulled. Unset means Always for the
	// tag latest and IfNotPresent for any other.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are the Secrets with which the image is pulled.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	ImagePullSecrets []common.LocalObjectReference `json:"imagePullSecrets,omitempty"`

	// memory says how much each node stores.
	// +optional
	Memory *MemorySpec `json:"memory,omitempty"`

	// maxConnections is how many clients may be connected to a node at the
	// same time. Unset means 1024. A change replaces the pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65536
	MaxConnections *int32 `json:"maxConnections,omitempty"`

	// threads is how many threads of a node serve clients. Unset means 4; more
	// than there are processors helps nobody. A change replaces the pods.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	Threads *int32 `json:"threads,omitempty"`

	// resources are what a node asks for and may use at most beside memory,
	// which follows from memory.size, maxConnections and threads.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !('memory' in self.requests)",message="memory is derived from memory.size, maxConnections and threads; status.memory.containerLimit says how much it is",fieldPath=".requests",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.limits) || !('memory' in self.limits)",message="memory is derived from memory.size, maxConnections and threads; status.memory.containerLimit says how much it is",fieldPath=".limits",reason=FieldValueForbidden
	Resources *common.Resources `json:"resources,omitempty"`

	// pod says more about the pods, such as where they run. Volumes cannot be
	// given: memcached would not read them.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.volumes)",message="a cache reads no volume",fieldPath=".volumes",reason=FieldValueForbidden
	// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts)",message="a cache reads no volume",fieldPath=".volumeMounts",reason=FieldValueForbidden
	Pod *common.Pod `json:"pod,omitempty"`

	// security says how much the pods may do on their node. The profile is
	// always Restricted.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.profile) || self.profile == 'Restricted'",message="profile must be Restricted: memcached needs no more",fieldPath=".profile"
	Security *common.Security `json:"security,omitempty"`

	// service says more about the Service, which is always headless.
	// +optional
	Service *ServiceSpec `json:"service,omitempty"`

	// podDisruptionBudget says how many nodes of the cache a drain of the
	// cluster's nodes may take at a time. Unset means one, where size is
	// greater than 1.
	// +optional
	PodDisruptionBudget *common.PodDisruptionBudget `json:"podDisruptionBudget,omitempty"`

	// networkPolicy says who may connect to port 11211. memcached asks nobody
	// for a password.
	// +optional
	NetworkPolicy *common.NetworkPolicy `json:"networkPolicy,omitempty"`

	// rollout says how a change reaches the pods, and what becomes of one that
	// fails.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.restartOnConfigChange)",message="a cache reads no ConfigMap",fieldPath=".restartOnConfigChange",reason=FieldValueForbidden
	Rollout *common.Rollout `json:"rollout,omitempty"`

	// paused leaves all children as they are, except that their owner references
	// follow deletionPolicy; the status is still kept.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// deletionPolicy says what becomes of the Deployment and the Service when
	// this object is deleted. Delete, the default, deletes them too; Orphan
	// leaves them serving, managed by nobody.
	// +optional
	DeletionPolicy common.DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// MemorySpec says how much each node stores.
type MemorySpec struct {
	// size is the memory of each node for items, in whole MiB: 64Mi, 1Gi.
	// Unset means 64Mi. The container may use more, for connections and
	// indices; its limit is in status.memory.containerLimit. A change replaces
	// the pods, and what they have stored is lost.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="string(self).matches('[eE][-+]?[0-9]{3}') || quantity(string(self)).isLessThan(quantity('2Mi')) || quantity(string(self)).isGreaterThan(quantity('1Ti')) || (int(quantity(string(self)).asApproximateFloat()) % 1048576 == 0 && double(int(quantity(string(self)).asApproximateFloat())) == quantity(string(self)).asApproximateFloat())",message="must be whole MiB, such as 64Mi or 1Gi"
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[eE][-+]?[0-9]{3}') && quantity(string(self)).compareTo(quantity('2Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="must be between 2Mi and 1Ti: memcached does not start with less than two items of the largest size"
	Size *resource.Quantity `json:"size,omitempty"`
}

// ServiceSpec says more about the Service.
type ServiceSpec struct {
	// annotations of the Service, such as the name that external-dns gives it.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue() && !k.contains('platform-operator.io/'))",message="keys must be names such as example.com/key, outside of platform-operator.io"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="all of them together must have at most 163840 bytes"
	Annotations map[string]common.AnnotationValue `json:"annotations,omitempty"`
}

// Phase is the state of a cache in one word.
//
// +kubebuilder:validation:Enum=Pending;Running;Degraded;Failed
type Phase string

const (
	// PhasePending says that no node serves yet.
	PhasePending Phase = "Pending"
	// PhaseRunning says that everything that was asked for serves.
	PhaseRunning Phase = "Running"
	// PhaseDegraded says that some nodes serve, and not all that was asked for.
	PhaseDegraded Phase = "Degraded"
	// PhaseFailed says that it cannot get on without somebody's help.
	PhaseFailed Phase = "Failed"
)

// MemcachedStatus is what is there, as the operator last saw it.
type MemcachedStatus struct {
	common.Status        `json:",inline"`
	common.RolloutStatus `json:",inline"`

	// phase is the state in one word; the conditions say more.
	// +optional
	Phase Phase `json:"phase,omitempty"`

	// reason is the reason of the condition Ready.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`

	// size is the number of nodes that the Deployment is asked for.
	// +optional
	Size int32 `json:"size"`

	// replicas is the number of pods that exist.
	// +optional
	Replicas int32 `json:"replicas"`

	// readyReplicas is the number of pods that are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`

	// selector selects the pods, in the form kubectl -l takes.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Selector string `json:"selector,omitempty"`

	// nodes are the names of the pods that serve, sorted: ready, and not on
	// their way out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	// +kubebuilder:validation:items:MaxLength=253
	Nodes []string `json:"nodes,omitzero"`

	// memory is what a node may use, by the pods that are made now: of an
	// earlier revision, where the spec's failed.
	// +optional
	Memory *MemoryStatus `json:"memory,omitempty"`
}

// MemoryStatus is what a node may use.
type MemoryStatus struct {
	// size is the memory for items.
	// +required
	Size resource.Quantity `json:"size"`

	// containerLimit is the memory limit of the container: what the items
	// take, and what memcached needs beside them.
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

// GetStatus returns the part of the status that every kind has.
func (m *Memcached) GetStatus() *common.Status { return &m.Status.Status }

// GetDeletionPolicy returns the deletion policy in force.
func (m *Memcached) GetDeletionPolicy() common.DeletionPolicy {
	if m.Spec.DeletionPolicy == "" {
		return common.DeletionPolicyDelete
	}
	return m.Spec.DeletionPolicy
}
