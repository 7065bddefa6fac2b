package common

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// LabelValue is the value of a label.
//
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$`
type LabelValue string

// AnnotationValue is the value of an annotation.
//
// +kubebuilder:validation:MaxLength=8192
type AnnotationValue string

// Pod is what a user can say about the pods of every kind. What is not here,
// such as another container or a path of the node, cannot be said: whoever
// may create the object gains no more than pods of its security profile, and,
// only where the platform configuration allows it, the rights of the service
// accounts of its namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",message="each of volumeMounts must name one of volumes",fieldPath=".volumeMounts"
type Pod struct {
	// labels of the pods. Those by which the operator selects the pods stay as
	// they are, whatever is said here.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="keys must be names such as example.com/key"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('platform-operator.io/') && !(k in ['app.kubernetes.io/managed-by', 'pod-template-hash', 'controller-revision-hash']))",message="labels of the operator and of Kubernetes cannot be set"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue())",message="keys must be names such as example.com/key"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('platform-operator.io/') && !k.contains('security.beta.kubernetes.io/') && !k.contains('security.alpha.kubernetes.io/') && !k.startsWith('kubernetes.io/config.') && k != 'controller.kubernetes.io/pod-deletion-cost')",message="annotations of the operator and those by which Kubernetes is told of privileges cannot be set"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="all of them together must have at most 163840 bytes"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// nodeSelector is which labels a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="keys must be names such as example.com/key"
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// tolerations let pods onto nodes with those taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// affinity says which nodes, and which pods of the namespace, the pods
	// should be near to or away from.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints say how evenly the pods are spread. Unset
	// spreads them over nodes and zones as far as that goes.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is how important the pods are. Those of the system
	// cannot be chosen.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="priority classes of the system cannot be chosen"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is what runs the containers. Unset means the node's own.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// serviceAccountName is the service account that the pods run as; its token
	// is then mounted. It is refused unless the platform configuration allows
	// it: whoever may create this object would act with the rights of every
	// service account of the namespace. Unset means default, without its token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// terminationGracePeriodSeconds is how long a pod may take to end. Unset
	// means 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// volumes of the pod, which volumeMounts put into the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Volumes []Volume `json:"volumes,omitempty"`

	// volumeMounts say where the volumes are in the container. One at a path
	// that the operator uses takes its place.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=32
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`
}

// Toleration tolerates a taint of nodes.
//
// +kubebuilder:validation:XValidation:rule="has(self.operator) && self.operator == 'Exists' ? !has(self.value) || self.value.size() == 0 : has(self.key)",message="key is required for operator Equal, and value forbidden for Exists"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",message="tolerationSeconds is for effect NoExecute only",fieldPath=".tolerationSeconds"
type Toleration struct {
	// key of the taint. Unset, with operator Exists, means all.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	Key string `json:"key,omitempty"`

	// operator is Equal or Exists. Unset means Equal.
	// +optional
	// +kubebuilder:validation:Enum=Equal;Exists
	Operator corev1.TolerationOperator `json:"operator,omitempty"`

	// value of the taint.
	// +optional
	Value LabelValue `json:"value,omitempty"`

	// effect of the taint. Unset means all.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is for how long. Unset means for ever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Affinity says what pods should be near to or away from.
type Affinity struct {
	// nodeAffinity says which nodes.
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`

	// podAffinity says near to which pods.
	// +optional
	PodAffinity *PodAffinity `json:"podAffinity,omitempty"`

	// podAntiAffinity says away from which pods.
	// +optional
	PodAntiAffinity *PodAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity says which nodes.
type NodeAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must be met.
	// +optional
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution is met where possible.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Preferred []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector selects nodes.
type NodeSelector struct {
	// nodeSelectorTerms are the alternatives: one of them must hold.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// PreferredSchedulingTerm prefers nodes.
type PreferredSchedulingTerm struct {
	// weight from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// preference is which nodes.
	// +required
	Preference NodeSelectorTerm `json:"preference"`
}

// NodeSelectorTerm selects nodes by their labels.
type NodeSelectorTerm struct {
	// matchExpressions must all hold.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions"`
}

// NodeSelectorRequirement is a requirement on a label of a node.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : self.operator in ['Gt', 'Lt'] ? has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$') : !has(self.values) || self.values.size() == 0",message="In and NotIn need values, Gt and Lt one number, Exists and DoesNotExist none",fieldPath=".values"
type NodeSelectorRequirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	Key string `json:"key"`

	// operator relates the label to the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator corev1.NodeSelectorOperator `json:"operator"`

	// values for the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Values []LabelValue `json:"values,omitempty"`
}

