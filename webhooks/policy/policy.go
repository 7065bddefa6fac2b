// Package policy says what the platform configuration refuses of an object, and
// what it warns about. What is wrong with an object whatever the platform
// decides is said elsewhere: by the schemas of the kinds, and beside this
// package.
//
// Everything here is pure. Each message says that the platform configuration
// is the reason, and what would be right.
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

// Verdict is what is said of an object.
type Verdict struct {
	// Refused are the faults, each with its field.
	Refused field.ErrorList
	// Warnings are for the eyes of whoever wrote the object.
	Warnings []string
}

// ask is what an object asks for, in the words of no kind. A kind fills in what
// its users can say.
type ask struct {
	namespace string
	images    []image

	replicas    number // of pods, where the object says one
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

// number is a number that an object says, or, where at is nil, does not.
type number struct {
	at *field.Path
	n  int32
}

// service is a type of Service that follows from a field.
type service struct {
	at   *field.Path
	kind corev1.ServiceType
}

var spec = field.NewPath("spec")

// judge says what the platform configuration has to say.
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
			v.refuse(field.Forbidden(s.at, fmt.Sprintf("it makes a Service of type %s, and the platform configuration allows only %s", s.kind, types(p.ServiceTypes))))
		}
	}
	v.Refused = append(v.Refused, p.RefusesExpose(a.namespace, a.expose, spec.Child("expose"))...)
	v.judgeAnnotations(spec.Child("service", "annotations"), a.serviceAnnotations, p)
	if a.expose != nil && a.expose.Ingress != nil {
		v.judgeAnnotations(spec.Child("expose", "ingress", "annotations"), a.expose.Ingress.Annotations, p)
	}
	if a.pod != nil && a.pod.PriorityClassName != "" && !p.AllowsPriorityClass(a.pod.PriorityClassName) {
		v.refuse(field.Forbidden(pod.Child("priorityClassName"), fmt.Sprintf(
			"the platform configuration allows no priority class %q (priorityClasses is [%s]); take another, or remove it", a.pod.PriorityClassName, strings.Join(p.PriorityClasses, ", "))))
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
				"the platform configuration allows no such annotation (annotations is [%s]); remove it", strings.Join(p.Annotations, ", "))))
		}
	}
}

// warn tells of what is allowed and of no use.
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
		v.warn("%s: there may be a single pod, and a drain of its node takes it, whatever the budget says; ask for two or more", spec.Child("podDisruptionBudget"))
	}
	if a.replicas.at != nil && a.replicas.n == 0 {
		for _, n := range a.nodePorts {
			v.warn("%s: node port %d stays taken, though %s is 0 and nothing answers there", n.at, n.n, a.replicas.at)
		}
	}
}

func (v *Verdict) judgeImage(i image, p config.Images) {
	if i.name == "" {
		return // the platform's, or refused for that
	}
	if !p.Allows(i.name) {
		v.refuse(field.Forbidden(i.at, fmt.Sprintf("the platform configuration allows images only from %s, and this is %s", strings.Join(p.Allowed, ", "), excerpt(i.name))))
	}
	if !config.Moving(i.name) {
		return
	}
	switch p.Latest {
	case config.LatestRefuse:
		v.refuse(field.Forbidden(i.at, fmt.Sprintf("the platform configuration refuses images that change under their name, as %s does; name a version, or a digest", excerpt(i.name))))
	case config.LatestWarn:
		v.warn("%s: %s changes under its name, so a rollback may bring back nothing; name a version, or a digest", i.at, excerpt(i.name))
	}
}

func (v *Verdict) judgeReplicas(r number, p config.Platform) {
	if r.at != nil && r.n > p.MaxReplicas {
		v.refuse(field.Invalid(r.at, r.n, fmt.Sprintf("must be %d or less, says the platform configuration", p.MaxReplicas)))
	}
}

func (v *Verdict) refuse(e *field.Error) { v.Refused = append(v.Refused, e) }

func (v *Verdict) warn(format string, args ...any) {
	v.Warnings = append(v.Warnings, fmt.Sprintf(format, args...))
}

// Scale says what is refused of a request to change the number of pods. What
// asks for no more than there were is always let through.
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

// excerpt is as much of the name of an image as a person wants to read again:
// a warning that is long is cut off by the API server.
func excerpt(name string) string {
	const most = 80
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
