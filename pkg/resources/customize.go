package resources

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
)

// Options are the user's settings for the pods. Each kind fills them from its
// spec, and omits those that it does not offer.
type Options struct {
	common.Container
	common.Entrypoint
	Resources *common.Resources
	Pod       *common.Pod

	// ReadinessPort is the first TCP port of the container. The default
	// readiness probe connects to it. If it is 0, there is no such port and no
	// default probe.
	ReadinessPort int32
	// Selector selects the pods. By default they are spread over nodes and, if
	// there are any, over zones. If it is nil, as for a single pod, they are not.
	Selector map[string]string
	// RevisionLabel is the label whose value differs between the pods of two
	// revisions. If it is "", it is the one of Deployments.
	RevisionLabel string
	// Reserved are names of volumes that the kind adds after Customize.
	Reserved []string
	// Rename returns the name of the ConfigMap to mount or read instead of
	// another one. If it is nil, names are not changed. Kinds whose pods are
	// replaced when the configuration changes use immutable snapshots.
	Rename func(configMap string) string
}

// Customize applies the user's settings to the pod and the container that a
// kind built. The kind's settings remain where the user has none.
func Customize(pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration, o Options) {
	// The last output of a container often contains the only reason of a
	// failure: if there is no termination message, the end of the log is kept.
	container.WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
	if r := o.Resources; r != nil {
		container.WithResources(Requirements(r))
	}
	container.WithEnv(o.env()...).WithEnvFrom(o.envFrom()...)
	if len(o.Command) > 0 {
		container.Command = slices.Clone(o.Command)
	}
	if len(o.Args) > 0 {
		container.Args = slices.Clone(o.Args)
	}
	if container.Image != nil {
		container.WithImagePullPolicy(cmp.Or(o.ImagePullPolicy, config.DefaultPull(*container.Image)))
	} else if o.ImagePullPolicy != "" {
		// The image of a pod is mutable and the policy is not: an applied
		// policy could not follow the image.
		container.WithImagePullPolicy(o.ImagePullPolicy)
	}
	for _, s := range o.ImagePullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	o.probes(container)
	o.place(pod)
	o.mount(pod, container)
}

// Requirements converts the resources of a container.
func Requirements(r *common.Resources) *corev1ac.ResourceRequirementsApplyConfiguration {
	return as[corev1ac.ResourceRequirementsApplyConfiguration](r)
}

func (o Options) env() []*corev1ac.EnvVarApplyConfiguration {
	env := each[corev1ac.EnvVarApplyConfiguration](o.Env)
	for _, e := range env {
		if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			o.rename(e.ValueFrom.ConfigMapKeyRef.Name)
		}
	}
	return env
}

func (o Options) envFrom() []*corev1ac.EnvFromSourceApplyConfiguration {
	sources := each[corev1ac.EnvFromSourceApplyConfiguration](o.EnvFrom)
	for _, s := range sources {
		if s.ConfigMapRef != nil {
			o.rename(s.ConfigMapRef.Name)
		}
	}
	return sources
}

func (o Options) rename(name *string) {
	if o.Rename != nil {
		*name = o.Rename(*name)
	}
}

