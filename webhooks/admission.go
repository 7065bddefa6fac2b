// Package webhooks serves admission for every kind. A kind brings pure
// functions; what is the same for all is here.
package webhooks

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// kind is what a kind brings. Both functions are pure.
type kind[T object] struct {
	gk       schema.GroupKind
	defaults func(T) // nil: there are none
	validate func(T) field.ErrorList
}

func register[T object](mgr manager.Manager, empty T, k kind[T]) error {
	if err := builder.WebhookManagedBy(mgr, empty).WithDefaulter(k).WithValidator(k).Complete(); err != nil {
		return fmt.Errorf("registering the webhooks of %s: %w", k.gk.Kind, err)
	}
	return nil
}

var (
	_ admission.Defaulter[object] = kind[object]{}
	_ admission.Validator[object] = kind[object]{}
)

// Default sets the kind's defaults and keeps the finalizer where, and only
// where, the deletion policy needs it: in the user's own request, so that
// there is no moment at which a deletion would do what the policy forbids.
func (k kind[T]) Default(_ context.Context, obj T) error {
	if k.defaults != nil {
		k.defaults(obj)
	}
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
