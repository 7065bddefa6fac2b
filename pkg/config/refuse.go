package config

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/pkg/hash"
)

// The rules for pods are applied twice: by admission to a spec, and by the
// controllers to a pod template that is stored in a revision. The errors have the
// refused value in BadValue, also those of type Forbidden, whose text does not
// contain it.

// Image is the name of an image and the field that sets it, and the same for its
// pull policy.
type Image struct {
	Field     *field.Path
	Name      string
	PullField *field.Path
	Pull      corev1.PullPolicy
}

// PodSettings are the settings of pods that the platform configuration restricts,
// and the fields that set them. What is not set has no field.
type PodSettings struct {
	Annotations, Labels                         Keys
	PriorityClass, RuntimeClass, ServiceAccount Text
	Tolerations, InitContainers                 []Text // the keys; see InitContainer
	GracePeriod                                 Seconds
	Scratch                                     []Size // of the emptyDir volumes
}

// Keys are labels or annotations, and the field that sets them.
type Keys struct {
	Field  *field.Path
	Values map[string]string
}

// Texts converts labels or annotations to the type that Kubernetes uses.
func Texts[S ~string](m map[string]S) map[string]string {
	if len(m) == 0 {
		return nil
	}
	t := make(map[string]string, len(m))
	for k, v := range m {
		t[k] = string(v)
	}
	return t
}

// Text is a value and the field that sets it.
type Text struct {
	Field *field.Path
	Value string
}

// Seconds is a duration and the field that sets it.
type Seconds struct {
	Field *field.Path
	Value int64
}

// InitContainer returns an init container as a text: its image, and a hash of all its fields.
func InitContainer(at *field.Path, image string, container any) Text {
	h, err := hash.Of("init container", container)
	if err != nil {
		h = err.Error()
	}
	return Text{at, image + " (" + h + ")"}
}

// Size is the size of a volume, nil if it has no limit, and the field that sets it.
type Size struct {
	Field *field.Path
	Limit *resource.Quantity
}

// RefusesImage returns why pods may not use an image.
func (p Platform) RefusesImage(i Image) field.ErrorList {
	if i.Name == "" {
		return nil // the platform's default, or rejected by the schema
	}
	var errs field.ErrorList
	if !p.Images.Allows(i.Name) {
		errs = append(errs, forbidden(i.Field, i.Name, "the platform configuration allows images only from %s, and this is %s", strings.Join(p.Images.Allowed, ", "), Excerpt(i.Name)))
	}
	if p.Images.Latest == LatestRefuse && Moving(i.Name) {
		errs = append(errs, forbidden(i.Field, i.Name, "the platform configuration rejects images without a fixed version, such as %s: specify a version or a digest", Excerpt(i.Name)))
	}
	// An image that is on the node for another tenant's pod needs no credentials if
	// it is not pulled.
	if p.Images.Pull == PullAlways && cmp.Or(i.Pull, DefaultPull(i.Name)) != corev1.PullAlways {
		errs = append(errs, forbidden(i.PullField, string(i.Pull), "the platform configuration requires that images are pulled (images.pull is Always): set it to Always"))
	}
	return errs
}

