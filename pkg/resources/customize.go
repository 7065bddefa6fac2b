package resources

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Options is what a user said about the pods. A kind fills it from its spec
// and leaves out what it does not let a user say.
type Options struct {
	common.Container
	common.Entrypoint
	Resources *common.Resources
	Pod       *common.Pod

	// ReadinessPort is the first TCP port of the container, which the readiness
	// probe connects to where the user has none. 0: there is no such port.
	ReadinessPort int32
	// Selector selects the pods. They are spread over nodes and zones where the
	// user does not say how; nil, for a single pod, leaves that out.
	Selector map[string]string
	// RevisionLabel is the label whose value tells the pods of a revision from
	// those of another. "" means that of Deployments.
	RevisionLabel string
	// Rename returns the name under which a ConfigMap is mounted or read; nil
	// leaves all as they are. What restarts on a change of configuration reads
	// copies that do not change.
	Rename func(configMap string) string
}

// Customize does what the user said to what the kind built. Our container is
// told from others by being given; what the kind has set stays where the user
// said nothing. The grace period is the pod's: call Drain after this.
func Customize(pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration, o Options) {
	// What a container writes last is often all that is left of it: without a
	// termination message the end of its log is kept.
	container.WithTerminationMessagePolicy(corev1.TerminationMessageFallbackToLogsOnError)
	if r := o.Resources; r != nil {
		container.WithResources(as[corev1ac.ResourceRequirementsApplyConfiguration](r))
	}
	container.WithEnv(o.env()...).WithEnvFrom(o.envFrom()...)
	if len(o.Command) > 0 {
		container.Command = slices.Clone(o.Command)
	}
	if len(o.Args) > 0 {
		container.Args = slices.Clone(o.Args)
	}
	if container.Image != nil {
		container.WithImagePullPolicy(PullPolicy(o.ImagePullPolicy, *container.Image))
	} else if o.ImagePullPolicy != "" {
		// The image of a pod can be changed and its policy cannot: what is stated
		// may not follow the image.
		container.WithImagePullPolicy(o.ImagePullPolicy)
	}
	for _, s := range o.ImagePullSecrets {
		pod.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(s.Name))
	}
	o.probes(container)
	o.place(pod)
	o.mount(pod, container)
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

// Use is a place of the spec that names a ConfigMap or a Secret.
type Use struct {
	// Field is the place, such as "spec.pod.volumes[site]".
	Field string
	// Name is the object's.
	Name string
	// Optional says that the pods do without it.
	Optional bool
}

// Names are the names of what is used, sorted, each once.
func Names(uses []Use) []string {
	names := map[string]bool{}
	for _, u := range uses {
		names[u.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// Uses are all places of the user's part of the pods that name ConfigMaps, and
// all that name Secrets, in the order of the spec. Those to pull images with are
// not among them: the pods do not see them.
func Uses(o Options) (configMaps, secrets []Use) {
	add := func(to *[]Use, field, name string, optional *bool) {
		*to = append(*to, Use{field, name, or(optional, false)})
	}
	for _, e := range o.Env {
		field := "spec.env[" + e.Name + "]"
		if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
			add(&configMaps, field, e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Optional)
		}
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			add(&secrets, field, e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Optional)
		}
	}
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
	p := common.Probes{}
	if o.Probes != nil {
		p = *o.Probes
	}
	switch {
	case p.Readiness != nil:
		container.WithReadinessProbe(probe(p.Readiness))
	case o.ReadinessPort != 0:
		container.WithReadinessProbe(TCPReadiness(int(o.ReadinessPort)))
	}
	// Liveness is never inferred: a wrong guess restarts what only is slow.
	if p.Liveness != nil {
		container.WithLivenessProbe(probe(p.Liveness))
	}
	if p.Startup != nil {
		container.WithStartupProbe(probe(p.Startup))
	}
}

// probe states every number, at Kubernetes' default where the user says none,
// so that a change by hand is drift.
func probe(p *common.Probe) *corev1ac.ProbeApplyConfiguration {
	ac := as[corev1ac.ProbeApplyConfiguration](p).
		WithInitialDelaySeconds(or(p.InitialDelaySeconds, 0)).
		WithPeriodSeconds(or(p.PeriodSeconds, 10)).
		WithTimeoutSeconds(or(p.TimeoutSeconds, 1)).
		WithSuccessThreshold(or(p.SuccessThreshold, 1)).
		WithFailureThreshold(or(p.FailureThreshold, 3))
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

// place says where the pods run.
func (o Options) place(pod *corev1ac.PodSpecApplyConfiguration) {
	p := common.Pod{}
	if o.Pod != nil {
		p = *o.Pod
	}
	pod.WithNodeSelector(texts(p.NodeSelector))
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
		// Both names of the field: Kubernetes copies one into the other, and of
		// what we no longer state only what we stated goes.
		pod.WithServiceAccountName(name).WithDeprecatedServiceAccount(name).WithAutomountServiceAccountToken(true)
	}
	if p.TerminationGracePeriodSeconds != nil {
		pod.WithTerminationGracePeriodSeconds(*p.TerminationGracePeriodSeconds)
	}
	pod.WithTopologySpreadConstraints(o.spread(p.TopologySpreadConstraints)...)
}

// spread is the user's constraints, and where there are none a wish: over
// nodes and zones, as far as that goes.
func (o Options) spread(constraints []common.TopologySpreadConstraint) []*corev1ac.TopologySpreadConstraintApplyConfiguration {
	if len(constraints) == 0 && len(o.Selector) > 0 {
		for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
			constraints = append(constraints, common.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.ScheduleAnyway})
		}
	}
	spread := each[corev1ac.TopologySpreadConstraintApplyConfiguration](constraints)
	for _, c := range spread {
		if c.LabelSelector == nil && len(o.Selector) > 0 {
			// Each revision for itself: the pods that a rollout is about to
			// remove must not push the new ones together.
			c.WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(o.Selector)).WithMatchLabelKeys(o.revisionLabel())
		}
	}
	return spread
}

