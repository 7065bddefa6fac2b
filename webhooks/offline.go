package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/manifest"
	"github.com/platform-operator/platform-operator/webhooks/schema"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// Offline validates manifests as the API server and the webhooks do when the
// objects are created, without a cluster: unknown fields, the schema with its CEL
// rules, the validation of the kind and that of the platform configuration.
type Offline struct {
	platform config.Platform
}

// compiled are the CRDs that were used so far: compiling their rules is slow.
var compiled sync.Map // of *schema.Definition by runtimeschema.GroupVersionKind

func definition(c apiextensionsv1.CustomResourceDefinition, gvk runtimeschema.GroupVersionKind) (*schema.Definition, error) {
	if d, ok := compiled.Load(gvk); ok {
		return d.(*schema.Definition), nil
	}
	d, err := schema.New(c, gvk.Version)
	if err == nil {
		compiled.Store(gvk, d)
	}
	return d, err
}

// NewOffline returns a validator of manifests.
func NewOffline(platform config.Platform) *Offline {
	return &Offline{platform}
}

// Finding is a validation error or a warning.
type Finding struct {
	// Field is the path of the field, or "" if the message contains it.
	Field, Message string
	// Warning reports that the object is admitted.
	Warning bool
}

// String returns the finding in one line.
func (f Finding) String() string {
	s := f.Message
	if f.Field != "" {
		s = f.Field + ": " + s
	}
	if f.Warning {
		s = "Warning: " + s
	}
	return strings.Join(strings.Fields(s), " ")
}

// ErrSkipped is the error for an object of a kind that the operator does not have.
var ErrSkipped = errors.New("not a kind of this operator")

// convert reads decoded JSON into an object.
func convert(from map[string]any, into any) error {
	raw, err := json.Marshal(from)
	if err != nil {
		return fmt.Errorf("encoding the object: %w", err)
	}
	return json.Unmarshal(raw, into)
}

// Validate validates an object in JSON. An error other than ErrSkipped means that
// the object could not be validated.
func (o *Offline) Validate(ctx context.Context, raw []byte) ([]Finding, error) {
	var meta metav1.TypeMeta
	if err := json.Unmarshal(raw, &meta); err != nil {
		return []Finding{{Message: "The document is not an object: " + err.Error() + "."}}, nil //nolint:nilerr // the object is not valid
	}
	for name, value := range map[string]string{"apiVersion": meta.APIVersion, "kind": meta.Kind} {
		if value == "" {
			return []Finding{{Field: name, Message: "Required value"}}, nil
		}
	}
	kind, def, findings, err := find(meta.GroupVersionKind())
	if err != nil || findings != nil {
		return findings, err
	}
	if !o.platform.Manages(meta.Kind) {
		findings = append(findings, Finding{Field: "kind", Message: fmt.Sprintf("Forbidden: the platform configuration disables %s (kinds)", meta.Kind)})
	}
	obj, strict, err := def.Decode(raw)
	if err != nil {
		return []Finding{{Message: err.Error()}}, nil //nolint:nilerr // an object that cannot be decoded is invalid
	}
	for _, s := range strict {
		findings = append(findings, Finding{Message: s})
	}
	obj, _ = o.defaulted(ctx, kind, def, obj, metav1.NamespaceDefault)
	failures := def.Validate(ctx, obj, nil)
	for _, f := range failures {
		findings = append(findings, Finding{Field: f.Field, Message: f.ErrorBody()})
	}
	// The webhooks validate objects that the schema admits. What does not fit into
	// the type has been reported by the schema.
	typed := kind.New()
	if err := convert(obj, typed); err != nil {
		if len(failures) == 0 {
			return nil, fmt.Errorf("reading the object: %w", err)
		}
		return findings, nil
	}
	if typed.GetNamespace() == "" {
		typed.SetNamespace(metav1.NamespaceDefault)
	}
	errs, _, warnings := validator{kind, o.platform, noRecorder{}}.validate(typed)
	for _, e := range errs {
		findings = append(findings, Finding{Field: e.Field, Message: e.ErrorBody()})
	}
	for _, w := range warnings {
		findings = append(findings, Finding{Message: w, Warning: true})
	}
	return findings, nil
}

// find returns the kind of an object and its CRD, or why there is none. Another
// kind in one of the operator's groups is an error rather than skipped: a misspelled
// kind must not count as valid.
func find(gvk runtimeschema.GroupVersionKind) (validate.AnyKind, *schema.Definition, []Finding, error) {
	all, err := crd.All()
	if err != nil {
		return validate.AnyKind{}, nil, nil, err
	}
	var inGroup []string
	for _, c := range all {
		if c.Spec.Group != gvk.Group {
			continue
		}
		if inGroup = append(inGroup, c.Spec.Names.Kind); c.Spec.Names.Kind != gvk.Kind {
			continue
		}
		var versions []string
		for _, v := range c.Spec.Versions {
			if v.Served {
				versions = append(versions, gvk.Group+"/"+v.Name)
			}
		}
		if !slices.Contains(versions, gvk.GroupVersion().String()) {
			return validate.AnyKind{}, nil, []Finding{{Field: "apiVersion", Message: fmt.Sprintf("Unsupported value: %q: supported values: %s", gvk.GroupVersion(), strings.Join(versions, ", "))}}, nil
		}
		def, err := definition(c, gvk)
		if err != nil {
			return validate.AnyKind{}, nil, nil, err
		}
		for _, k := range Kinds() {
			if k.GVK.GroupKind() == gvk.GroupKind() {
				return k, def, nil, nil
			}
		}
	}
	if inGroup != nil {
		return validate.AnyKind{}, nil, []Finding{{Field: "kind", Message: fmt.Sprintf("Unsupported value: %q: supported values: %s", gvk.Kind, strings.Join(inGroup, ", "))}}, nil
	}
	return validate.AnyKind{}, nil, nil, ErrSkipped
}

// Tally counts the objects of a source.
type Tally struct {
	Valid, Invalid, Skipped int
}

// Documents validates all objects of a source. It writes a line for each problem, and
// one for each valid or skipped object. name is the name of the source in these lines.
func (o *Offline) Documents(ctx context.Context, r io.Reader, name string, w io.Writer) (Tally, error) {
	var t Tally
	err := manifest.Read(r, name, func(obj manifest.Object) error {
		if obj.Err != nil {
			t.Invalid++
			fmt.Fprintf(w, "%s: %s\n", obj.At, Finding{Message: obj.Err.Error()})
			return nil //nolint:nilerr // the object is not valid
		}
		if err := o.document(ctx, obj.JSON, obj.At, w, &t); err != nil {
			return fmt.Errorf("%s: %w", obj.At, err)
		}
		return nil
	})
	return t, err
}

func (o *Offline) document(ctx context.Context, raw []byte, at string, w io.Writer, t *Tally) error {
	var m metav1.PartialObjectMetadata
	if json.Unmarshal(raw, &m) == nil && m.Kind != "" {
		at += ": " + m.Kind
		if m.Name != "" {
			at += fmt.Sprintf(" %q", m.Name)
		}
	}
	findings, err := o.Validate(ctx, raw)
	switch {
	case errors.Is(err, ErrSkipped):
		t.Skipped++
		fmt.Fprintf(w, "%s: skipped, %v\n", at, err)
		return nil
	case err != nil:
		return err
	}
	invalid := false
	for _, f := range findings {
		invalid = invalid || !f.Warning
		fmt.Fprintf(w, "%s: %s\n", at, f)
	}
	if invalid {
		t.Invalid++
		return nil
	}
	t.Valid++
	fmt.Fprintf(w, "%s: valid\n", at)
	return nil
}
