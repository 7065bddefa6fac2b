package validate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// typed is a validator of the objects of one kind. The builder of
// controller-runtime decodes a request into T, which it cannot do for the
// interface.
type typed[T client.Object] struct {
	any admission.Validator[client.Object]
}

// ValidateCreate implements admission.Validator.
func (v typed[T]) ValidateCreate(ctx context.Context, obj T) (admission.Warnings, error) {
	return v.any.ValidateCreate(ctx, obj)
}

// ValidateUpdate implements admission.Validator.
func (v typed[T]) ValidateUpdate(ctx context.Context, old, obj T) (admission.Warnings, error) {
	return v.any.ValidateUpdate(ctx, old, obj)
}

// ValidateDelete implements admission.Validator.
func (v typed[T]) ValidateDelete(ctx context.Context, obj T) (admission.Warnings, error) {
	return v.any.ValidateDelete(ctx, obj)
}
