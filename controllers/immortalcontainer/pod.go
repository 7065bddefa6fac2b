package immortalcontainer

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// labels select the pod. The first is the article's; the second keeps it apart
// from pods of other kinds, which have that too.
func labels(i *immortalv1alpha1.ImmortalContainer) map[string]string {
	return map[string]string{"app": i.Name, "immortalcontainer_cr": i.Name}
}

// inputs are what of a spec a pod is made from and cannot change while it
// lives, as a hash that the pod carries. The image, labels and annotations are
// left out: they change in place.
//
// While the inputs stay the pod does, too: what a newer operator would make of
// them is for the next pod. Fields that are unset have to be left out of the
// JSON, so that one that a later version adds is no change.
func inputs(i *immortalv1alpha1.ImmortalContainer) string {
	s := i.Spec.DeepCopy()
	s.Image, s.NetworkPolicy, s.Suspend, s.Paused, s.DeletionPolicy = "", nil, false, false, ""
	if s.Pod != nil {
		s.Pod.Labels, s.Pod.Annotations = nil, nil
		if equality.Semantic.DeepEqual(*s.Pod, common.Pod{}) {
			s.Pod = nil
		}
	}
	var sorted map[string]any // so that the order of our types does not matter
	decode(encode(s), &sorted)
	h := fnv.New64a()
	h.Write([]byte(encode(sorted))) // a hash never fails to write
	return strconv.FormatUint(h.Sum64(), 16)
}

// madeOf tells whether a pod was made from what the spec says now, so that it
// can stay.
func madeOf(p *corev1.Pod, i *immortalv1alpha1.ImmortalContainer) bool {
	return p.Annotations[naming.AnnotationTemplate] == inputs(i)
}

// gated tells whether a pod waits to be counted.
func gated(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
}

// pod is the pod that should be, whether it exists or not.
func pod(i *immortalv1alpha1.ImmortalContainer, o Observed) apply.Intent {
	if live := o.Pod; live != nil {
		return existing(i, live, gated(live) && !counted(i, live))
	}
	in := fresh(i, nil, true)
	// A pod may exist that was not observed: that of an earlier operator, or one
	// that lost its label. A gate can be lifted but never put on a pod that runs,
	// and whether to lift it is decided once the pod is observed.
	in.IfExists = func(live client.Object) apply.Intent {
		p, ok := live.(*corev1.Pod)
		if !ok {
			return fresh(i, nil, true)
		}
		return existing(i, p, gated(p))
	}
	return in
}

// existing is the pod that should be, for one that exists.
func existing(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod, waits bool) apply.Intent {
	if madeOf(live, i) {
		if spec, stated, ok := asItIs(live); ok {
			return intent(i, live, spec, stated, waits)
		}
	}
	in := fresh(i, live, waits)
	in.Replace = unchangeable
	return in
}

// unchangeable tells whether a pod was refused because one that stands cannot
// become what is stated, so that it has to be made anew. A spec that is no
// pod's is refused for other fields, and then what runs is left running.
func unchangeable(refused error) bool {
	return fault.OnlyCause(refused, func(field string) bool { return field == "spec" || field == "spec.tolerations" })
}

// annotationStated is on the pod: what of its spec we stated when it was made,
// but for the image. Whatever of it we stop stating the API server takes for
// taken away, which no pod that stands allows; and an operator of another
// version would state something else.
const annotationStated = naming.Domain + "/stated"

// mostStated is how long that may be. A pod of which more is stated is made
// anew by the first operator that would make it differently.
const mostStated = 64 << 10

// fresh is the pod as this operator makes it.
func fresh(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod, waits bool) apply.Intent {
	spec := podSpec(i)
	return intent(i, live, spec, encode(spec), waits)
}

