package immortalcontainer

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// inputs returns a hash of the fields of the spec from which the pod is created and
// which cannot change while it runs. The pod is annotated with it. The image,
// labels and annotations are omitted, because they can be changed in place.
//
// As long as the hash is the same, the pod is kept: changes that a newer operator
// would make are applied to the next pod. Unset fields have to be omitted from the
// JSON, so that a field that is added by a later version does not change the hash.
func inputs(i *immortalv1alpha1.ImmortalContainer) string {
	s := i.Spec.DeepCopy()
	s.Image, s.NetworkPolicy, s.Suspend, s.Paused, s.DeletionPolicy = "", nil, false, false, ""
	if s.Pod != nil {
		s.Pod.Labels, s.Pod.Annotations = nil, nil
		if equality.Semantic.DeepEqual(*s.Pod, common.Pod{}) {
			s.Pod = nil
		}
	}
	hashed, err := hash.Of("", s)
	if err != nil {
		panic(fmt.Sprintf("%T has no JSON: %v", s, err)) // it was decoded from JSON
	}
	return hashed
}

// madeOf reports whether a pod was created from the current spec, so that it can be
// kept.
func madeOf(p *corev1.Pod, i *immortalv1alpha1.ImmortalContainer) bool {
	return p.Annotations[naming.AnnotationTemplate] == inputs(i)
}

// gated reports whether a pod is waiting to be counted.
func gated(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
}

// pod returns the intent of the pod, which may exist.
func pod(i *immortalv1alpha1.ImmortalContainer, o Observed) apply.Intent {
	if live := o.Pod; live != nil {
		return existing(i, live, gated(live) && !counted(i, live))
	}
	in := fresh(i, nil, true)
	// A pod that was not observed may exist: that of an earlier operator, or one
	// that lost its label. A gate can be removed from a running pod but not added,
	// and whether to remove it is decided once the pod is observed.
	in.IfExists = func(live client.Object) apply.Intent {
		p, ok := live.(*corev1.Pod)
		if !ok {
			return fresh(i, nil, true)
		}
		return existing(i, p, gated(p))
	}
	return in
}

// existing returns the intent of a pod that exists. waits says that it keeps its
// gate.
//
// A pod that is counted, but waits because it was not observed, is kept even if it
// was created from another spec. Once it is observed, its count is reverted, and
// then it is deleted.
func existing(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod, waits bool) apply.Intent {
	if madeOf(live, i) || waits && counted(i, live) {
		if spec, stated, ok := asItIs(live); ok {
			return intent(i, live, live.Annotations[naming.AnnotationTemplate], spec, stated, waits)
		}
	}
	in := fresh(i, live, waits)
	in.Replace = rejectedAsImmutable
	return in
}

// rejectedAsImmutable reports whether a pod was rejected because the live one cannot be
// updated to the intent, so that it has to be recreated. A spec that is invalid for
// any pod is rejected because of other fields; then the running pod is kept.
func rejectedAsImmutable(refused error) bool {
	return fault.OnlyCause(refused, func(field string) bool { return field == "spec" || field == "spec.tolerations" })
}

// annotationStated is the annotation of the pod that contains the fields of its
// spec that were applied when it was created, except for the image. They are
// applied again while the pod exists: the API server treats omitted fields as
// removed, which is not allowed for a live pod, and another version of the operator
// would apply other fields.
const annotationStated = naming.Domain + "/stated"

// mostStated is the maximum length of that annotation in bytes. A pod with more
// fields has no annotation, and is recreated by the first operator that would
// create it differently.
const mostStated = 64 << 10

// fresh returns the intent of the pod as this version of the operator creates it.
func fresh(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod, waits bool) apply.Intent {
	spec := podSpec(i)
	return intent(i, live, inputs(i), spec, encode(spec), waits)
}

// intent returns the intent of a pod with that spec, which was created from the
// inputs with the hash template. waits says that the pod waits to be counted, and
// therefore has the gate. live is nil if the pod does not exist yet.
//
// Only the fields that can change in a live pod are hashed: the others cannot
// drift, and both fresh and asItIs can be their source.
func intent(i *immortalv1alpha1.ImmortalContainer, live *corev1.Pod, template string, spec *corev1ac.PodSpecApplyConfiguration, stated string, waits bool) apply.Intent {
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
			WithLabels(resources.PodLabels(i.Spec.Pod, i.PodLabels())).
			WithAnnotations(resources.PodAnnotations(i.Spec.Pod)).
			WithAnnotations(map[string]string{naming.AnnotationTemplate: template, annotationImage: encode(record)}).
			WithSpec(s)
		if len(stated) <= mostStated {
			ac.WithAnnotations(map[string]string{annotationStated: stated})
		}
		both[k] = apply.New(ac, func() *corev1.Pod { return &corev1.Pod{} })
	}
	both[0].HashIntent = &both[1]
	both[0].OnRelease = liftGate
	return both[0]
}

// liftGate removes the gate of a pod that is released: without the operator it
// would never be counted.
func liftGate(live client.Object) {
	if p, ok := live.(*corev1.Pod); ok {
		p.Spec.SchedulingGates = slices.DeleteFunc(p.Spec.SchedulingGates, func(g corev1.PodSchedulingGate) bool { return g.Name == gate })
	}
}

// podSpec returns the spec of a new pod, without its image.
func podSpec(i *immortalv1alpha1.ImmortalContainer) *corev1ac.PodSpecApplyConfiguration {
	// The default is the baseline Pod Security Standard: an image runs as the user
	// that it names, even as root, and can write to its own files.
	ofPod, ofContainer := resources.SecurityContexts(i.Spec.Security, resources.SecurityDefaults{Profile: common.SecurityBaseline})
	c := corev1ac.Container().WithName(containerName).WithSecurityContext(ofContainer)
	spec := resources.PodSpec().WithSecurityContext(ofPod)
	resources.Customize(spec, c, resources.Options{
		Container: i.Spec.Container, Entrypoint: i.Spec.Entrypoint, Resources: i.Spec.Resources, Pod: i.Spec.Pod,
	})
	return spec.WithContainers(c)
}

// asItIs returns the fields of a live pod that were applied when it was created,
// with their current values. stated is its annotation of these fields; ok is false
// if there is no valid one.
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
		return nil, "", false // another client has changed the annotation
	}
	return spec, stated, slices.ContainsFunc(spec.Containers, func(c corev1ac.ContainerApplyConfiguration) bool {
		return c.Name != nil && *c.Name == containerName
	})
}

// values returns the fields of stated with the values that they have in live. Lists
// and maps that are atomic, or whose elements cannot be matched, are those of live,
// because admission may have added to them.
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
			case !there: // an empty value, which is omitted
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

// sameKey reports whether two elements of a list are the same: containers, volumes
// and environment variables are compared by name, mounts by path.
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
		panic(fmt.Sprintf("%T has no JSON: %v", v, err)) // it was decoded from JSON
	}
	return string(raw)
}

func decode(raw string, into *map[string]any) {
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		panic(fmt.Sprintf("the JSON of an object is none: %v", err)) // encode produced it
	}
}