// RefusesPod returns why pods may not have the settings.
func (p Platform) RefusesPod(s PodSettings) field.ErrorList {
	errs := slices.Concat(
		p.Pods.refusesKeys(s.Annotations, p.Pods.AllowsAnnotation, "pods.annotations", p.Pods.Annotations),
		p.Pods.refusesKeys(s.Labels, p.Pods.AllowsLabel, "pods.labels", p.Pods.Labels),
		RefusesClass(s.PriorityClass, "priority class", "priorityClasses", p.PriorityClasses),
		RefusesClass(s.RuntimeClass, "runtime class", "pods.runtimeClasses", p.Pods.RuntimeClasses),
	)
	if a := s.ServiceAccount; a.Value != "" && !p.ServiceAccounts {
		errs = append(errs, forbidden(a.Field, a.Value, NoServiceAccounts))
	}
	for _, c := range s.InitContainers {
		if !p.Pods.InitContainers {
			errs = append(errs, forbidden(c.Field, c.Value, "the platform configuration does not allow init containers and sidecars (pods.initContainers is false): remove it"))
		}
	}
	for _, t := range s.Tolerations {
		if !p.Pods.AllowsToleration(t.Value) {
			errs = append(errs, forbidden(t.Field, t.Value,
				"the platform configuration does not allow a toleration of %s (pods.tolerations is [%s]): use an allowed key, or remove the toleration",
				cmp.Or(t.Value, "all taints"), strings.Join(p.Pods.Tolerations, ", ")))
		}
	}
	if g := s.GracePeriod; g.Field != nil && !p.Pods.AllowsGracePeriod(g.Value) {
		errs = append(errs, field.Invalid(g.Field, g.Value, fmt.Sprintf(
			"must be %d or less, as set in the platform configuration (pods.maxTerminationGracePeriodSeconds): a pod delays the drain of its node for as long", p.Pods.MaxTerminationGracePeriodSeconds)))
	}
	most := p.Pods.MaxEmptyDirSize
	for _, v := range s.Scratch {
		if !most.IsZero() && (v.Limit == nil || v.Limit.IsZero() || v.Limit.Cmp(most) > 0) {
			size := ""
			if v.Limit != nil {
				size = v.Limit.String()
			}
			errs = append(errs, forbidden(v.Field, size, "the platform configuration requires a size of at most %s (pods.maxEmptyDirSize): set it", &most))
		}
	}
	return errs
}

func (p Pods) refusesKeys(k Keys, allows func(string) bool, setting string, listed []string) field.ErrorList {
	why := "because other programs of the cluster act on it"
	if p.UnlistedKeys == KeysRefuse {
		why = "because it is not listed"
	}
	return k.refused(allows, "the platform configuration does not allow this key, %s (%s is [%s]): remove it", why, setting, strings.Join(listed, ", "))
}

// RefusesAnnotations returns why a Service or an Ingress may not have annotations.
func (p Platform) RefusesAnnotations(k Keys) field.ErrorList {
	return k.refused(p.AllowsAnnotation, "the platform configuration does not allow this annotation (annotations is [%s]): remove it", strings.Join(p.Annotations, ", "))
}

// refused returns an error for each key that is not allowed.
func (k Keys) refused(allows func(string) bool, format string, args ...any) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(k.Values)) {
		if !allows(key) {
			errs = append(errs, forbidden(k.Field.Key(key), k.Values[key], format, args...))
		}
	}
	return errs
}

// RefusesClass returns why an object may not have a class: a setting of the platform
// configuration does not list it.
func RefusesClass(class Text, what, setting string, listed []string) field.ErrorList {
	if class.Value == "" || matchesKey(listed, class.Value) {
		return nil
	}
	name := class.Field.String()
	return field.ErrorList{forbidden(class.Field, class.Value, "the platform configuration does not allow %s %q (%s is [%s]): use an allowed one, or remove %s",
		what, class.Value, setting, strings.Join(listed, ", "), name[strings.LastIndex(name, ".")+1:])}
}

func forbidden(at *field.Path, value, format string, args ...any) *field.Error {
	e := field.Forbidden(at, fmt.Sprintf(format, args...))
	e.BadValue = value
	return e
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// Introduced returns the errors that are not known. A known error is the same field
// and the same value, so a rule that is newer than a value does not concern it. An
// error is known regardless of the index in a list, so that removing an entry does
// not turn the errors of later entries into new ones.
func Introduced(errs, known field.ErrorList) field.ErrorList {
	before := map[string]int{}
	for _, e := range known {
		before[identity(e)]++
	}
	return slices.DeleteFunc(slices.Clone(errs), func(e *field.Error) bool {
		id := identity(e)
		before[id]--
		return before[id] >= 0
	})
}

func identity(e *field.Error) string {
	moved := *e
	moved.Field = index.ReplaceAllString(e.Field, "[]")
	id := moved.Error()
	if value, ok := e.BadValue.(string); ok {
		id += "\n" + value // the text of most types contains it, that of Forbidden does not
	}
	return id
}

// Excerpt shortens the name of an image, because the API server truncates long
// warnings.
func Excerpt(name string) string {
	const most = 80
	if len(name) > most {
		return strings.ToValidUTF8(name[:most], "") + "…"
	}
	return name
}