// Uses returns the fields of the user's settings that refer to ConfigMaps, and
// those that refer to Secrets, in the order of the spec. Image pull secrets are
// not included, because the pods cannot read them.
func Uses(o Options) (configMaps, secrets []configsource.Use) {
	add := func(to *[]configsource.Use, field, name string, optional *bool) {
		*to = append(*to, configsource.Use{Field: field, Name: name, Optional: ptr.Deref(optional, false)})
	}
	ofEnv := func(of string, env []common.EnvVar) {
		for _, e := range env {
			field := of + ".env[" + e.Name + "]"
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				add(&configMaps, field, e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Optional)
			}
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				add(&secrets, field, e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Optional)
			}
		}
	}
	ofEnv("spec", o.Env)
	for i, e := range o.EnvFrom {
		field := fmt.Sprintf("spec.envFrom[%d]", i)
		if e.ConfigMapRef != nil {
			add(&configMaps, field, e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
		}
		if e.SecretRef != nil {
			add(&secrets, field, e.SecretRef.Name, e.SecretRef.Optional)
		}
	}
	if o.Pod == nil {
		return configMaps, secrets
	}
	for _, c := range o.Pod.InitContainers {
		ofEnv("spec.pod.initContainers["+c.Name+"]", c.Env)
	}
	for _, v := range o.Pod.Volumes {
		field := "spec.pod.volumes[" + v.Name + "]"
		if v.ConfigMap != nil {
			add(&configMaps, field, v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Secret != nil {
			add(&secrets, field, v.Secret.SecretName, v.Secret.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				add(&configMaps, field, s.ConfigMap.Name, s.ConfigMap.Optional)
			}
			if s.Secret != nil {
				add(&secrets, field, s.Secret.Name, s.Secret.Optional)
			}
		}
	}
	return configMaps, secrets
}

func (o Options) probes(container *corev1ac.ContainerApplyConfiguration) {
	p := ptr.Deref(o.Probes, common.Probes{})
	switch {
	case p.Readiness != nil:
		container.WithReadinessProbe(probe(p.Readiness))
	case o.ReadinessPort != 0:
		container.WithReadinessProbe(TCPReadiness(int(o.ReadinessPort)))
	}
	// There is no default liveness probe: a wrong one restarts a container that
	// is only slow.
	if p.Liveness != nil {
		container.WithLivenessProbe(probe(p.Liveness))
	}
	if p.Startup != nil {
		container.WithStartupProbe(probe(p.Startup))
	}
}

// probe sets every number, to the default of Kubernetes if the user has not set
// it, so that a manual change is drift.
func probe(p *common.Probe) *corev1ac.ProbeApplyConfiguration {
	ac := as[corev1ac.ProbeApplyConfiguration](p).
		WithInitialDelaySeconds(ptr.Deref(p.InitialDelaySeconds, 0)).
		WithPeriodSeconds(ptr.Deref(p.PeriodSeconds, 10)).
		WithTimeoutSeconds(ptr.Deref(p.TimeoutSeconds, 1)).
		WithSuccessThreshold(ptr.Deref(p.SuccessThreshold, 1)).
		WithFailureThreshold(ptr.Deref(p.FailureThreshold, 3))
	if get := ac.HTTPGet; get != nil {
		if get.Path == nil {
			get.WithPath("/")
		}
		if get.Scheme == nil {
			get.WithScheme(corev1.URISchemeHTTP)
		}
	}
	return ac
}

// place sets the fields that determine where the pods run.
func (o Options) place(pod *corev1ac.PodSpecApplyConfiguration) {
	p := ptr.Deref(o.Pod, common.Pod{})
	// Nodes with Windows often have no taint.
	pod.WithNodeSelector(map[string]string{corev1.LabelOSStable: string(corev1.Linux)}).WithNodeSelector(config.Texts(p.NodeSelector))
	pod.WithTolerations(each[corev1ac.TolerationApplyConfiguration](p.Tolerations)...)
	if p.Affinity != nil {
		pod.WithAffinity(as[corev1ac.AffinityApplyConfiguration](p.Affinity))
	}
	if p.PriorityClassName != "" {
		pod.WithPriorityClassName(p.PriorityClassName)
	}
	if p.RuntimeClassName != "" {
		pod.WithRuntimeClassName(p.RuntimeClassName)
	}
	if name := p.ServiceAccountName; name != "" {
		// Kubernetes copies one name of the field into the other, and removes
		// only the applied one when it is no longer applied. Therefore both are
		// applied.
		pod.WithServiceAccountName(name).WithDeprecatedServiceAccount(name).WithAutomountServiceAccountToken(true)
	}
	if p.TerminationGracePeriodSeconds != nil {
		pod.WithTerminationGracePeriodSeconds(*p.TerminationGracePeriodSeconds)
	}
	o.spread(pod, p)
}

// spread adds the user's topology spread constraints or, if there are none,
// preferences to spread the pods over nodes and zones. Each revision is spread
// separately, so that pods that a rollout is about to delete do not affect the
// distribution of the new ones.
func (o Options) spread(pod *corev1ac.PodSpecApplyConfiguration, p common.Pod) {
	constraints := p.TopologySpreadConstraints
	if len(constraints) == 0 && len(o.Selector) > 0 {
		prefer := func(key string) common.TopologySpreadConstraint {
			return common.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway}
		}
		constraints = append(constraints, prefer(corev1.LabelHostname))
		if prefersPods(p.Affinity) {
			// The scheduler adds up the weights of all terms, so that another
			// one would change what the user's mean.
			constraints = append(constraints, prefer(corev1.LabelTopologyZone))
		} else {
			o.avoidZones(pod)
		}
	}
	spread := each[corev1ac.TopologySpreadConstraintApplyConfiguration](constraints)
	for _, c := range spread {
		if c.LabelSelector == nil && len(o.Selector) > 0 {
			c.WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(o.Selector)).WithMatchLabelKeys(o.revisionLabel())
		}
	}
	pod.WithTopologySpreadConstraints(spread...)
}