// intent is the pod of that spec, behind the gate while it waits to be counted.
// live is nil if there is no pod yet.
//
// It is hashed by nothing but what can change in a pod that stands: the rest
// cannot drift, and it may be stated in either of two ways.
func intent(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod, spec *corev1ac.PodSpecApplyConfiguration, stated string, waits bool) apply.Intent {
	image, record := statedImage(i, live)
	changing := corev1ac.PodSpec().WithContainers(corev1ac.Container().WithName(containerName))
	var both [2]apply.Intent
	for k, s := range []*corev1ac.PodSpecApplyConfiguration{spec, changing} {
		for c := range s.Containers {
			if *s.Containers[c].Name == containerName {
				s.Containers[c].WithImage(image)
			}
		}
		if waits {
			s.WithSchedulingGates(corev1ac.PodSchedulingGate().WithName(gate))
		}
		ac := corev1ac.Pod(podName(i), i.Namespace).
			WithLabels(resources.PodLabels(i.Spec.Pod, labels(i))).
			WithAnnotations(resources.PodAnnotations(i.Spec.Pod)).
			WithAnnotations(map[string]string{naming.AnnotationTemplate: inputs(i), annotationImage: encode(record)}).
			WithSpec(s)
		if len(stated) <= mostStated {
			ac.WithAnnotations(map[string]string{annotationStated: stated})
		}
		both[k] = apply.New(ac, func() *corev1.Pod { return &corev1.Pod{} })
	}
	both[0].HashAs = &both[1]
	both[0].OnRelease = liftGate
	return both[0]
}

// liftGate lets a released pod run: without the operator it is never counted.
func liftGate(live client.Object) {
	if p, ok := live.(*corev1.Pod); ok {
		p.Spec.SchedulingGates = slices.DeleteFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
	}
}

// podSpec is what a new pod is made from, but for its image.
func podSpec(i *immortalv1alpha1.ImmortalContainer) *corev1ac.PodSpecApplyConfiguration {
	// The standard baseline, unless the user is stricter: an image runs as the
	// user it names, root included, and may write its own files.
	ofPod, ofContainer := resources.SecurityContexts(i.Spec.Security, resources.SecurityDefaults{Profile: common.SecurityBaseline})
	c := corev1ac.Container().WithName(containerName).WithSecurityContext(ofContainer)
	spec := resources.PodSpec().WithSecurityContext(ofPod)
	resources.Customize(spec, c, resources.Options{
		Container: i.Spec.Container, Entrypoint: i.Spec.Entrypoint, Resources: i.Spec.Resources, Pod: i.Spec.Pod,
	})
	return spec.WithContainers(c)
}

// asItIs is the spec of a pod that stands: the very fields that were stated
// when it was made, with the values that they have now. stated is what it says
// of that itself; ok is false where it does not.
func asItIs(p *corev1.Pod) (spec *corev1ac.PodSpecApplyConfiguration, stated string, ok bool) {
	stated = p.Annotations[annotationStated]
	var fields, live map[string]any
	if json.Unmarshal([]byte(stated), &fields) != nil {
		return nil, "", false
	}
	decode(encode(&p.Spec), &live)
	spec = &corev1ac.PodSpecApplyConfiguration{}
	raw, err := json.Marshal(values(fields, live))
	if err != nil || json.Unmarshal(raw, spec) != nil {
		return nil, "", false // somebody wrote something else into it
	}
	return spec, stated, slices.ContainsFunc(spec.Containers, func(c corev1ac.ContainerApplyConfiguration) bool {
		return c.Name != nil && *c.Name == containerName
	})
}

// values are the fields of stated with the values that they have in live.
// Where a list or map is one value, it is that of live: admission may have
// added to it.
func values(stated, live any) any {
	switch s := stated.(type) {
	case map[string]any:
		l, ok := live.(map[string]any)
		if !ok {
			return stated
		}
		all := make(map[string]any, len(s))
		for k, v := range s {
			switch lv, there := l[k]; {
			case !there: // an empty value, which is left out
				all[k] = v
			case k == "nodeSelector", k == "httpHeaders":
				all[k] = lv
			default:
				all[k] = values(v, lv)
			}
		}
		return all
	case []any:
		l, ok := live.([]any)
		if !ok {
			return stated
		}
		all := make([]any, 0, len(s))
		for _, e := range s {
			i := slices.IndexFunc(l, func(le any) bool { return sameKey(e, le) })
			if i < 0 {
				return live
			}
			all = append(all, values(e, l[i]))
		}
		return all
	default:
		switch live.(type) {
		case map[string]any, []any:
			return stated
		}
		return live
	}
}

// sameKey tells whether two elements of a list are the same: containers,
// volumes and variables by their name, mounts by their path.
func sameKey(a, b any) bool {
	am, _ := a.(map[string]any)
	bm, _ := b.(map[string]any)
	for _, key := range []string{"mountPath", "name"} {
		if am[key] != nil {
			return am[key] == bm[key]
		}
	}
	return false
}

func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("%T has no JSON: %v", v, err)) // it came as JSON
	}
	return string(raw)
}

func decode(raw string, into *map[string]any) {
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		panic(fmt.Sprintf("the JSON of an object is none: %v", err)) // encode made it
	}
}
