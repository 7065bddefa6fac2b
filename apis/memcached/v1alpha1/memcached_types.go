package v1alpha1

import (
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
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^\S+$`
	Image string `json:"image,omitempty"`

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
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isInteger() && quantity(string(self)).asInteger() % 1048576 == 0",message="must be whole MiB, such as 64Mi or 1Gi"
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('2Mi')) >= 0 && quantity(string(self)).compareTo(quantity('1Ti')) <= 0",message="must be between 2Mi and 1Ti: memcached does not start with less than two items of the largest size"
	Size *resource.Quantity `json:"size,omitempty"`
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
	common.Status `json:",inline"`

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

	// image is the image that serves: the one that was asked for, once all its
	// pods are available, and the previous one until then.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image,omitempty"`

	// memory is what a node may use.
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