func (o Options) revisionLabel() string {
	if o.RevisionLabel == "" {
		return "pod-template-hash"
	}
	return o.RevisionLabel
}

// fileMode is Kubernetes' default for files of volumes, 0644.
const fileMode = 0o644

// volumes are the user's volumes. Fields of the container are those of ours.
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
			v.ConfigMap.DefaultMode = new(or(v.ConfigMap.DefaultMode, fileMode))
		case v.Secret != nil:
			v.Secret.DefaultMode = new(or(v.Secret.DefaultMode, fileMode))
		case v.DownwardAPI != nil:
			fields(v.DownwardAPI.Items)
			v.DownwardAPI.DefaultMode = new(or(v.DownwardAPI.DefaultMode, fileMode))
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					o.rename(s.ConfigMap.Name)
				}
				if s.DownwardAPI != nil {
					fields(s.DownwardAPI.Items)
				}
			}
			v.Projected.DefaultMode = new(or(v.Projected.DefaultMode, fileMode))
		case v.Image != nil && v.Image.Reference != nil:
			v.Image.WithPullPolicy(PullPolicy(or(v.Image.PullPolicy, ""), *v.Image.Reference))
		}
	}
	return volumes
}

// mount adds the user's volumes. One that has the name of one of the kind's is
// given another, because a kind may get new volumes and the user's names are
// not to know of it; a mount at a path of the kind's takes its place.
func (o Options) mount(pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration) {
	if o.Pod == nil {
		return
	}
	names := map[string]string{}
	for _, v := range pod.Volumes {
		names[*v.Name] = "" // taken by the kind
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
}

// unlike returns a name for a volume that no other has.
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

// path is a mount path as it is compared: /tmp/ is /tmp.
func path(p string) string { return strings.TrimRight(p, "/") }

// PodLabels are the labels of the pods: the user's, and over them the kind's
// own, by which the pods are selected.
func PodLabels(p *common.Pod, own map[string]string) map[string]string {
	labels := map[string]string{}
	if p != nil {
		maps.Copy(labels, texts(p.Labels))
	}
	maps.Copy(labels, own)
	return labels
}

// PodAnnotations are the annotations of the pods that the user asks for.
func PodAnnotations(p *common.Pod) map[string]string {
	if p == nil {
		return nil
	}
	return texts(p.Annotations)
}

// Drain lets the container serve on for that many seconds after the pod was
// told to end: it takes as long until everybody has heard that no request
// should go there. The sleep is cut to less than the pod's grace period, so
// that the container still is asked to end before it is killed.
func Drain(pod *corev1ac.PodSpecApplyConfiguration, container *corev1ac.ContainerApplyConfiguration, seconds int64) {
	seconds = min(seconds, or(pod.TerminationGracePeriodSeconds, 30)-1)
	if seconds < 1 {
		return
	}
	container.WithLifecycle(corev1ac.Lifecycle().
		WithPreStop(corev1ac.LifecycleHandler().WithSleep(corev1ac.SleepAction().WithSeconds(seconds))))
}

// as turns what a user said into what is applied. Both have the same JSON, so
// it cannot fail; a test holds every field of the types to that.
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

// texts is a map of labels or annotations as Kubernetes' own types have it.
func texts[S ~string](m map[string]S) map[string]string {
	if len(m) == 0 {
		return nil
	}
	t := make(map[string]string, len(m))
	for k, v := range m {
		t[k] = string(v)
	}
	return t
}
