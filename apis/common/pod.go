package common

import (
	"slices"

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

// Pod contains the settings of the pods that kinds have in common. Everything
// that is not listed, such as paths of the node, is not supported: permission to
// create the object grants no more than pods of its security profile and, only
// if the platform configuration allows them, init containers, and the permissions
// of the service accounts of its namespace.
//
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",message="each of volumeMounts must name one of volumes",fieldPath=".volumeMounts"
// +kubebuilder:validation:XValidation:rule="!has(self.drainSeconds) || !has(self.terminationGracePeriodSeconds) || self.drainSeconds < self.terminationGracePeriodSeconds",message="drainSeconds must be less than terminationGracePeriodSeconds, because it is part of that time",fieldPath=".drainSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.initContainers) || self.initContainers.all(c, !has(c.volumeMounts) || c.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name)))",message="each of volumeMounts must name one of the volumes of the pod",fieldPath=".initContainers"
type Pod struct {
	// labels of the pods. Labels by which the operator selects the pods take
	// precedence.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="keys must be names such as example.com/key"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('platform-operator.io/') && !(k in ['app.kubernetes.io/managed-by', 'pod-template-hash', 'controller-revision-hash']))",message="labels of the operator and of Kubernetes cannot be set"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k.lowerAscii()).hasValue())",message="keys must be names such as example.com/key"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.contains('platform-operator.io/') && !k.contains('security.beta.kubernetes.io/') && !k.contains('security.alpha.kubernetes.io/') && !k.startsWith('kubernetes.io/config.') && k != 'controller.kubernetes.io/pod-deletion-cost')",message="annotations of the operator, and annotations that change the privileges of a pod, cannot be set"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('scheduler.alpha.kubernetes.io/'))",message="annotations of the scheduler are deprecated: use tolerations, affinity and nodeSelector"
	// +kubebuilder:validation:XValidation:rule="['kubernetes.io/ingress-bandwidth', 'kubernetes.io/egress-bandwidth'].all(k, !(k in self) || isQuantity(self[k]))",message="a bandwidth must be a quantity such as 10M"
	// +kubebuilder:validation:XValidation:rule="self.map(k, bytes(k).size() + bytes(self[k]).size()).sum() <= 163840",message="keys and values must have at most 163840 bytes in all"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`

	// nodeSelector lists the labels that a node must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, !format.qualifiedName().validate(k).hasValue())",message="keys must be names such as example.com/key"
	NodeSelector map[string]LabelValue `json:"nodeSelector,omitempty"`

	// tolerations allow the pods to run on nodes with these taints.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// affinity configures on which nodes the pods run, and near to or away from
	// which other pods of the namespace.
	// +optional
	Affinity *Affinity `json:"affinity,omitempty"`

	// topologySpreadConstraints configure how evenly the pods are distributed.
	// Unset distributes them over nodes and, if there are any, over zones, as
	// far as possible.
	// +optional
	// +listType=map
	// +listMapKey=topologyKey
	// +listMapKey=whenUnsatisfiable
	// +kubebuilder:validation:MaxItems=8
	TopologySpreadConstraints []TopologySpreadConstraint `json:"topologySpreadConstraints,omitempty"`

	// priorityClassName is the priority class of the pods. System priority
	// classes are not allowed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('system-')",message="system priority classes are not allowed"
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// runtimeClassName is the container runtime. Unset means the default of the
	// node.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	RuntimeClassName string `json:"runtimeClassName,omitempty"`

	// serviceAccountName is the service account of the pods, whose token is
	// then mounted. It is rejected unless the platform configuration allows it.
	// Unset means default, without its token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// drainSeconds is how long a pod keeps serving after its deletion began,
	// before its program is told to terminate. It is part of
	// terminationGracePeriodSeconds. Unset means the value in the platform
	// configuration, by default 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	DrainSeconds *int64 `json:"drainSeconds,omitempty"`

	// terminationGracePeriodSeconds is how long a pod may take to terminate.
	// Unset means 30, or 25 more than a drainSeconds of more than 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// volumes of the pod, which volumeMounts mount into the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Volumes []Volume `json:"volumes,omitempty"`

	// volumeMounts define where the volumes are mounted in the container. A
	// mount at a path that the operator uses replaces the operator's mount.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=32
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`

	// initContainers run one after another, before the container of the kind is
	// started. One with restartPolicy Always is a sidecar: it keeps running, and
	// the next one starts as soon as its startup probe has succeeded. All have the
	// security context of the container of the kind. They are rejected unless the
	// platform configuration allows them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	InitContainers []InitContainer `json:"initContainers,omitempty"`
}

// InitContainer is a container that is started before the container of the kind.
//
// +kubebuilder:validation:XValidation:rule="!has(self.probes) || has(self.restartPolicy)",message="probes need restartPolicy Always: a container that ends is not probed",fieldPath=".probes",reason=FieldValueForbidden
type InitContainer struct {
	// name of the container, which no container of the operator has.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// image of the container.
	// +required
	Image Image `json:"image"`

	// imagePullPolicy defines when the image is pulled. Unset means Always for the
	// tag latest and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// command replaces the entrypoint of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.size() == 0 || self[0] != ''",message="the first element is the program to run, and must not be empty"
	// +kubebuilder:validation:XValidation:rule="self.all(a, !a.contains('\\x00'))",message="must not contain NUL characters"
	Command []string `json:"command,omitempty"`

	// args replace the arguments of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.all(a, !a.contains('\\x00'))",message="must not contain NUL characters"
	Args []string `json:"args,omitempty"`

	// restartPolicy Always makes the container a sidecar. Unset means that it has
	// to end before the next one starts.
	// +optional
	// +kubebuilder:validation:Enum=Always
	RestartPolicy corev1.ContainerRestartPolicy `json:"restartPolicy,omitempty"`

	// env are environment variables of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []EnvVar `json:"env,omitempty"`

	// resources are the compute resources of the container.
	// +optional
	Resources *Resources `json:"resources,omitempty"`

	// volumeMounts define where volumes of the pod are mounted in the container.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=16
	VolumeMounts []VolumeMount `json:"volumeMounts,omitempty"`

	// probes check whether a sidecar has started, is ready and is alive. The pod
	// is ready only while all its sidecars are.
	// +optional
	Probes *Probes `json:"probes,omitempty"`
}

// AllVolumeMounts returns those of all containers that the spec sets.
func (p *Pod) AllVolumeMounts() []VolumeMount {
	all := slices.Clone(p.VolumeMounts)
	for _, c := range p.InitContainers {
		all = append(all, c.VolumeMounts...)
	}
	return all
}

// Toleration tolerates a taint of a node.
//
// +kubebuilder:validation:XValidation:rule="has(self.operator) && self.operator == 'Exists' ? !has(self.value) || self.value.size() == 0 : has(self.key)",message="key is required for operator Equal, and value forbidden for Exists"
// +kubebuilder:validation:XValidation:rule="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",message="tolerationSeconds can be set only for effect NoExecute",fieldPath=".tolerationSeconds"
type Toleration struct {
	// key of the taint. Unset, with operator Exists, means all taints.
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

	// effect of the taint. Unset means all effects.
	// +optional
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long the taint is tolerated. Unset means
	// forever.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// Affinity configures on which nodes, and near to or away from which pods, the
// pods run.
type Affinity struct {
	// nodeAffinity selects nodes to run on.
	// +optional
	NodeAffinity *NodeAffinity `json:"nodeAffinity,omitempty"`

	// podAffinity selects pods to run near to.
	// +optional
	PodAffinity *PodAffinity `json:"podAffinity,omitempty"`

	// podAntiAffinity selects pods to run away from.
	// +optional
	PodAntiAffinity *PodAffinity `json:"podAntiAffinity,omitempty"`
}

// NodeAffinity selects nodes to run on.
type NodeAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must be met for a pod to
	// be scheduled.
	// +optional
	Required *NodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution is met if possible.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Preferred []PreferredSchedulingTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// NodeSelector selects nodes.
type NodeSelector struct {
	// nodeSelectorTerms are alternatives, at least one of which must match.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	NodeSelectorTerms []NodeSelectorTerm `json:"nodeSelectorTerms"`
}

// PreferredSchedulingTerm is a preference for nodes.
type PreferredSchedulingTerm struct {
	// weight of the preference, from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// preference selects the nodes.
	// +required
	Preference NodeSelectorTerm `json:"preference"`
}

// NodeSelectorTerm selects nodes by their labels.
type NodeSelectorTerm struct {
	// matchExpressions are requirements on labels, all of which must be met.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	MatchExpressions []NodeSelectorRequirement `json:"matchExpressions"`
}

// NodeSelectorRequirement is a requirement on a label of a node.
//
// +kubebuilder:validation:XValidation:rule="self.operator in ['In', 'NotIn'] ? has(self.values) && self.values.size() > 0 : self.operator in ['Gt', 'Lt'] ? has(self.values) && self.values.size() == 1 && self.values[0].matches('^[0-9]{1,18}$') : !has(self.values) || self.values.size() == 0",message="operators In and NotIn require values, and Gt and Lt one number; Exists and DoesNotExist must have none",fieldPath=".values"
type NodeSelectorRequirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	Key string `json:"key"`

	// operator is the relation of the label to the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist;Gt;Lt
	Operator corev1.NodeSelectorOperator `json:"operator"`

	// values that the operator compares with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Values []LabelValue `json:"values,omitempty"`
}

// PodAffinity selects pods to run near to, or away from.
type PodAffinity struct {
	// requiredDuringSchedulingIgnoredDuringExecution must all be met for a pod
	// to be scheduled.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Required []PodAffinityTerm `json:"requiredDuringSchedulingIgnoredDuringExecution,omitempty"`

	// preferredDuringSchedulingIgnoredDuringExecution are met if possible.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Preferred []WeightedPodAffinityTerm `json:"preferredDuringSchedulingIgnoredDuringExecution,omitempty"`
}

// WeightedPodAffinityTerm is a preference to run near to, or away from, pods.
type WeightedPodAffinityTerm struct {
	// weight of the preference, from 1 to 100.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Weight int32 `json:"weight"`

	// podAffinityTerm selects the pods.
	// +required
	PodAffinityTerm PodAffinityTerm `json:"podAffinityTerm"`
}

// PodAffinityTerm selects pods of the same namespace.
type PodAffinityTerm struct {
	// labelSelector selects the pods.
	// +required
	LabelSelector LabelSelector `json:"labelSelector"`

	// topologyKey is the label of nodes whose value defines a topology domain,
	// such as topology.kubernetes.io/zone.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	TopologyKey string `json:"topologyKey"`
}

// LabelSelector selects objects by their labels. All requirements must be met;
// {} selects all objects.
type LabelSelector struct {
	// matchLabels are labels that must have these values.
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
// +kubebuilder:validation:XValidation:rule="(has(self.values) && self.values.size() > 0) == (self.operator in ['In', 'NotIn'])",message="operators In and NotIn require values; Exists and DoesNotExist must have none",fieldPath=".values"
type LabelSelectorRequirement struct {
	// key of the label.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	Key string `json:"key"`

	// operator is the relation of the label to the values.
	// +required
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator string `json:"operator"`

	// values that the operator compares with.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	Values []LabelValue `json:"values,omitempty"`
}

// TopologySpreadConstraint configures how evenly the pods are distributed over
// topology domains.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minDomains) || self.whenUnsatisfiable == 'DoNotSchedule'",message="minDomains can be set only for whenUnsatisfiable DoNotSchedule",fieldPath=".minDomains"
type TopologySpreadConstraint struct {
	// maxSkew is the largest allowed difference between the numbers of pods in
	// two domains.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxSkew int32 `json:"maxSkew"`

	// topologyKey is the label of nodes whose value defines a topology domain,
	// such as topology.kubernetes.io/zone.
	// +required
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="!format.qualifiedName().validate(self).hasValue()",message="must be a name such as example.com/key"
	TopologyKey string `json:"topologyKey"`

	// whenUnsatisfiable is DoNotSchedule, which leaves pods pending, or
	// ScheduleAnyway.
	// +required
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable corev1.UnsatisfiableConstraintAction `json:"whenUnsatisfiable"`

	// labelSelector selects the pods that are counted. Unset means the pods of
	// this object, separately for each revision.
	// +optional
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`

	// minDomains is the minimum number of domains.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinDomains *int32 `json:"minDomains,omitempty"`

	// nodeAffinityPolicy is Honor, which ignores nodes that the affinity of the
	// pods excludes, or Ignore, which counts them. Unset means Honor.
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeAffinityPolicy corev1.NodeInclusionPolicy `json:"nodeAffinityPolicy,omitempty"`

	// nodeTaintsPolicy is Honor, which ignores nodes with taints that the pods
	// do not tolerate, or Ignore, which counts them. Unset means Ignore.
	// +optional
	// +kubebuilder:validation:Enum=Honor;Ignore
	NodeTaintsPolicy corev1.NodeInclusionPolicy `json:"nodeTaintsPolicy,omitempty"`
}

// Volume is a volume of a type that gives no access to the node.
//
// +kubebuilder:validation:ExactlyOneOf=configMap;secret;emptyDir;persistentVolumeClaim;projected;downwardAPI;image
type Volume struct {
	// name by which volumeMounts refer to the volume.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// configMap contains the keys of a ConfigMap as files.
	// +optional
	ConfigMap *ConfigMapVolume `json:"configMap,omitempty"`

	// secret contains the keys of a Secret as files.
	// +optional
	Secret *SecretVolume `json:"secret,omitempty"`

	// emptyDir is a directory that is initially empty and is deleted with the
	// pod.
	// +optional
	EmptyDir *EmptyDirVolume `json:"emptyDir,omitempty"`

	// persistentVolumeClaim refers to a PersistentVolumeClaim of the namespace.
	// +optional
	PersistentVolumeClaim *PersistentVolumeClaimVolume `json:"persistentVolumeClaim,omitempty"`

	// projected combines several sources in one directory.
	// +optional
	Projected *ProjectedVolume `json:"projected,omitempty"`

	// downwardAPI contains fields of the pod as files.
	// +optional
	DownwardAPI *DownwardAPIVolume `json:"downwardAPI,omitempty"`

	// image contains the files of a container image or OCI artifact.
	// +optional
	Image *ImageVolume `json:"image,omitempty"`
}

// KeyToPath maps a key to a file.
type KeyToPath struct {
	// key of the data.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^\.?[-_a-zA-Z0-9][-._a-zA-Z0-9]*$`
	Key string `json:"key"`

	// path of the file in the volume; relative, without "..".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\.?[^./](\.?[^.])*\.?$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must not contain NUL characters"
	Path string `json:"path"`

	// mode of the file; 420 is 0644. Unset means defaultMode.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	Mode *int32 `json:"mode,omitempty"`
}

// ConfigMapVolume contains the keys of a ConfigMap as files.
type ConfigMapVolume struct {
	// name of the ConfigMap.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// items select keys. Unset means all keys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Items []KeyToPath `json:"items,omitempty"`

	// defaultMode of the files. Unset means 420, that is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`

	// optional allows the pod to start without the ConfigMap.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// SecretVolume contains the keys of a Secret as files.
type SecretVolume struct {
	// secretName is the name of the Secret.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	SecretName string `json:"secretName"`

	// items select keys. Unset means all keys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Items []KeyToPath `json:"items,omitempty"`

	// defaultMode of the files. Unset means 420, that is 0644.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=511
	DefaultMode *int32 `json:"defaultMode,omitempty"`

	// optional allows the pod to start without the Secret.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// EmptyDirVolume is a directory that is initially empty and is deleted with the
// pod.
type EmptyDirVolume struct {
	// medium Memory stores the files in memory, which counts towards the memory
	// limit of the container. Unset means the disk of the node.
	// +optional
	// +kubebuilder:validation:Enum="";Memory
	Medium corev1.StorageMedium `json:"medium,omitempty"`

	// sizeLimit is the largest total size of the files. A pod that exceeds it
	// is evicted.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="!string(self).matches('[mun]$|[.][0-9]+$|[.][0-9]{4,}|[eE]-|[eE][-+]?[0-9]{3}') && quantity(string(self)).isLessThan(quantity('1Ei')) && !quantity(string(self)).isLessThan(quantity('0'))",message="must be a whole number of bytes, less than 1Ei, and not be negative, such as 64Mi"
	SizeLimit *resource.Quantity `json:"sizeLimit,omitempty"`
}

// PersistentVolumeClaimVolume refers to a PersistentVolumeClaim of the
// namespace.
type PersistentVolumeClaimVolume struct {
	// claimName is the name of the PersistentVolumeClaim.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ClaimName string `json:"claimName"`

	// readOnly makes all mounts of the volume read-only.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}

// ProjectedVolume combines several sources in one directory.
type ProjectedVolume struct {
	// sources of the files. Two sources must not have the same path.
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
	// configMap contains the keys of a ConfigMap as files.
	// +optional
	ConfigMap *ObjectProjection `json:"configMap,omitempty"`

	// secret contains the keys of a Secret as files.
	// +optional
	Secret *ObjectProjection `json:"secret,omitempty"`

	// downwardAPI contains fields of the pod as files.
	// +optional
	DownwardAPI *DownwardAPIProjection `json:"downwardAPI,omitempty"`
}

// ObjectProjection contains the keys of a ConfigMap or Secret as files.
type ObjectProjection struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// items select keys. Unset means all keys.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Items []KeyToPath `json:"items,omitempty"`

	// optional allows the pod to start without the object.
	// +optional
	Optional *bool `json:"optional,omitempty"`
}

// DownwardAPIProjection contains fields of the pod as files.
type DownwardAPIProjection struct {
	// items are the files.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Items []DownwardAPIFile `json:"items"`
}

// DownwardAPIVolume contains fields of the pod as files.
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

// DownwardAPIFile is a file that contains a field of the pod.
//
// +kubebuilder:validation:ExactlyOneOf=fieldRef;resourceFieldRef
type DownwardAPIFile struct {
	// path of the file in the volume; relative, without "..".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\.?[^./](\.?[^.])*\.?$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must not contain NUL characters"
	Path string `json:"path"`

	// fieldRef selects a field of the pod.
	// +optional
	FieldRef *VolumeFieldSelector `json:"fieldRef,omitempty"`

	// resourceFieldRef selects a request or limit of the container.
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
	// fieldPath is the path of the field, such as metadata.labels.
	// +required
	// +kubebuilder:validation:MaxLength=341
	// +kubebuilder:validation:Pattern=`^metadata\.(name|namespace|uid|labels(\['([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'\])?|annotations(\['([A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?(\.[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'\])?)$`
	FieldPath string `json:"fieldPath"`
}

// ImageVolume contains the files of an image.
type ImageVolume struct {
	// reference is the image, such as registry.example/site:42.
	// +required
	Reference Image `json:"reference"`

	// pullPolicy defines when the image is pulled. Unset means Always for the
	// tag latest and IfNotPresent otherwise.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	PullPolicy corev1.PullPolicy `json:"pullPolicy,omitempty"`
}

// VolumeMount defines where a volume is mounted in the container.
type VolumeMount struct {
	// name of the volume.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// mountPath is the absolute path of the mount. It must not contain ":".
	// +required
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^(/[^/:]+)+$') && !self.matches('/[.]{1,2}(/|$)')",message="must be an absolute path such as /data, without ':', without a slash at its end, without empty, '.' and '..' parts, and not / itself"
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00') && !self.matches('^/(proc(/.*)?|dev|dev/termination-log)$')",message="must not contain NUL characters, and must not be /dev, /dev/termination-log, or in /proc, which the container runtime mounts"
	MountPath string `json:"mountPath"`

	// subPath is the path within the volume to mount; relative, without "..".
	// Such a mount is not updated when a ConfigMap or Secret changes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^\.?[^./](\.?[^.])*\.?$`
	// +kubebuilder:validation:XValidation:rule="!self.contains('\\x00')",message="must not contain NUL characters"
	SubPath string `json:"subPath,omitempty"`

	// readOnly makes the mount read-only.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
}
