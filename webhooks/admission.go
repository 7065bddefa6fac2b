// Package webhooks serves the admission webhooks of all kinds. Each kind
// provides pure validation functions; this package adapts them.
package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/webhooks/policy"
)

// kind contains the validation functions of a kind. They are pure.
type kind[T client.Object] struct {
	gk schema.GroupKind
	// validate returns the errors that do not depend on the platform
	// configuration.
	validate func(T) field.ErrorList
	// judge returns the errors that depend on the platform configuration, and
	// the warnings.
	judge func(T) policy.Verdict
	// scale validates a change of the scale subresource. It is nil for a kind
	// that cannot be scaled.
	scale func(old, now *autoscalingv1.Scale) field.ErrorList
}

func register[T client.Object](mgr manager.Manager, empty T, k kind[T]) error {
	if err := builder.WebhookManagedBy(mgr, empty).WithValidator(k).Complete(); err != nil {
		return fmt.Errorf("registering the webhooks of %s: %w", k.gk.Kind, err)
	}
	gvk, err := apiutil.GVKForObject(empty, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("looking up %s: %w", k.gk.Kind, err)
	}
	// The builder uses the same paths, and so do the webhook configurations.
	path := strings.ReplaceAll(gvk.Group, ".", "-") + "-" + gvk.Version + "-" + strings.ToLower(gvk.Kind)
	server := mgr.GetWebhookServer()
	server.Register("/mutate-"+path, &admission.Webhook{Handler: admission.HandlerFunc(keepFinalizer)})
	if k.scale != nil {
		server.Register("/validate-"+path+"-scale", &admission.Webhook{
			Handler: scaling{gk: k.gk, decoder: admission.NewDecoder(mgr.GetScheme()), validate: k.scale},
		})
	}
	return nil
}

var _ admission.Validator[client.Object] = kind[client.Object]{}

// ValidateCreate returns all errors of an object.
func (k kind[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	errs, warnings := k.look(obj)
	return warnings, refuse(k.gk, obj.GetName(), errs)
}

// ValidateUpdate returns the errors that an update introduces. Errors that the
// old object already has, because a rule is newer than the object, do not
// prevent changes of other fields.
func (k kind[T]) ValidateUpdate(_ context.Context, old, obj T) (admission.Warnings, error) {
	before := map[string]int{}
	known, _ := k.look(old)
	for _, e := range known {
		before[errorKey(e)]++
	}
	errs, warnings := k.look(obj)
	errs = slices.DeleteFunc(errs, func(e *field.Error) bool {
		before[errorKey(e)]--
		return before[errorKey(e)] >= 0
	})
	return warnings, refuse(k.gk, obj.GetName(), errs)
}

// look returns all errors and warnings of an object.
func (k kind[T]) look(obj T) (field.ErrorList, admission.Warnings) {
	v := k.judge(obj)
	return slices.Concat(k.validate(obj), v.Refused), v.Warnings
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// errorKey identifies an error regardless of the list index, so that removing an
// entry does not turn the errors of later entries into new ones.
func errorKey(e *field.Error) string {
	moved := *e
	moved.Field = index.ReplaceAllString(e.Field, "[]")
	return moved.Error()
}

// ValidateDelete allows every deletion. The webhook is not registered for
// deletions.
func (k kind[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// maxErrors limits the errors in a response: printing all errors of an object
// of 1 MiB would take minutes.
const maxErrors = 100

func refuse(gk schema.GroupKind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	if more := len(errs) - maxErrors; more > 0 {
		errs = append(errs[:maxErrors:maxErrors], field.Forbidden(field.NewPath("spec"), fmt.Sprintf("%d more validation errors are not shown", more)))
	}
	return apierrors.NewInvalid(gk, name, errs)
}

// scaling validates requests of kubectl scale and of autoscalers. They contain a
// Scale instead of the object.
type scaling struct {
	gk       schema.GroupKind
	decoder  admission.Decoder
	validate func(old, now *autoscalingv1.Scale) field.ErrorList
}

// Handle implements admission.Handler.
func (s scaling) Handle(_ context.Context, req admission.Request) admission.Response {
	old, now := &autoscalingv1.Scale{}, &autoscalingv1.Scale{}
	if err := errors.Join(s.decoder.DecodeRaw(req.OldObject, old), s.decoder.Decode(req, now)); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("reading the Scale: %w", err))
	}
	errs := s.validate(old, now)
	if len(errs) == 0 {
		return admission.Allowed("")
	}
	r := admission.Denied("")
	r.Result = new(apierrors.NewInvalid(s.gk, req.Name, errs).Status())
	return r
}