// PodAffinity says near to, or away from, which pods.
type PodAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must all be met.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution are met where possible.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// WeightedPodAffinityTerm prefers to be near to, or away from, pods.
type WeightedPodAffinityTerm struct {
	// weight from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// podAffinityTerm is which pods.
	// +required
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}

// PodAffinityTerm selects pods of the same namespace.
type PodAffinityTerm struct {
	// labelSelector selects the pods.
	// +required
	LabelSelector LabelSelector `json:"labelSelector"`

	// topologyKey is the label of nodes that says which are one place.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	TopologyKey string `json:"topologyKey"`
}

// LabelSelector selects by labels; all of it must hold, and {} selects all.
type LabelSelector struct {
	// matchLabels are labels with their values.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="keys must be names such as example.com/key"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// matchExpressions are requirements on labels.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// LabelSelectorRequirement is a requirement on a label.
//
// +kubebuilder:validation:XValidation:rule="(has(self.values) && self.values.size() > 0) == (self.operator in ['In', 'NotIn'])",message="In and NotIn need values, Exists and DoesNotExist none",fieldPath=".values"
type LabelSelectorRequirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	Key string `json:"key"`

	// operator relates the label to the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`

	// values for the operator.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Values []LabelValue `json:"values,omitempty"`
}

// TopologySpreadConstraint says how evenly the pods are spread.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",message="minDomains is for whenUnsatisfiable DoNotSchedule only",fieldPath=".minDomains"
type TopologySpreadConstraint struct {
	// maxSkew is by how many pods two places may differ.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxSkew int32 `json:"maxSkew"`

	// topologyKey is the label of nodes that says which are one place.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	TopologyKey string `json:"topologyKey"`

	// whenUnsatisfiable is DoNotSchedule, which lets pods wait, or
	// ScheduleAnyway.
	// +required
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`

	// labelSelector selects the pods that are counted. Unset means the pods of
	// this object, those of each revision for themselves.
	// +optional
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`

	// minDomains is how many places there must be.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinDomains *int32 `json:"minDomains,omitempty"`

	// nodeAffinityPolicy says whether nodes that the pods cannot go to for
	// their affinity are left out: Honor, which unset means, or Ignore.
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeAffinityPolicy corev1.NodeInclusionPolicy `json:"nodeAffinityPolicy,omitempty"`

	// nodeTaintsPolicy says whether nodes with taints that the pods do not
	// tolerate are left out: Honor, or Ignore, which unset means.
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeTaintsPolicy corev1.NodeInclusionPolicy `json:"nodeTaintsPolicy,omitempty"`
}

// Volume is a volume of one of the types that give no access to the node.
//
// +kubebuilder:validation:ExactlyOneOf=configMap;secret;emptyDir;persistentVolumeClaim;projected;downwardAPI;image
type Volume struct {
	// name by which volumeMounts refer to the volume.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// configMap holds the keys of a ConfigMap as files.
	// +optional
	ConfigMap *ConfigMapVolume `json:"configMap,omitempty"`

	// secret holds the keys of a Secret as files.
	// +optional
	Secret *SecretVolume `json:"secret,omitempty"`

	// emptyDir is empty at first and goes with the pod.
	// +optional
	EmptyDir *EmptyDirVolume `json:"emptyDir,omitempty"`

	// persistentVolumeClaim is a claim of the namespace.
	// +optional
	PersistentVolumeClaim *PersistentVolumeClaimVolume `json:"persistentVolumeClaim,omitempty"`

	// projected holds several sources in one directory.
	// +optional
	Projected *ProjectedVolume `json:"projected,omitempty"`

	// downwardAPI holds fields of the pod as files.
	// +optional
	DownwardAPI *DownwardAPIVolume `json:"downwardAPI,omitempty"`

	// image holds the files of a container image or OCI artifact.
	// +optional
	Image *ImageVolume `json:"image,omitempty"`
}

// KeyToPath makes a file of a key.
type KeyToPath struct {
	// key of the data.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`

	// path of the file in the volume, relative and without "..".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\.?[^./](\.?[^.])*\.?$`
	Path string `json:"path"`

	// mode of the file; 420 is 0644. Unset means defaultMode.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	Mode *int32 `json:"mode,omitempty"`
}

// ConfigMapVolume holds the keys of a ConfigMap as files.
type ConfigMapVolume struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// items are the keys. Unset means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Items []KeyToPath `json:"items,omitempty"`

	// defaultMode of the files. Unset means 420, that is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`

	// optional says that the pod starts without the ConfigMap, too.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// SecretVolume holds the keys of a Secret as files.
