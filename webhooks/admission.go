// Package webhooks serves admission for every kind. A kind brings pure
// functions; what is the same for all is here.
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

// kind is what a kind brings. The functions are pure.
type kind[T client.Object] struct {
	gk schema.GroupKind
	// validate says what is wrong with an object, whatever the platform decides.
	validate func(T) field.ErrorList
	// judge says what the platform configuration refuses, and what is to be
	// warned about.
	judge func(T) policy.Verdict
	// scale says what is refused of a change of the number of pods alone. Nil
	// for a kind that cannot be scaled.
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
	// As the builder names paths, and the configurations have them.
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

// ValidateCreate refuses an object with anything wrong, naming all of it.
func (k kind[T]) ValidateCreate(_ context.Context, obj T) (admission.Warnings, error) {
	errs, warnings := k.look(obj)
	return warnings, refuse(k.gk, obj.GetName(), errs)
}

// ValidateUpdate refuses what an update makes wrong. What was wrong before, by
// a rule that is newer than the object, does not keep it from being changed
// elsewhere.
func (k kind[T]) ValidateUpdate(_ context.Context, old, obj T) (admission.Warnings, error) {
	before := map[string]int{}
	known, _ := k.look(old)
	for _, e := range known {
		before[fault(e)]++
	}
	errs, warnings := k.look(obj)
	errs = slices.DeleteFunc(errs, func(e *field.Error) bool {
		before[fault(e)]--
		return before[fault(e)] >= 0
	})
	return warnings, refuse(k.gk, obj.GetName(), errs)
}

// look returns all that is to be said of an object.
func (k kind[T]) look(obj T) (field.ErrorList, admission.Warnings) {
	v := k.judge(obj)
	return slices.Concat(k.validate(obj), v.Refused), v.Warnings
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// fault is what is wrong, wherever in its list: that an entry moves up when one
// before it is removed makes nothing wrong.
func fault(e *field.Error) string {
	moved := *e
	moved.Field = index.ReplaceAllString(e.Field, "[]")
	return moved.Error()
}

// ValidateDelete allows every deletion; it is not registered for them either.
func (k kind[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// mostFaults is how many are told at once. Nobody reads more, and to print
// those of an object of a mebibyte would take minutes.
const mostFaults = 100

func refuse(gk schema.GroupKind, name string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	if more := len(errs) - mostFaults; more > 0 {
		errs = append(errs[:mostFaults:mostFaults], field.Forbidden(field.NewPath("spec"), fmt.Sprintf("there are %d more faults like these", more)))
	}
	return apierrors.NewInvalid(gk, name, errs)
}

// scaling validates what kubectl scale and autoscalers send: a Scale, which
// holds the number of pods and nothing else of the object.
type scaling struct {
	gk       schema.GroupKind
	decoder  admission.Decoder
	validate func(old, now *autoscalingv1.Scale) field.ErrorList
}

// Handle allows or refuses a change of a Scale.
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
