package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// Namespace is the namespace of an object that does not specify one.
const Namespace = "default"

// Kind is a kind of the corpus.
type Kind struct {
	validate.AnyKind
	// Folder is the folder of its cases.
	Folder string
	// APIVersion and Kind are set in objects that do not specify them.
	APIVersion, Kind string
	// Versions are all served versions, beginning with the stored one.
	Versions []string
}

// Kinds returns all kinds.
func Kinds() []Kind {
	var all []Kind
	for _, k := range webhooks.Kinds() {
		all = append(all, Kind{
			AnyKind: k, Folder: strings.ToLower(k.GVK.Kind), APIVersion: k.GVK.GroupVersion().String(), Kind: k.GVK.Kind, Versions: versions(k),
		})
	}
	return all
}

// versions returns the served versions of a kind, beginning with the stored one.
func versions(k validate.AnyKind) []string {
	all, err := crd.All()
	utilruntime.Must(err)
	versions := []string{k.GVK.Version}
	for _, c := range all {
		for _, v := range c.Spec.Versions {
			if c.Spec.Group == k.GVK.Group && c.Spec.Names.Kind == k.GVK.Kind && v.Served && v.Name != k.GVK.Version {
				versions = append(versions, v.Name)
			}
		}
	}
	return versions
}

// object returns a complete object with that spec.
func (k Kind) object(spec json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"example"},"spec":%s}`, k.APIVersion, k.Kind, spec)
}

// Failure is a validation error of a layer.
type Failure struct {
	Layer Layer
	// Field is empty if the layer does not report one.
	Field, Message string
	// Rule is the CEL rule that caused the error, if any.
	Rule *Rule
}

func (f Failure) String() string { return fmt.Sprintf("%s: %s: %s", f.Layer, f.Field, f.Message) }

// Judge validates a case with every layer separately. It returns an error if the
// case is malformed, for example if the old object cannot be read.
func Judge(ctx context.Context, k Kind, d *Definition, c Case) ([]Failure, error) {
	var faults []Failure
	obj, strict, err := d.Decode(c.Object)
	if err != nil {
		return []Failure{{Layer: Decode, Message: err.Error()}}, nil //nolint:nilerr // an object that cannot be read is a result
	}
	for _, s := range strict {
		faults = append(faults, Failure{Layer: Decode, Message: s})
	}
	var old map[string]any
	if c.Old != nil {
		if old, strict, err = d.Decode(c.Old); err != nil || len(strict) > 0 {
			return nil, fmt.Errorf("the old object of %s: %v %w", c, strict, err)
		}
	}
	violations, rules := d.Validate(ctx, obj, old)
	for i, f := range violations {
		faults = append(faults, Failure{Layer: Schema, Field: f.Field, Message: f.ErrorBody(), Rule: rules[i]})
	}
	now, before := k.New(), k.New()
	if err := typed(obj, now); err != nil {
		if len(violations) == 0 {
			return nil, fmt.Errorf("%s: the schema admits what our types cannot read, and no controller would see any object of the kind again: %w", c, err)
		}
		return faults, nil
	}
	if old != nil {
		if err := typed(old, before); err != nil {
			return nil, fmt.Errorf("the old object of %s: %w", c, err)
		}
	}
	policy := func(o client.Object, p config.Platform) field.ErrorList { return k.Judge(o, p).Refused }
	for layer, refused := range map[Layer]func(client.Object, config.Platform) field.ErrorList{Go: k.Validate, Policy: policy} {
		errs := refused(now, c.Platform)
		if old != nil {
			errs = config.Introduced(errs, refused(before, c.Platform))
			if layer == Go {
				errs = append(errs, k.ValidateUpdate(before, now, c.Platform)...)
			}
		}
		for _, e := range errs {
			faults = append(faults, Failure{Layer: layer, Field: e.Field, Message: e.ErrorBody()})
		}
	}
	return faults, nil
}

// typed converts an object to its type.
func typed(obj map[string]any, into client.Object) error {
	raw, err := json.Marshal(obj)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return err
	}
	if into.GetNamespace() == "" {
		into.SetNamespace(Namespace)
	}
	return nil
}

// Wrong describes how a result differs from what the case expects, or returns "" if
// it does not.
func Wrong(c Case, faults []Failure) string {
	var by []Layer
	for _, f := range faults {
		if !slices.Contains(by, f.Layer) {
			by = append(by, f.Layer)
		}
	}
	var want []Layer
	if c.Refused != nil {
		want = c.Refused.By
	}
	for _, l := range Layers() {
		if slices.Contains(by, l) != slices.Contains(want, l) {
			return fmt.Sprintf("refused by %v, want %v", by, want)
		}
	}
	for _, l := range want {
		if !slices.ContainsFunc(faults, func(f Failure) bool {
			at := c.Refused.Field[l]
			named := f.Field == at || l == Decode && strings.Contains(f.Message, at)
			return f.Layer == l && named && strings.Contains(f.Message, c.Refused.Says[l])
		}) {
			return fmt.Sprintf("%s does not say %q of %s", l, c.Refused.Says[l], c.Refused.Field[l])
		}
	}
	return ""
}