// prefersPods reports whether the user has preferences for the pods that are
// near.
func prefersPods(a *common.Affinity) bool {
	return a != nil && (a.PodAffinity != nil && len(a.PodAffinity.Preferred) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.Preferred) > 0)
}

// avoidZones adds the preference for zones without other pods of the revision.
// It is not a constraint, because the scheduler ignores all preferred
// constraints on a node that lacks the label of any of them: without zones, pods
// would not be spread over nodes either.
func (o Options) avoidZones(pod *corev1ac.PodSpecApplyConfiguration) {
	if pod.Affinity == nil {
		pod.WithAffinity(corev1ac.Affinity())
	}
	if pod.Affinity.PodAntiAffinity == nil {
		pod.Affinity.WithPodAntiAffinity(corev1ac.PodAntiAffinity())
	}
	pod.Affinity.PodAntiAffinity.WithPreferredDuringSchedulingIgnoredDuringExecution(corev1ac.WeightedPodAffinityTerm().
		WithWeight(100).
		WithPodAffinityTerm(corev1ac.PodAffinityTerm().
			WithTopologyKey(corev1.LabelTopologyZone).
			WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(o.Selector)).
			WithMatchLabelKeys(o.revisionLabel())))
}

func (o Options) revisionLabel() string {
	if o.RevisionLabel == "" {
		return "pod-template-hash"
	}
	return o.RevisionLabel
}

// fileMode is the default mode of files in volumes in Kubernetes, 0644.
const fileMode = 0o644

// volumes returns the user's volumes. References to container resources use the
// given container.
func (o Options) volumes(container string) []*corev1ac.VolumeApplyConfiguration {
	if o.Pod == nil {
		return nil
	}
	fields := func(items []corev1ac.DownwardAPIVolumeFileApplyConfiguration) {
		for _, i := range items {
			if i.ResourceFieldRef != nil {
				i.ResourceFieldRef.WithContainerName(container)
			}
		}
	}
	volumes := each[corev1ac.VolumeApplyConfiguration](o.Pod.Volumes)
	for _, v := range volumes {
		switch {
		case v.ConfigMap != nil:
			o.rename(v.ConfigMap.Name)
			v.ConfigMap.DefaultMode = new(ptr.Deref(v.ConfigMap.DefaultMode, fileMode))
		case v.Secret != nil:
			v.Secret.DefaultMode = new(ptr.Deref(v.Secret.DefaultMode, fileMode))
		case v.DownwardAPI != nil:
			fields(v.DownwardAPI.Items)
			v.DownwardAPI.DefaultMode = new(ptr.Deref(v.DownwardAPI.DefaultMode, fileMode))
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					o.rename(s.ConfigMap.Name)
				}
				if s.DownwardAPI != nil {
					fields(s.DownwardAPI.Items)
				}
			}
			v.Projected.DefaultMode = new(ptr.Deref(v.Projected.DefaultMode, fileMode))
		case v.Image != nil && v.Image.Reference != nil:
			v.Image.WithPullPolicy(cmp.Or(ptr.Deref(v.Image.PullPolicy, ""), config.DefaultPull(*v.Image.Reference)))
		}
	}
	return volumes
}

