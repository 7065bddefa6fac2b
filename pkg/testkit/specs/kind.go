package specs

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/testkit/crd"
	"github.com/platform-operator/platform-operator/webhooks/demoapplication"
	"github.com/platform-operator/platform-operator/webhooks/immortalcontainer"
	"github.com/platform-operator/platform-operator/webhooks/memcached"
	"github.com/platform-operator/platform-operator/webhooks/policy"
	"github.com/platform-operator/platform-operator/webhooks/webserver"
)

// Namespace is the namespace of an object that does not specify one.
const Namespace = "default"

// Kind is a kind of the corpus.
type Kind struct {
	// Folder is the folder of its cases.
	Folder string
	// APIVersion and Kind are set in objects that do not specify them.
	APIVersion, Kind string
	// Versions are all served versions, beginning with the stored one.
	Versions []string
	crd      string
	// New returns an empty object.
	New func() client.Object
	// Validate is the admission of the kind, and Platform the validation against
	// the platform configuration.
	Validate, Platform func(client.Object, config.Platform) field.ErrorList
}

func kind[T client.Object](folder, apiVersion, name, definition string, empty func() T,
	validate func(T, config.Platform) field.ErrorList, judge func(T, config.Platform) policy.Verdict, more ...string,
) Kind {
	return Kind{
		Folder: folder, APIVersion: apiVersion, Kind: name, Versions: append([]string{path.Base(apiVersion)}, more...), crd: definition,
		New:      func() client.Object { return empty() },
		Validate: func(o client.Object, p config.Platform) field.ErrorList { return validate(o.(T), p) },
		Platform: func(o client.Object, p config.Platform) field.ErrorList { return judge(o.(T), p).Refused },
	}
}

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{
		kind("demoapplication", "paas.cmft.com/v1", demoapplicationv1.Kind, "paas.cmft.com_demoapplications.yaml",
			func() *demoapplicationv1.DemoApplication { return &demoapplicationv1.DemoApplication{} },
			demoapplication.Validate, policy.DemoApplication, "v1beta1"),
		kind("immortalcontainer", "immortalcontainer.flugel.it/v1alpha1", immortalv1alpha1.Kind, "immortalcontainer.flugel.it_immortalcontainers.yaml",
			func() *immortalv1alpha1.ImmortalContainer { return &immortalv1alpha1.ImmortalContainer{} },
			func(i *immortalv1alpha1.ImmortalContainer, _ config.Platform) field.ErrorList {
				return immortalcontainer.Validate(i)
			},
			policy.ImmortalContainer),
		kind("memcached", "cache.example.com/v1alpha1", cachev1alpha1.Kind, "cache.example.com_memcacheds.yaml",
			func() *cachev1alpha1.Memcached { return &cachev1alpha1.Memcached{} },
			func(m *cachev1alpha1.Memcached, _ config.Platform) field.ErrorList { return memcached.Validate(m) }, policy.Memcached),
		kind("webserver", "my.domain/v1", webserverv1.Kind, "my.domain_webservers.yaml",
			func() *webserverv1.WebServer { return &webserverv1.WebServer{} }, webserver.Validate, policy.WebServer),
	}
}

// Definition reads the CRD of the kind from dir, config/crd/bases.
func (k Kind) Definition(dir, version string) (*crd.Definition, error) {
	return crd.Read(filepath.Join(dir, k.crd), version)
}

// object returns a complete object with that spec.
func (k Kind) object(spec json.RawMessage) []byte {
	return fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":"example"},"spec":%s}`, k.APIVersion, k.Kind, spec)
}

// Fault is a validation error of a layer.
type Fault struct {
	Layer Layer
	// Field is empty if the layer does not report one.
	Field, Message string
	// Rule is the rule of the schema that caused the error, if any.
	Rule *crd.Rule
}

func (f Fault) String() string { return fmt.Sprintf("%s: %s: %s", f.Layer, f.Field, f.Message) }

// Judge validates a case with every layer separately. It returns an error if the
// case is malformed, for example if the old object cannot be read.
func Judge(ctx context.Context, k Kind, d *crd.Definition, c Case) ([]Fault, error) {
	var faults []Fault
	obj, strict, err := d.Decode(c.Object)
	if err != nil {
		return []Fault{{Layer: Decode, Message: err.Error()}}, nil //nolint:nilerr // an object that cannot be read is a result
	}
	for _, s := range strict {
		faults = append(faults, Fault{Layer: Decode, Message: s})
	}
	var old map[string]any
	if c.Old != nil {
		if old, strict, err = d.Decode(c.Old); err != nil || len(strict) > 0 {
			return nil, fmt.Errorf("the old object of %s: %v %w", c, strict, err)
		}
	}
	var schema []crd.Fault
	if old == nil {
		schema = d.Create(ctx, obj)
	} else {
		schema = d.Update(ctx, obj, old)
	}
	for _, f := range schema {
		faults = append(faults, Fault{Layer: Schema, Field: f.Field, Message: f.ErrorBody(), Rule: f.Rule})
	}
	now, before := k.New(), k.New()
	if err := typed(obj, now); err != nil {
		if len(schema) == 0 {
			return nil, fmt.Errorf("%s: the schema admits what our types cannot read, and no controller would see any object of the kind again: %w", c, err)
		}
		return faults, nil
	}
	if old != nil {
		if err := typed(old, before); err != nil {
			return nil, fmt.Errorf("the old object of %s: %w", c, err)
		}
	}
	for layer, refused := range map[Layer]func(client.Object, config.Platform) field.ErrorList{Go: k.Validate, Policy: k.Platform} {
		known := map[string]int{}
		if old != nil {
			for _, e := range refused(before, c.Platform) {
				known[entry(e)]++
			}
		}
		for _, e := range refused(now, c.Platform) {
			if known[entry(e)]--; known[entry(e)] < 0 {
				faults = append(faults, Fault{Layer: layer, Field: e.Field, Message: e.ErrorBody()})
			}
		}
	}
	return faults, nil
}

// entry identifies an error regardless of its position in a list, because admission
// allows an update to keep existing errors.
func entry(e *field.Error) string { return crd.Place(e.Field) + e.ErrorBody() }

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
func Wrong(c Case, faults []Fault) string {
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
		if !slices.ContainsFunc(faults, func(f Fault) bool {
			at := c.Refused.Field[l]
			named := f.Field == at || l == Decode && strings.Contains(f.Message, at)
			return f.Layer == l && named && strings.Contains(f.Message, c.Refused.Says[l])
		}) {
			return fmt.Sprintf("%s does not say %q of %s", l, c.Refused.Says[l], c.Refused.Field[l])
		}
	}
	return ""
}
