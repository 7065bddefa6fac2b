package validate

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

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
	// AddToScheme adds all served versions of the kind to a scheme.
	AddToScheme func(*runtime.Scheme) error
	// Validate returns the errors that the schema and its CEL rules cannot find.
	Validate func(T, config.Platform) field.ErrorList
	// ValidateUpdate returns the errors of a change, whatever the object is after it. The
	// arguments are the old object and the new one. It may be nil.
	ValidateUpdate func(old, obj T, platform config.Platform) field.ErrorList
	// Judge returns the errors that the platform configuration causes, and the
	// warnings.
	Judge func(T, config.Platform) policy.Verdict
	// Scalable reports whether the kind has a scale subresource.
	Scalable bool
}

// AnyKind is a Kind without its type parameter, so that kinds can be listed. The
// fields are those of Kind.
type AnyKind struct {
	GVK            schema.GroupVersionKind
	New            func() client.Object
	AddToScheme    func(*runtime.Scheme) error
	Validate       func(client.Object, config.Platform) field.ErrorList
	ValidateUpdate func(old, obj client.Object, platform config.Platform) field.ErrorList
	Judge          func(client.Object, config.Platform) policy.Verdict
	Scalable       bool

	register func(manager.Manager, admission.Validator[client.Object]) error
}

// Erase returns a kind without its type parameter. The functions of the result
// accept only objects of type T.
func Erase[T client.Object](k Kind[T]) AnyKind {
	return AnyKind{
		GVK: k.GVK, AddToScheme: k.AddToScheme, Scalable: k.Scalable,
		New:      func() client.Object { return k.New() },
		Validate: func(o client.Object, p config.Platform) field.ErrorList { return k.Validate(o.(T), p) },
		ValidateUpdate: func(old, obj client.Object, p config.Platform) field.ErrorList {
			if k.ValidateUpdate == nil {
				return nil
			}
			return k.ValidateUpdate(old.(T), obj.(T), p)
		},
		Judge: func(o client.Object, p config.Platform) policy.Verdict { return k.Judge(o.(T), p) },
		register: func(mgr manager.Manager, v admission.Validator[client.Object]) error {
			return builder.WebhookManagedBy(mgr, k.New()).WithValidator(typed[T]{v}).Complete()
		},
	}
}

// Register registers the validating webhook of the kind.
func (k AnyKind) Register(mgr manager.Manager, v admission.Validator[client.Object]) error {
	return k.register(mgr, v)
}