// mount adds the user's volumes. A volume that has the name of one of the
// kind's volumes is renamed, so that a later version can add volumes to a kind
// without a conflict. A mount replaces one of the kind's at the same path.
func (o Options) mount(pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration) {
	if o.Pod == nil {
		return
	}
	names := map[string]string{}
	for _, v := range pod.Volumes {
		names[*v.Name] = "" // used by the kind
	}
	for _, name := range o.Reserved {
		names[name] = ""
	}
	for _, v := range o.Pod.Volumes {
		if _, taken := names[v.Name]; !taken {
			names[v.Name] = v.Name
		}
	}
	for _, v := range o.volumes(*container.Name) {
		if names[*v.Name] == "" {
			names[*v.Name] = unlike(names, *v.Name)
		}
		pod.WithVolumes(v.WithName(names[*v.Name]))
	}
	for _, m := range each[corev1ac.VolumeMountApplyConfiguration](o.Pod.VolumeMounts) {
		m.WithName(names[*m.Name])
		same := func(theirs corev1ac.VolumeMountApplyConfiguration) bool {
			return path(*theirs.MountPath) == path(*m.MountPath)
		}
		container.VolumeMounts = slices.DeleteFunc(container.VolumeMounts, same)
		container.WithVolumeMounts(m)
	}
	o.initContainers(pod, container.SecurityContext, names)
}

// initContainers adds the user's init containers. names are those of the volumes, by what the
// user calls them.
func (o Options) initContainers(pod *corev1ac.PodSpecApplyConfiguration, secure *corev1ac.SecurityContextApplyConfiguration, names map[string]string) {
	for _, said := range o.Pod.InitContainers {
		its := Options{Container: common.Container{Env: said.Env, Probes: said.Probes}, Rename: o.Rename}
		c := as[corev1ac.ContainerApplyConfiguration](said).
			WithImagePullPolicy(cmp.Or(said.ImagePullPolicy, config.DefaultPull(said.Image))).
			WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError).
			WithSecurityContext(secure)
		c.Env = nil
		its.probes(c.WithEnv(its.env()...))
		for i := range c.VolumeMounts {
			c.VolumeMounts[i].WithName(names[*c.VolumeMounts[i].Name])
		}
		pod.WithInitContainers(c)
	}
}

// unlike returns an unused name for a volume.
func unlike(names map[string]string, name string) string {
	for i := 0; ; i++ {
		prefix := fmt.Sprintf("user%d-", i)
		other := prefix + name[:min(len(name), 63-len(prefix))]
		other = strings.TrimRight(other, "-")
		if _, taken := names[other]; !taken {
			names[other] = other
			return other
		}
	}
}

// path normalizes a mount path for comparison: /tmp/ is /tmp.
func path(p string) string { return strings.TrimRight(p, "/") }

// PodLabels returns the labels of the pods: the user's and the kind's own,
// which take precedence because the pods are selected by them.
func PodLabels(p *common.Pod, own map[string]string) map[string]string {
	labels := map[string]string{}
	if p != nil {
		maps.Copy(labels, config.Texts(p.Labels))
	}
	maps.Copy(labels, own)
	return labels
}

