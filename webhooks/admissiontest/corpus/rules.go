package corpus

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/webhooks/schema"
)

// Definition contains one version of a CRD, and the rules of the spec and of the whole
// object, sorted by path. Rules of the status are not included, because users do not
// write it.
type Definition struct {
	*schema.Definition

	Rules []Rule
	marks map[string]Rule
}

// Definition returns a version of the kind; "" is the stored version.
func (k Kind) Definition(version string) (*Definition, error) {
	all, err := crd.All()
	if err != nil {
		return nil, err
	}
	for _, c := range all {
		if c.Spec.Group != k.GVK.Group || c.Spec.Names.Kind != k.GVK.Kind {
			continue
		}
		d := &Definition{}
		marked := *c.DeepCopy()
		for i := range marked.Spec.Versions {
			v := &marked.Spec.Versions[i]
			if v.Name == cmp.Or(version, k.GVK.Version) {
				d.Rules, d.marks = enumerate(v.Schema.OpenAPIV3Schema)
				mark(v.Schema.OpenAPIV3Schema)
			}
		}
		d.Definition, err = schema.New(marked, version)
		return d, err
	}
	return nil, fmt.Errorf("there is no CRD of %s", k.GVK)
}

// Validate validates an object like schema.Definition, and returns the CEL rule that
// each error comes from, or nil.
func (d *Definition) Validate(ctx context.Context, obj, old map[string]any) (field.ErrorList, []*Rule) {
	errs := d.Definition.Validate(ctx, obj, old)
	rules := make([]*Rule, len(errs))
	for i, e := range errs {
		if m := markIn.FindStringSubmatch(e.Detail); m != nil {
			r := d.marks[m[1]]
			rules[i] = &r
			e.Detail, e.Field = markIn.ReplaceAllString(e.Detail, ""), markIn.ReplaceAllString(e.Field, "")
		}
	}
	return errs, rules
}

// Keyword is the type of a rule: its name in the schema.
type Keyword string

// KeywordCEL is a rule in x-kubernetes-validations. The others are the keywords of
// the schema.
const (
	KeywordCEL           Keyword = "x-kubernetes-validations"
	KeywordRequired      Keyword = "required"
	KeywordEnum          Keyword = "enum"
	KeywordPattern       Keyword = "pattern"
	KeywordFormat        Keyword = "format"
	KeywordMinimum       Keyword = "minimum"
	KeywordMaximum       Keyword = "maximum"
	KeywordMinLength     Keyword = "minLength"
	KeywordMaxLength     Keyword = "maxLength"
	KeywordMinItems      Keyword = "minItems"
	KeywordMaxItems      Keyword = "maxItems"
	KeywordMinProperties Keyword = "minProperties"
	KeywordMaxProperties Keyword = "maxProperties"
	KeywordUnique        Keyword = "x-kubernetes-list-map-keys"
)

// Rule is one rule in the schema of a spec.
type Rule struct {
	// Path is the field, such as spec.pod.volumes[*].name. [*] also stands for the
	// values of a map. For a required field, it is the field itself.
	Path    string
	Keyword Keyword
	// Text is the bound, the pattern, the values or the CEL expression.
	Text string
	// Message is the message that the user reads, if the rule specifies one.
	Message string
}

// visit calls f for s and each schema below it, parents first, fields sorted by
// name.
func visit(s *apiextensionsv1.JSONSchemaProps, path string, f func(path string, s *apiextensionsv1.JSONSchemaProps)) {
	f(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if path == "" && name != "spec" {
			continue
		}
		p := s.Properties[name]
		visit(&p, strings.TrimPrefix(path+"."+name, "."), f)
		s.Properties[name] = p
	}
	if s.Items != nil && s.Items.Schema != nil {
		visit(s.Items.Schema, path+"[*]", f)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		visit(s.AdditionalProperties.Schema, path+"[*]", f)
	}
}

func enumerate(root *apiextensionsv1.JSONSchemaProps) ([]Rule, map[string]Rule) {
	var all []Rule
	marks := map[string]Rule{}
	visit(root, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		add := func(k Keyword, text string) { all = append(all, Rule{Path: path, Keyword: k, Text: text}) }
		for _, r := range s.Required {
			all = append(all, Rule{Path: strings.TrimPrefix(path+"."+r, "."), Keyword: KeywordRequired})
		}
		if len(s.Enum) > 0 {
			var values []string
			for _, v := range s.Enum {
				var word any
				if err := json.Unmarshal(v.Raw, &word); err != nil {
					word = string(v.Raw)
				}
				values = append(values, fmt.Sprint(word))
			}
			add(KeywordEnum, strings.Join(values, ", "))
		}
		if s.Pattern != "" {
			add(KeywordPattern, s.Pattern)
		}
		if s.Format != "" && s.Format != "int32" && s.Format != "int64" {
			add(KeywordFormat, s.Format)
		}
		for k, v := range map[Keyword]*float64{KeywordMinimum: s.Minimum, KeywordMaximum: s.Maximum} {
			if v != nil {
				add(k, strconv.FormatFloat(*v, 'f', -1, 64))
			}
		}
		for k, v := range map[Keyword]*int64{
			KeywordMinLength: s.MinLength, KeywordMaxLength: s.MaxLength, KeywordMinItems: s.MinItems, KeywordMaxItems: s.MaxItems,
			KeywordMinProperties: s.MinProperties, KeywordMaxProperties: s.MaxProperties,
		} {
			if v != nil {
				add(k, strconv.FormatInt(*v, 10))
			}
		}
		if len(s.XListMapKeys) > 0 {
			add(KeywordUnique, strings.Join(s.XListMapKeys, ", "))
		}
		for i, v := range s.XValidations {
			r := Rule{Path: path, Keyword: KeywordCEL, Text: v.Rule, Message: v.Message}
			all = append(all, r)
			marks[markOf(path, i)] = r
		}
	})
	slices.SortStableFunc(all, func(a, b Rule) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		if c := strings.Compare(string(a.Keyword), string(b.Keyword)); c != 0 {
			return c
		}
		return strings.Compare(a.Text, b.Text)
	})
	return all, marks
}

// The message of each CEL rule is marked before the rule is compiled, so that an
// error shows exactly which rule it comes from.
var markIn = regexp.MustCompile(`⟦([^⟧]*)⟧`)

func markOf(path string, i int) string { return fmt.Sprintf("%s#%d", path, i) }

func mark(root *apiextensionsv1.JSONSchemaProps) {
	visit(root, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for i := range s.XValidations {
			v := &s.XValidations[i]
			if v.Message == "" {
				v.Message = "failed rule: " + v.Rule
			}
			v.Message = "⟦" + markOf(path, i) + "⟧" + v.Message
		}
	})
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// Place returns a field of an object, such as spec.env[3].name, in the notation of
// rules, which is [*] for every index and key.
func Place(path string) string { return index.ReplaceAllString(path, "[*]") }
