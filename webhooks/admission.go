// Package webhooks serves the admission webhooks of all kinds. Each kind
// declares pure validation functions; this package lists the kinds and adapts the
// functions.
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
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

func register(mgr manager.Manager, k validate.AnyKind, platform config.Platform) error {
	if err := k.Register(mgr, validator{k, platform}); err != nil {
		return fmt.Errorf("registering the webhooks of %s: %w", k.GVK.Kind, err)
	}
	// The builder uses the same paths, and so do the webhook configurations.
	path := strings.ReplaceAll(k.GVK.Group, ".", "-") + "-" + k.GVK.Version + "-" + strings.ToLower(k.GVK.Kind)
	server := mgr.GetWebhookServer()
	server.Register("/mutate-"+path, &admission.Webhook{Handler: admission.HandlerFunc(keepFinalizer)})
	if k.Scalable {
		server.Register("/validate-"+path+"-scale", &admission.Webhook{Handler: scaling{
			gk: k.GVK.GroupKind(), decoder: admission.NewDecoder(mgr.GetScheme()),
			validate: func(old, now *autoscalingv1.Scale) field.ErrorList { return policy.Scale(old, now, platform) },
		}})
	}
	return nil
}

// validator validates the objects of a kind.
type validator struct {
	kind     validate.AnyKind
	platform config.Platform
}

var _ admission.Validator[client.Object] = validator{}

// ValidateCreate returns all errors of an object.
func (v validator) ValidateCreate(_ context.Context, obj client.Object) (admission.Warnings, error) {
	errs, warnings := v.validate(obj)
	return warnings, refuse(v.kind.GVK.GroupKind(), obj.GetName(), errs)
}

// ValidateUpdate returns the errors that an update introduces. Errors that the
// old object already has, because a rule is newer than the object, do not
// prevent changes of other fields.
func (v validator) ValidateUpdate(_ context.Context, old, obj client.Object) (admission.Warnings, error) {
	before := map[string]int{}
	known, _ := v.validate(old)
	for _, e := range known {
		before[errorKey(e)]++
	}
	errs, warnings := v.validate(obj)
	errs = slices.DeleteFunc(errs, func(e *field.Error) bool {
		before[errorKey(e)]--
		return before[errorKey(e)] >= 0
	})
	return warnings, refuse(v.kind.GVK.GroupKind(), obj.GetName(), errs)
}

// ValidateDelete allows every deletion. The webhook is not registered for
// deletions.
func (validator) ValidateDelete(context.Context, client.Object) (admission.Warnings, error) {
	return nil, nil
}

// validate returns all errors and warnings of an object.
func (v validator) validate(obj client.Object) (field.ErrorList, admission.Warnings) {
	verdict := v.kind.Judge(obj, v.platform)
	return slices.Concat(v.kind.Validate(obj, v.platform), verdict.Refused), verdict.Warnings
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// errorKey identifies an error regardless of the list index, so that removing an
// entry does not turn the errors of later entries into new ones.
func errorKey(e *field.Error) string {
	moved := *e
	moved.Field = index.ReplaceAllString(e.Field, "[]")
	return moved.Error()
}

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