// annotationEvictable is the annotation of pods that lists the emptyDir volumes with
// which the cluster autoscaler may evict them, to remove their node.
const annotationEvictable = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"

// PodAnnotations returns the annotations for the pods: the user's, and one that lists
// the kind's own empty volumes in addition to those of the user.
func PodAnnotations(p *common.Pod, scratch ...string) map[string]string {
	annotations := map[string]string{}
	if p != nil {
		maps.Copy(annotations, config.Texts(p.Annotations))
	}
	if theirs := annotations[annotationEvictable]; len(scratch) > 0 && theirs != "" {
		scratch = append(slices.Clone(scratch), theirs)
	}
	if len(scratch) > 0 {
		annotations[annotationEvictable] = strings.Join(scratch, ",")
	}
	return annotations
}

// Drain makes the container keep serving for some seconds after the deletion of
// its pod began, so that proxies and load balancers can stop routing requests
// to it before it ends: as long as the user's settings say, or else unset. A
// grace period that the user set limits the duration, so that the container still
// receives SIGTERM before it is killed.
func Drain(pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration, p *common.Pod, unset int64) {
	if p == nil {
		p = &common.Pod{}
	}
	seconds := ptr.Deref(p.DrainSeconds, unset)
	grace := ptr.Deref(p.TerminationGracePeriodSeconds, config.GracePeriod(seconds))
	pod.WithTerminationGracePeriodSeconds(grace)
	if seconds = min(seconds, grace-1); seconds > 0 {
		container.WithLifecycle(corev1ac.Lifecycle().
			WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(seconds))))
	}
}

// lostNode are the taints of a node that does not respond, or is not ready. Kubernetes
// lets pods that do not tolerate them stay for five minutes.
var lostNode = []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable}

// OnNodes applies what the platform decides about pods on their nodes: they stay on a lost
// node for some seconds only, unless the user tolerates the same taint, and may run in a
// user namespace.
func OnNodes(pod *corev1ac.PodSpecApplyConfiguration, platform config.Pods) {
	if platform.UserNamespaces {
		pod.WithHostUsers(false)
	}
	for _, taint := range lostNode {
		if !slices.ContainsFunc(pod.Tolerations, func(t corev1ac.TolerationApplyConfiguration) bool {
			key, effect := ptr.Deref(t.Key, ""), ptr.Deref(t.Effect, "")
			return (key == taint || key == "") && (effect == corev1.TaintEffectNoExecute || effect == "")
		}) {
			pod.WithTolerations(corev1ac.Toleration().WithKey(taint).WithOperator(corev1.TolerationOpExists).
				WithEffect(corev1.TaintEffectNoExecute).WithTolerationSeconds(platform.TolerationSeconds))
		}
	}
}

// leavesLostNodes reports whether OnNodes may have added the toleration.
func leavesLostNodes(t corev1ac.TolerationApplyConfiguration) bool {
	return slices.Contains(lostNode, ptr.Deref(t.Key, "")) && ptr.Deref(t.Operator, "") == corev1.TolerationOpExists &&
		ptr.Deref(t.Effect, "") == corev1.TaintEffectNoExecute && ptr.Deref(t.TolerationSeconds, config.LongestToleration+1) <= config.LongestToleration
}

// as converts a type of the API to an apply configuration. Both have the same
// JSON, so the conversion cannot fail; a test checks every field of these
// types.
func as[AC any](said any) *AC {
	raw, err := json.Marshal(said)
	if err != nil {
		panic(fmt.Sprintf("%T has no JSON: %v", said, err))
	}
	ac := new(AC)
	if err := json.Unmarshal(raw, ac); err != nil {
		panic(fmt.Sprintf("%T is no %T: %v", said, ac, err))
	}
	return ac
}

func each[AC, Said any](said []Said) []*AC {
	var acs []*AC
	for _, s := range said {
		acs = append(acs, as[AC](s))
	}
	return acs
}
