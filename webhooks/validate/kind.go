package validate

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// Kind declares the admission of the objects of one kind. T is the type of the
// objects. All functions are pure.
type Kind[T client.Object] struct {
	// GVK is the stored version of the kind.
	GVK schema.GroupVersionKind
	// New returns an empty object.
	New func() T
	// Validate returns the errors that the schema and its CEL rules cannot find.
	Validate func(T, config.Platform) field.ErrorList
	// ValidateUpdate returns the errors of a change, whatever the object is after it. The
	// arguments are the old object and the new one. It may be nil.
	ValidateUpdate func(old, obj T, platform config.Platform) field.ErrorList
	// WarnUpdate returns the warnings of a change. The arguments are those of
	// ValidateUpdate. It may be nil.
	WarnUpdate func(old, obj T) []string
	// Judge returns the errors that the platform configuration causes, and the
	// warnings.
	Judge func(T, config.Platform) policy.Verdict
	// Scalable reports whether the kind has a scale subresource.
	Scalable bool
	// PodLabel is the label by which the kind selects the pods of its objects. No other
	// kind may set it on its pods: see Exclusive.
	PodLabel string
	// Pod returns the settings of the pods in spec.pod, nil if there are none.
	Pod func(T) *common.Pod
}

// AnyKind is a Kind without its type parameter, so that kinds can be listed. The
// fields are those of Kind.
type AnyKind struct {
	GVK            schema.GroupVersionKind
	New            func() client.Object
	Validate       func(client.Object, config.Platform) field.ErrorList
	ValidateUpdate func(old, obj client.Object, platform config.Platform) field.ErrorList
	WarnUpdate     func(old, obj client.Object) []string
	Judge          func(client.Object, config.Platform) policy.Verdict
	Scalable       bool
	PodLabel       string
	Pod            func(client.Object) *common.Pod

	register func(manager.Manager, admission.Validator[client.Object]) error
}

// Erase returns a kind without its type parameter. The functions of the result
// accept only objects of type T.
func Erase[T client.Object](k Kind[T]) AnyKind {
	return AnyKind{
		GVK: k.GVK, Scalable: k.Scalable, PodLabel: k.PodLabel,
		New:      func() client.Object { return k.New() },
		Pod:      func(o client.Object) *common.Pod { return k.Pod(o.(T)) },
		Validate: func(o client.Object, p config.Platform) field.ErrorList { return k.Validate(o.(T), p) },
		ValidateUpdate: func(old, obj client.Object, p config.Platform) field.ErrorList {
			if k.ValidateUpdate == nil {
				return nil
			}
			return k.ValidateUpdate(old.(T), obj.(T), p)
		},
		WarnUpdate: func(old, obj client.Object) []string {
			if k.WarnUpdate == nil {
				return nil
			}
			return k.WarnUpdate(old.(T), obj.(T))
		},
		Judge: func(o client.Object, p config.Platform) policy.Verdict { return k.Judge(o.(T), p) },
		register: func(mgr manager.Manager, v admission.Validator[client.Object]) error {
			return builder.WebhookManagedBy(mgr, k.New()).WithValidator(typed[T]{v}).Complete()
		},
	}
}

// Exclusive returns kinds that also reject the labels by which the others select their
// pods. With them, the pods would belong to two objects: two PodDisruptionBudgets would
// select them, or one that cannot count them, and Kubernetes evicts neither. A kind's own
// label has no effect, because the operator sets it.
func Exclusive(kinds ...AnyKind) []AnyKind {
	var reserved []string
	for _, k := range kinds {
		reserved = append(reserved, k.PodLabel)
	}
	all := slices.Clone(kinds)
	for i, k := range kinds {
		all[i].Validate = func(o client.Object, p config.Platform) field.ErrorList {
			return append(podLabels(k.Pod(o), reserved, k.PodLabel), k.Validate(o, p)...)
		}
	}
	return all
}

func podLabels(p *common.Pod, reserved []string, own string) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	for _, label := range reserved {
		if _, set := p.Labels[label]; set && label != own {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "pod", "labels").Key(label), "objects of another kind select their pods by this label: remove it"))
		}
	}
	return errs
}

// Register registers the validating webhook of the kind.
func (k AnyKind) Register(mgr manager.Manager, v admission.Validator[client.Object]) error {
	return k.register(mgr, v)
}
