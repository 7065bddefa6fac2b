package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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

// Rules returns the rules of the spec and of the whole object, sorted by path.
// Rules of the status are not included, because users do not write it.
func (d *Definition) Rules() []Rule { return slices.Clone(d.rules) }

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

// remove removes one rule from the schema.
func remove(root *apiextensionsv1.JSONSchemaProps, r Rule) error {
	done := false
	visit(root, "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		if r.Keyword == KeywordRequired {
			if parent, name, ok := cutLast(r.Path); ok && parent == path {
				n := len(s.Required)
				s.Required = slices.DeleteFunc(s.Required, func(f string) bool { return f == name })
				done = done || len(s.Required) < n
			}
			return
		}
		if path != r.Path {
			return
		}
		done = true
		switch r.Keyword {
		case KeywordEnum:
			s.Enum = nil
		case KeywordPattern:
			s.Pattern = ""
		case KeywordFormat:
			s.Format = ""
		case KeywordMinimum:
			s.Minimum = nil
		case KeywordMaximum:
			s.Maximum = nil
		case KeywordMinLength:
			s.MinLength = nil
		case KeywordMaxLength:
			s.MaxLength = nil
		case KeywordMinItems:
			s.MinItems = nil
		case KeywordMaxItems:
			s.MaxItems = nil
		case KeywordMinProperties:
			s.MinProperties = nil
		case KeywordMaxProperties:
			s.MaxProperties = nil
		case KeywordUnique:
			s.XListMapKeys, s.XListType = nil, nil
		default:
			done = false
		}
	})
	if !done {
		return fmt.Errorf("there is no rule %v", r)
	}
	return nil
}

func cutLast(path string) (parent, name string, ok bool) {
	i := strings.LastIndex(path, ".")
	if i < 0 {
		return "", path, path != ""
	}
	return path[:i], path[i+1:], true
}

var index = regexp.MustCompile(`\[[^\]]*\]`)

// Place returns a field of an object, such as spec.env[3].name, in the notation of
// rules, which is [*] for every index and key.
func Place(path string) string { return index.ReplaceAllString(path, "[*]") }

// structuralRule finds the rule that an error comes from, by its type and text.
func (d *Definition) structuralRule(e *field.Error) (Rule, bool) {
	var keywords []Keyword
	switch e.Type {
	case field.ErrorTypeRequired:
		keywords = []Keyword{KeywordRequired}
	case field.ErrorTypeNotSupported:
		keywords = []Keyword{KeywordEnum}
	case field.ErrorTypeTooLong:
		keywords = []Keyword{KeywordMaxLength}
	case field.ErrorTypeTooMany:
		keywords = []Keyword{KeywordMaxItems, KeywordMaxProperties}
	case field.ErrorTypeDuplicate:
		keywords = []Keyword{KeywordUnique}
	case field.ErrorTypeInvalid, field.ErrorTypeTypeInvalid:
		for words, ks := range map[string][]Keyword{
			"should match":                       {KeywordPattern},
			"should be greater than or equal to": {KeywordMinimum},
			"should be less than or equal to":    {KeywordMaximum},
			"should be at least":                 {KeywordMinLength},
			"should have at least":               {KeywordMinItems, KeywordMinProperties},
			"must be of type":                    {KeywordFormat},
		} {
			if strings.Contains(e.Detail, words) {
				keywords = append(keywords, ks...)
			}
		}
	}
	for i, r := range d.rules {
		at := e.Field
		if r.Keyword == KeywordUnique {
			at = strings.TrimSuffix(Place(at), "[*]") // the error is that of the list, the rule that of the entry
		}
		if slices.Contains(keywords, r.Keyword) && d.places[i].MatchString(at) {
			return r, true
		}
	}
	return Rule{}, false
}

// places returns patterns of the fields in the errors of the rules. A key of a map
// is in brackets or behind a dot, and can contain dots.
func places(rules []Rule) []*regexp.Regexp {
	all := make([]*regexp.Regexp, len(rules))
	for i, r := range rules {
		all[i] = regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(r.Path), `\[\*\]`, `(\[[^\]]*\]|\..+)`) + "$")
	}
	return all
}
