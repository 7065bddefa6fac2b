package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	kjson "sigs.k8s.io/json"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/schema"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// defaulter adds the defaults of the platform configuration to new objects of a kind.
type defaulter struct {
	kind       validate.AnyKind
	definition *schema.Definition
	platform   config.Platform
}

// add returns an object with the blocks that its author did not state, and the fields of
// the spec that change thereby. A block because of which admission would reject the object
// is left out.
func (d defaulter) add(ctx context.Context, obj map[string]any, namespace string) (all, changed map[string]any) {
	blocks := slices.DeleteFunc(d.platform.DefaultsOf(d.kind.GVK.Kind, namespace), func(b config.Block) bool {
		_, stated, err := unstructured.NestedFieldNoCopy(obj, inSpec(b)...)
		return stated || err != nil
	})
	if len(blocks) == 0 || !d.definition.Fits(obj["spec"]) {
		return obj, nil
	}
	known := d.errors(ctx, obj, namespace)
	changed = map[string]any{}
	for _, b := range blocks {
		candidate := with(obj, inSpec(b), b.Value)
		errs := d.errors(ctx, candidate, namespace)
		if len(config.Introduced(errs, known)) > 0 {
			continue
		}
		obj, known = candidate, errs
		changed[b.Path[0]] = candidate["spec"].(map[string]any)[b.Path[0]]
	}
	return obj, changed
}

func inSpec(b config.Block) []string { return append([]string{"spec"}, b.Path...) }

// errors returns the errors for which admission would reject an object.
func (d defaulter) errors(ctx context.Context, obj map[string]any, namespace string) field.ErrorList {
	u := unstructured.Unstructured{Object: obj}
	metadata := map[string]any{"name": u.GetName(), "generateName": u.GetGenerateName(), "namespace": namespace}
	obj = map[string]any{"apiVersion": obj["apiVersion"], "kind": obj["kind"], "metadata": metadata, "spec": obj["spec"]}
	if errs := d.definition.Validate(ctx, obj, nil); len(errs) > 0 {
		return errs
	}
	typed := d.kind.New()
	if err := convert(obj, typed); err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	errs, _, _ := validator{d.kind, d.platform, noRecorder{}}.validate(typed)
	return errs
}

// with returns a copy of an object with a value at a path. What is not on the path is
// shared.
func with(obj map[string]any, path []string, value any) map[string]any {
	out := map[string]any{}
	maps.Copy(out, obj)
	if len(path) > 1 {
		below, _ := obj[path[0]].(map[string]any)
		value = with(below, path[1:], value)
	}
	out[path[0]] = value
	return out
}

// mutate returns the handler of the mutating webhook of a kind. It compiles the rules of
// the kind only if there are defaults for it.
func mutate(kind validate.AnyKind, platform config.Platform) (admission.HandlerFunc, error) {
	if !slices.ContainsFunc(platform.Defaults, func(d config.Defaults) bool { return d.Concerns(kind.GVK.Kind) }) {
		return addFinalizer, nil
	}
	_, def, _, err := find(kind.GVK)
	if err != nil {
		return nil, err
	}
	d := defaulter{kind, def, platform}
	return func(ctx context.Context, req admission.Request) admission.Response {
		response := addFinalizer(ctx, req)
		if req.Operation != admissionv1.Create {
			return response
		}
		var obj map[string]any
		if kjson.UnmarshalCaseSensitivePreserveInts(req.Object.Raw, &obj) != nil {
			return response // the API server rejects it
		}
		_, changed := d.add(ctx, obj, req.Namespace)
		for name, value := range changed {
			response.Patches = append(response.Patches, jsonpatch.NewOperation("add", "/spec/"+name, value))
		}
		return response
	}, nil
}

// Default returns an object in JSON with what the mutating webhook adds to its spec when it
// is created in a namespace. An object that the operator does not manage, that cannot be
// read, or that exists in a cluster is returned unchanged.
func (o *Offline) Default(ctx context.Context, raw []byte, namespace string) ([]byte, error) {
	var given map[string]any
	if len(o.platform.Defaults) == 0 || kjson.UnmarshalCaseSensitivePreserveInts(raw, &given) != nil {
		return raw, nil //nolint:nilerr // the caller reads the object, too
	}
	u := unstructured.Unstructured{Object: given}
	kind, def, findings, err := find(u.GroupVersionKind())
	if findings != nil || errors.Is(err, ErrSkipped) {
		return raw, nil
	}
	if err != nil {
		return nil, err
	}
	obj, strict, err := def.Decode(raw)
	if err != nil || len(strict) > 0 {
		return raw, nil //nolint:nilerr // as above
	}
	_, changed := o.defaulted(ctx, kind, def, obj, namespace)
	if len(changed) == 0 {
		return raw, nil
	}
	maps.Copy(given["spec"].(map[string]any), changed)
	return json.Marshal(given)
}

// defaulted returns a new object with its defaults, and the fields of the spec that change
// thereby.
func (o *Offline) defaulted(ctx context.Context, kind validate.AnyKind, def *schema.Definition, obj map[string]any, namespace string) (all, changed map[string]any) {
	u := unstructured.Unstructured{Object: obj}
	if u.GetUID() != "" {
		return obj, nil
	}
	return defaulter{kind, def, o.platform}.add(ctx, obj, cmp.Or(u.GetNamespace(), namespace))
}

// CheckDefaults returns an error for everything in the defaults of the platform
// configuration because of which admission would reject any object.
func CheckDefaults(platform config.Platform) error {
	var names []string
	for _, k := range Kinds() {
		names = append(names, k.GVK.Kind)
	}
	var errs []error
	for i, d := range platform.Defaults {
		for j, name := range d.Kinds {
			if !slices.Contains(names, name) {
				errs = append(errs, fmt.Errorf("defaults[%d].kinds[%d] is %q, must be one of %s", i, j, name, strings.Join(names, ", ")))
			}
		}
		for _, k := range Kinds() {
			if !d.Concerns(k.GVK.Kind) || !platform.Manages(k.GVK.Kind) {
				continue
			}
			problems, err := problems(k, d.Spec, platform)
			if err != nil {
				return err
			}
			for _, p := range problems {
				errs = append(errs, fmt.Errorf("defaults[%d] cannot be used for %s: %s", i, k.GVK.Kind, p))
			}
		}
	}
	return errors.Join(errs...)
}

// problems returns why an object with a part of a spec, and only the fields that are
// required, would be rejected. Rules that relate it to other fields do not apply.
func problems(kind validate.AnyKind, part config.Spec, platform config.Platform) ([]string, error) {
	_, def, _, err := find(kind.GVK)
	if err != nil {
		return nil, err
	}
	spec := map[string]any{}
	maps.Copy(spec, part)
	for _, name := range def.Schema.Properties["spec"].Required {
		spec[name] = map[string]any{"image": "registry.example/image:1", "size": int64(1)}[name]
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": kind.GVK.GroupVersion().String(), "kind": kind.GVK.Kind, "metadata": map[string]any{"name": "a"}, "spec": spec,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the defaults: %w", err)
	}
	obj, all, err := def.Decode(raw)
	if err != nil {
		return nil, err
	}
	for _, e := range def.Validate(context.Background(), obj, nil) {
		all = append(all, e.Error())
	}
	if len(all) > 0 {
		return all, nil
	}
	typed := kind.New()
	if err := convert(obj, typed); err != nil {
		return nil, err
	}
	for _, e := range kind.Judge(typed, platform).Refused {
		if set := strings.Split(e.Field, "."); len(set) > 1 && part[set[1]] != nil {
			all = append(all, e.Error())
		}
	}
	return all, nil
}