type SecretVolume struct {
	// secretName is the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName"`

	// items are the keys. Unset means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Items []KeyToPath `json:"items,omitempty"`

	// defaultMode of the files. Unset means 420, that is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`

	// optional says that the pod starts without the Secret, too.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// EmptyDirVolume is empty at first and goes with the pod.
type EmptyDirVolume struct {
	// medium Memory keeps it in memory, which counts towards the container's
	// limit. Unset means the node's disk.
	// +optional
	// +kubebuilder:validation:Enum="";Memory
	Medium corev1.StorageMedium `json:"medium,omitempty"`

	// sizeLimit is how much it may hold. A pod that exceeds it is evicted.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[mun]$|[.][0-9]+$|[eE][-+]?[0-9]{3}') && quantity(string(self)).isLessThan(quantity('1Ei')) && !quantity(string(self)).isLessThan(quantity('0'))",message="must be a whole number of bytes, less than 1Ei, and not be negative, such as 64Mi"
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
}

// PersistentVolumeClaimVolume is a claim of the namespace.
type PersistentVolumeClaimVolume struct {
	// claimName is the claim.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ClaimName string `json:"claimName"`

	// readOnly says that no mount of it can be written.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// ProjectedVolume holds several sources in one directory.
type ProjectedVolume struct {
	// sources of the files. No two may write the same path.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Sources []VolumeProjection `json:"sources"`

	// defaultMode of the files. Unset means 420, that is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`
}

// VolumeProjection is a source of files.
//
// +kubebuilder:validation:ExactlyOneOf=configMap;secret;downwardAPI
type VolumeProjection struct {
	// configMap is a ConfigMap.
	// +optional
	ConfigMap *ObjectProjection `json:"configMap,omitempty"`

	// secret is a Secret.
	// +optional
	Secret *ObjectProjection `json:"secret,omitempty"`

	// downwardAPI is fields of the pod.
	// +optional
	DownwardAPI *DownwardAPIProjection `json:"downwardAPI,omitempty"`
}

// ObjectProjection makes files of the keys of a ConfigMap or Secret.
type ObjectProjection struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// items are the keys. Unset means all of them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Items []KeyToPath `json:"items,omitempty"`

	// optional says that the pod starts without the object, too.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// DownwardAPIProjection makes files of fields of the pod.
type DownwardAPIProjection struct {
	// items are the files.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Items []DownwardAPIFile `json:"items"`
}

// DownwardAPIVolume holds fields of the pod as files.
type DownwardAPIVolume struct {
	// items are the files.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Items []DownwardAPIFile `json:"items"`

	// defaultMode of the files. Unset means 420, that is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`
}

// DownwardAPIFile is a file that holds a field of the pod.
//
// +kubebuilder:validation:ExactlyOneOf=fieldRef;resourceFieldRef
type DownwardAPIFile struct {
	// path of the file in the volume, relative and without "..".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\.?[^./](\.?[^.])*\.?$`
	Path string `json:"path"`

	// fieldRef is a field of the pod.
	// +optional
	FieldRef *VolumeFieldSelector `json:"fieldRef,omitempty"`

	// resourceFieldRef is a request or limit of the container.
	// +optional
	ResourceFieldRef *ResourceFieldSelector `json:"resourceFieldRef,omitempty"`

	// mode of the file; 420 is 0644. Unset means defaultMode.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	Mode *int32 `json:"mode,omitempty"`
}

// VolumeFieldSelector selects a field of the pod for a file.
type VolumeFieldSelector struct {
	// fieldPath is the field, such as metadata.labels.
	// +required
	// +kubebuilder:validation:MaxLength=341
	// +kubebuilder:validation:Pattern=`^metadata\.(name|namespace|uid|labels(\['([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'\])?|annotations(\['([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'\])?)$`
	FieldPath string `json:"fieldPath"`
}

// ImageVolume holds the files of an image.
type ImageVolume struct {
	// reference is the image, such as registry.example/site:42.
	// +required
	Reference Image `json:"reference"`

	// pullPolicy says when it is pulled. Unset means Always for the tag latest
	// and IfNotPresent for any other.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// VolumeMount says where a volume is in the container.
type VolumeMount struct {
	// name of the volume.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// mountPath is where it is: an absolute path without ":".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[^/:]+)+$') && !self.matches('/[.]{1,2}(/|$)')",message="must be an absolute path such as /data, without ':', without a slash at its end, without empty, '.' and '..' parts, and not / itself"
	MountPath string `json:"mountPath"`

	// subPath is the part of the volume that is mounted, relative and without
	// "..". Such a mount does not see later changes of a ConfigMap or Secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\.?[^./](\.?[^.])*\.?$`
	SubPath string `json:"subPath,omitempty"`

	// readOnly says that it cannot be written here.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}
