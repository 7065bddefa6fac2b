// Package policy validates objects against the platform configuration, and
// returns warnings about them. Rules that do not depend on the platform
// configuration are in the schemas of the kinds and in the sibling packages.
//
// Everything here is pure. Each message names the platform configuration as the
// reason, and the remedy.
package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// Verdict is the result of validating an object.
type Verdict struct {
	// Refused are the validation errors.
	Refused field.ErrorList
	// Warnings are shown to the user who sent the object.
	Warnings []string
}

// ask is what an object of any kind asks for. A kind sets the fields that its
// spec has.
type ask struct {
	namespace string
	images    []image

	replicas    number // of pods, if the object sets it
	autoscaling *common.Autoscaling
	budget      *common.PodDisruptionBudget

	services  []service
	nodePorts []number
	expose    *common.Expose
	pod       *common.Pod

	serviceAnnotations map[string]common.AnnotationValue
}

type image struct {
	at   *field.Path
	name string
}

// number is a number and the field that sets it, which is nil if none does.
type number struct {
	at *field.Path
	n  int32
}

// service is a type of Service and the field that asks for it.
type service struct {
	at   *field.Path
	kind corev1.ServiceType
}

var spec = field.NewPath("spec")

// judge validates the request against the platform configuration.
func (a ask) judge(p config.Platform) Verdict {
	var v Verdict
	pod := spec.Child("pod")
	if a.pod != nil {
		for i, volume := range a.pod.Volumes {
			if volume.Image != nil {
				a.images = append(a.images, image{pod.Child("volumes").Index(i).Child("image", "reference"), volume.Image.Reference})
			}
		}
	}
	for _, i := range a.images {
		v.judgeImage(i, p.Images)
	}
	v.judgeReplicas(a.replicas, p)
	if s := a.autoscaling; s != nil {
		v.judgeReplicas(number{spec.Child("autoscaling", "maxReplicas"), s.MaxReplicas}, p)
	}
	for _, s := range a.services {
		if !slices.Contains(p.ServiceTypes, s.kind) {
			v.refuse(field.Forbidden(s.at, fmt.Sprintf("the platform configuration allows only Services of type %[2]s, and this field asks for type %[1]s", s.kind, types(p.ServiceTypes))))
		}
	}
	v.Refused = append(v.Refused, p.RefusesExpose(a.namespace, a.expose, spec.Child("expose"))...)
	v.judgeAnnotations(spec.Child("service", "annotations"), a.serviceAnnotations, p)
	if a.expose != nil && a.expose.Ingress != nil {
		v.judgeAnnotations(spec.Child("expose", "ingress", "annotations"), a.expose.Ingress.Annotations, p)
	}
	if a.pod != nil && a.pod.PriorityClassName != "" && !p.AllowsPriorityClass(a.pod.PriorityClassName) {
		v.refuse(field.Forbidden(pod.Child("priorityClassName"), fmt.Sprintf(
			"the platform configuration does not allow priority class %q (priorityClasses is [%s]): use an allowed one, or remove priorityClassName", a.pod.PriorityClassName, strings.Join(p.PriorityClasses, ", "))))
	}
	if a.pod != nil && a.pod.ServiceAccountName != "" && !p.ServiceAccounts {
		v.refuse(field.Forbidden(pod.Child("serviceAccountName"), config.NoServiceAccounts))
	}
	a.warn(&v)
	return v
}

func (v *Verdict) judgeAnnotations(at *field.Path, annotations map[string]common.AnnotationValue, p config.Platform) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if !p.AllowsAnnotation(key) {
			v.refuse(field.Forbidden(at.Key(key), fmt.Sprintf(
				"the platform configuration does not allow this annotation (annotations is [%s]): remove it", strings.Join(p.Annotations, ", "))))
		}
	}
}

// warn adds warnings about settings that are allowed but have no effect.
func (a ask) warn(v *Verdict) {
	least := int32(1)
	if s := a.autoscaling; s != nil {
		if s.MinReplicas != nil {
			least = *s.MinReplicas
		}
	} else if a.replicas.at != nil {
		least = a.replicas.n
	}
	if a.budget != nil && least == 1 {
		v.warn("%s: there may be a single pod, which a drain of its node evicts regardless of the budget: set at least two replicas", spec.Child("podDisruptionBudget"))
	}
	if a.replicas.at != nil && a.replicas.n == 0 {
		for _, n := range a.nodePorts {
			v.warn("%s: node port %d stays allocated although %s is 0, and nothing answers on it", n.at, n.n, a.replicas.at)
		}
	}
}

func (v *Verdict) judgeImage(i image, p config.Images) {
	if i.name == "" {
		return // the platform's default, or rejected by the schema
	}
	if !p.Allows(i.name) {
		v.refuse(field.Forbidden(i.at, fmt.Sprintf("the platform configuration allows images only from %s, and this is %s", strings.Join(p.Allowed, ", "), excerpt(i.name))))
	}
	if !config.Moving(i.name) {
		return
	}
	switch p.Latest {
	case config.LatestRefuse:
		v.refuse(field.Forbidden(i.at, fmt.Sprintf("the platform configuration rejects images without a fixed version, such as %s: specify a version or a digest", excerpt(i.name))))
	case config.LatestWarn:
		v.warn("%s: %s has no fixed version, so that a rollback may not restore the previous image: specify a version or a digest", i.at, excerpt(i.name))
	}
}

func (v *Verdict) judgeReplicas(r number, p config.Platform) {
	if r.at != nil && r.n > p.MaxReplicas {
		v.refuse(field.Invalid(r.at, r.n, fmt.Sprintf("must be %d or less, as set in the platform configuration", p.MaxReplicas)))
	}
}

func (v *Verdict) refuse(e *field.Error) { v.Refused = append(v.Refused, e) }

func (v *Verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// Scale validates a request to change the number of pods. A request that does
// not increase the number is always allowed.
func Scale(old, now *autoscalingv1.Scale, p config.Platform) field.ErrorList {
	if now.Spec.Replicas <= old.Spec.Replicas {
		return nil
	}
	var v Verdict
	v.judgeReplicas(number{spec.Child("replicas"), now.Spec.Replicas}, p)
	return v.Refused
}

func types(all []corev1.ServiceType) string {
	words := make([]string, len(all))
	for i, t := range all {
		words[i] = string(t)
	}
	return strings.Join(words, ", ")
}

// excerpt shortens the name of an image, because the API server truncates long
// warnings.
func excerpt(name string) string {
	const most = 80
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
