// Package webhooks serves admission for every kind. A kind brings pure
// functions; what is the same for all is here.
package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// object is an object of one of our kinds.
type object interface {
	client.Object
	GetDeletionPolicy() common.DeletionPolicy
}

// kind is what a kind brings. The function is pure.
type kind[T object] struct {
	gk       schema.GroupKind
	validate func(T) field.ErrorList
}

func register[T object](mgr manager.Manager, empty T, k kind[T]) error {
	if err := builder.WebhookManagedBy(mgr, empty).WithValidator(k).Complete(); err != nil {
		return fmt.Errorf("registering the webhooks of %s: %w", k.gk.Kind, err)
	}
	gvk, err := apiutil.GVKForObject(empty, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("looking up %s: %w", k.gk.Kind, err)
	}
	// The path that the builder would give it, and the configuration has.
	path := "/mutate-" + strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	hook := admission.WithDefaulter(mgr.GetScheme(), k)
	hook.Handler = onlyFinalizers{hook.Handler}
	mgr.GetWebhookServer().Register(path, hook)
	return nil
}

// onlyFinalizers lets no more of a defaulter's answer pass than what it is
// for. The answer compares what the user sent with what our types make of it,
// and that writes the same in other words: 1024Mi becomes 1Gi. A user who
// keeps the object in git would see it changed for ever.
type onlyFinalizers struct{ admission.Handler }

// Handle drops what is not about finalizers.
func (h onlyFinalizers) Handle(ctx context.Context, req admission.Request) admission.Response {
	r := h.Handler.Handle(ctx, req)
	r.Patches = slices.DeleteFunc(r.Patches, func(op jsonpatch.JsonPatchOperation) bool {
		return !strings.HasPrefix(op.Path, "/metadata/finalizers")
	})
	return r
}

var (
	_ admission.Defaulter[object] = kind[object]{}
	_ admission.Validator[object] = kind[object]{}
)

// Default keeps the finalizer where, and only where, the deletion policy needs
// it: in the user's own request, so that there is no moment at which a
// deletion would do what the policy forbids.
func (k kind[T]) Default(_ context.Context, obj T) error {
	if obj.GetDeletionPolicy() == common.DeletionPolicyOrphan {
		controllerutil.AddFinalizer(obj, naming.Finalizer)
	} else {
		controllerutil.RemoveFinalizer(obj, naming.Finalizer)
	}
	return nil
}

// ValidateCreate refuses an object with anything wrong, naming all of it.
func (k kind[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	return nil, k.refuse(obj, k.validate(obj))
}

// ValidateUpdate refuses what an update makes wrong. What was wrong before, by
// a rule that is newer than the object, does not keep it from being changed
// elsewhere.
func (k kind[T]) ValidateUpdate(_ context.Context, old, obj T) (admission.Warnings, error) {
	before := map[string]bool{}
	for _, e := range k.validate(old) {
		before[e.Error()] = true
	}
	var errs field.ErrorList
	for _, e := range k.validate(obj) {
		if !before[e.Error()] {
			errs = append(errs, e)
		}
	}
	return nil, k.refuse(obj, errs)
}

// ValidateDelete allows every deletion; it is not registered for them either.
func (k kind[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

func (k kind[T]) refuse(obj T, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(k.gk, obj.GetName(), errs)
}
