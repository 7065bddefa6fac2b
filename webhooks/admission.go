// Package webhooks serves the admission webhooks of all kinds. Each kind
// declares pure validation functions; this package lists the kinds and adapts the
// functions.
package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

// Recorder counts the requests that are rejected. Its method may be called
// concurrently.
type Recorder interface {
	// Refused is called for each rejected request, with the kind of the object,
	// the rule (schema, policy or scale) and the type of the first error.
	Refused(kind, rule, errorType string)
}

type noRecorder struct{}

// Refused does nothing.
func (noRecorder) Refused(string, string, string) {}

func register(mgr manager.Manager, k validate.AnyKind, platform config.Platform, rec Recorder) error {
	if err := k.Register(mgr, validator{k, platform, rec}); err != nil {
		return fmt.Errorf("registering the webhooks of %s: %w", k.GVK.Kind, err)
	}
	// The builder uses the same paths, and so do the webhook configurations.
	path := strings.ReplaceAll(k.GVK.Group, ".", "-") + "-" + k.GVK.Version + "-" + strings.ToLower(k.GVK.Kind)
	server := mgr.GetWebhookServer()
	handler, err := mutate(k, platform)
	if err != nil {
		return err
	}
	server.Register("/mutate-"+path, &admission.Webhook{Handler: handler})
	if k.Scalable {
		server.Register("/validate-"+path+"-scale", &admission.Webhook{Handler: scaling{
			gk: k.GVK.GroupKind(), recorder: rec, decoder: admission.NewDecoder(mgr.GetScheme()),
			validate: func(old, now *autoscalingv1.Scale) field.ErrorList { return policy.Scale(old, now, platform) },
		}})
	}
	return nil
}

// validator validates the objects of a kind.
type validator struct {
	kind     validate.AnyKind
	platform config.Platform
	recorder Recorder
}

var _ admission.Validator[client.Object] = validator{}

// ValidateCreate returns all errors of an object.
func (v validator) ValidateCreate(_ context.Context, obj client.Object) (admission.Warnings, error) {
	errs, policy, warnings := v.validate(obj)
	return warnings, v.refuse(obj.GetName(), errs, policy)
}

// ValidateUpdate returns the errors that an update introduces. Errors that the
// old object already has, because a rule is newer than the object, do not
// prevent changes of other fields.
func (v validator) ValidateUpdate(_ context.Context, old, obj client.Object) (admission.Warnings, error) {
	known, _, _ := v.validate(old)
	errs, policy, warnings := v.validate(obj)
	errs = append(config.Introduced(errs, known), v.kind.ValidateUpdate(old, obj, v.platform)...)
	return append(warnings, v.kind.WarnUpdate(old, obj)...), v.refuse(obj.GetName(), errs, policy)
}

// ValidateDelete allows every deletion. The webhook is not registered for
// deletions.
func (validator) ValidateDelete(context.Context, client.Object) (admission.Warnings, error) {
	return nil, nil
}

// validate returns all errors and warnings of an object, and which of the errors
// the platform configuration causes.
func (v validator) validate(obj client.Object) (all, policy field.ErrorList, warnings admission.Warnings) {
	verdict := v.kind.Judge(obj, v.platform)
	return slices.Concat(v.kind.Validate(obj, v.platform), verdict.Refused), verdict.Refused, verdict.Warnings
}

// refuse returns and counts the rejection of an object, or returns nil if there
// are no errors.
func (v validator) refuse(name string, errs, policy field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	rule := "schema"
	if slices.Contains(policy, errs[0]) {
		rule = "policy"
	}
	v.recorder.Refused(v.kind.GVK.Kind, rule, errorType(errs[0]))
	return refuse(v.kind.GVK.GroupKind(), name, errs)
}

// errorType returns the type of an error without the prefix that all types have.
func errorType(e *field.Error) string {
	return strings.TrimPrefix(string(e.Type), "FieldValue")
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
	recorder Recorder
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
	s.recorder.Refused(s.gk.Kind, "scale", errorType(errs[0]))
	r := admission.Denied("")
	r.Result = new(apierrors.NewInvalid(s.gk, req.Name, errs).Status())
	return r
}
