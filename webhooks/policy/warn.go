package policy

import (
	"maps"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// warn adds warnings about settings that are allowed but have no effect, or that make
// rollouts wait for ever.
func (r Request) warn(v *Verdict) {
	least := r.least()
	if r.Budget != nil && least == 1 {
		v.warn("%s: there may be a single pod, which a drain of its node evicts regardless of the budget: set at least two replicas", spec.Child("podDisruptionBudget"))
	}
	if r.Replicas.Field != nil && r.Replicas.Value == 0 {
		for _, n := range r.NodePorts {
			v.warn("%s: node port %d stays allocated although %s is 0, and nothing answers on it", n.Field, n.Value, r.Replicas.Field)
		}
	}
	if r.Container != nil {
		warnEnv(r.Container, v)
	}
	if r.Rollout != nil && r.Rollout.PinnedRevision != nil {
		v.warn("%s: revision %d serves, and changes of the pods have no effect, until this field is removed", spec.Child("rollout", "pinnedRevision"), *r.Rollout.PinnedRevision)
	}
	if r.Pod == nil {
		return
	}
	r.warnPod(v)
	if r.Deployed && startsPodsFirst(r.Rollout, max(least, 1)) {
		r.warnDeadlock(v)
	}
}

// least returns the smallest number of pods that there will be.
func (r Request) least() int32 {
	switch s := r.Autoscaling; {
	case s != nil && s.MinReplicas != nil:
		return *s.MinReplicas
	case s == nil && r.Replicas.Field != nil:
		return r.Replicas.Value
	}
	return 1
}

func (r Request) warnPod(v *Verdict) {
	pod := spec.Child("pod")
	for _, key := range slices.Sorted(maps.Keys(r.Selector)) {
		if value, set := r.Pod.Labels[key]; set && string(value) != r.Selector[key] {
			v.warn("%s: the operator sets this label to another value, and selects the pods by it: remove it", pod.Child("labels").Key(key))
		}
	}
	mounted := map[string]bool{}
	for _, m := range r.Pod.AllVolumeMounts() {
		mounted[m.Name] = true
	}
	if i := slices.IndexFunc(r.Pod.Volumes, func(volume common.Volume) bool { return !mounted[volume.Name] }); i >= 0 {
		v.warn("%s: volume %q is not mounted: add it to %s", pod.Child("volumes").Index(i), r.Pod.Volumes[i].Name, pod.Child("volumeMounts"))
	}
}

// startsPodsFirst reports whether a rollout needs a new pod before it ends one of n old
// ones. A strategy that is set shows that this was considered.
func startsPodsFirst(rollout *common.Rollout, n int32) bool {
	if rollout == nil {
		rollout = &common.Rollout{}
	}
	if rollout.Strategy != "" {
		return false
	}
	surge, unavailable := rollout.Bounds()
	more, err := intstr.GetScaledValueFromIntOrPercent(&surge, int(n), true)
	fewer, err2 := intstr.GetScaledValueFromIntOrPercent(&unavailable, int(n), false)
	return err == nil && err2 == nil && more > 0 && fewer == 0
}

// warnDeadlock adds warnings about pods that cannot run at the same time as those that they replace.
func (r Request) warnDeadlock(v *Verdict) {
	pod, strategy := spec.Child("pod"), spec.Child("rollout", "strategy")
	writable := func(volume common.Volume) bool { c := volume.PersistentVolumeClaim; return c != nil && !c.ReadOnly }
	if i := slices.IndexFunc(r.Pod.Volumes, writable); i >= 0 {
		v.warn("%s: a rollout starts new pods first, which wait for ever if one node or pod alone can use it (ReadWriteOnce): set %s to Recreate, or to RollingUpdate if several can",
			pod.Child("volumes").Index(i).Child("persistentVolumeClaim"), strategy)
	}
	if r.Pod.Affinity == nil || r.Pod.Affinity.PodAntiAffinity == nil {
		return
	}
	own := labels.Merge(config.Texts(r.Pod.Labels), r.Selector)
	if slices.ContainsFunc(r.Pod.Affinity.PodAntiAffinity.Required, func(t common.PodAffinityTerm) bool { return matches(t.LabelSelector, own) }) {
		v.warn("%s: the pods exclude each other, so that a rollout waits for ever without a node for one more: set %s to 1, or %s to RollingUpdate if there is such a node",
			pod.Child("affinity", "podAntiAffinity"), spec.Child("rollout", "maxUnavailable"), strategy)
	}
}

func matches(s common.LabelSelector, own labels.Set) bool {
	selector := metav1.LabelSelector{MatchLabels: config.Texts(s.MatchLabels)}
	for _, e := range s.MatchExpressions {
		values := make([]string, len(e.Values))
		for i, value := range e.Values {
			values[i] = string(value)
		}
		selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: e.Key, Operator: metav1.LabelSelectorOperator(e.Operator), Values: values})
	}
	as, err := metav1.LabelSelectorAsSelector(&selector)
	return err == nil && as.Matches(own)
}

// reference matches $(NAME), and what is escaped, which has no submatch.
var reference = regexp.MustCompile(`\$\$|\$\(([^()]+)\)`)

// warnEnv adds warnings about references to variables that follow: they are not replaced.
func warnEnv(c *common.Container, v *Verdict) {
	if len(c.EnvFrom) > 0 {
		return // it may define them
	}
	position := map[string]int{}
	for i, e := range c.Env {
		position[e.Name] = i
	}
	for i, e := range c.Env {
		for _, found := range reference.FindAllStringSubmatch(e.Value, -1) {
			if at, is := position[found[1]]; is && at >= i {
				v.warn("%s: %s is not replaced, because only variables that precede this one are", spec.Child("env").Index(i).Child("value"), config.Excerpt(found[0]))
				break
			}
		}
	}
}
