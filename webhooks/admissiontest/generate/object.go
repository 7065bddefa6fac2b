// Package generate generates random objects from the schema of a kind. Most are
// valid, including the boundaries of the schema, and some are invalid.
package generate

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"
)

// Dice is the source of random decisions, which are determined by some bytes: a
// fuzzer can change one decision by changing one byte. Once the bytes are used up,
// a generator that is seeded with them continues, so that a few bytes are enough.
type Dice struct {
	given []byte
	rest  *rand.Rand
}

// NewDice returns dice that are determined by the given bytes.
func NewDice(given []byte) *Dice {
	h := fnv.New64a()
	h.Write(given)                                                        // writing to a hash never fails
	return &Dice{given: given, rest: rand.New(rand.NewPCG(h.Sum64(), 1))} //nolint:gosec // it does not protect a secret
}

// Below returns a number from 0 to n-1.
func (d *Dice) Below(n int) int {
	if n <= 1 {
		return 0
	}
	if len(d.given) == 0 {
		return d.rest.IntN(n)
	}
	b := int(d.given[0])
	d.given = d.given[1:]
	if n <= 256 {
		return b % n
	}
	return (b<<16 | d.rest.IntN(1<<16)) % n
}

// One returns true once in n times.
func (d *Dice) One(n int) bool { return d.Below(n) == 0 }

func pick[T any](d *Dice, of []T) T { return of[d.Below(len(of))] }

// Object generates an object of the kind with that schema, without apiVersion, kind
// and metadata. full is the percentage of the optional fields at the top level that
// are set; deeper ones are set more rarely.
func Object(d *Dice, schema *apiextensionsv1.JSONSchemaProps, full int) map[string]any {
	s := schema.Properties["spec"]
	return map[string]any{"spec": value(d, &s, "spec", full)}
}

func value(d *Dice, s *apiextensionsv1.JSONSchemaProps, name string, full int) any {
	switch {
	case d.One(400):
		return pick(d, []any{nil, "", 0, -1, true, []any{}, map[string]any{}, "0", " ", 1 << 40, 1.5})
	case len(s.Enum) > 0:
		return enum(d, s)
	case s.XIntOrString:
		return intOrString(d, s)
	}
	switch s.Type {
	case "object":
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			return entries(d, s, full)
		}
		return fields(d, s, full)
	case "array":
		return items(d, s, name, full)
	case "integer":
		return number(d, s)
	case "number":
		return float64(number(d, s)) + 0.5
	case "boolean":
		return d.One(2)
	default:
		return text(d, s)
	}
}

// oneOf matches the message of a rule of the schema that requires exactly one of
// several fields: an object that is generated without regard to the rule is hardly
// ever valid.
var oneOf = regexp.MustCompile(`^exactly one of (?:the fields in )?\[?(.*?)\]? must be set$`)

func fields(d *Dice, s *apiextensionsv1.JSONSchemaProps, full int) map[string]any {
	obj := map[string]any{}
	left := map[string]bool{}
	for _, r := range s.XValidations {
		if m := oneOf.FindStringSubmatch(r.Message); m != nil {
			names := strings.Fields(strings.NewReplacer(",", " ", " and ", " ", " or ", " ").Replace(m[1]))
			keep := pick(d, names)
			for _, n := range names {
				left[n] = n != keep
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		p := s.Properties[name]
		out, chosen := left[name]
		switch {
		case slices.Contains(s.Required, name), chosen && !out:
		case chosen && !d.One(50):
			continue
		case d.Below(100) >= full:
			continue
		}
		obj[name] = value(d, &p, name, max(8, full*2/3))
	}
	return obj
}

func entries(d *Dice, s *apiextensionsv1.JSONSchemaProps, full int) map[string]any {
	obj := map[string]any{}
	n := d.Below(3)
	if d.One(20) && s.MaxProperties != nil {
		n = int(min(*s.MaxProperties, 64))
	}
	for i := range n {
		key := pick(d, keys())
		if i >= 3 {
			key = fmt.Sprintf("key-%d", i)
		}
		obj[key] = value(d, s.AdditionalProperties.Schema, key, full)
	}
	return obj
}

func items(d *Dice, s *apiextensionsv1.JSONSchemaProps, name string, full int) []any {
	n := d.Below(4)
	if s.MinItems != nil {
		n = max(n, int(*s.MinItems))
	}
	if s.MaxItems != nil && d.One(40) {
		n = int(min(*s.MaxItems, 40)) + d.Below(2)
	}
	list := []any{}
	for range n {
		list = append(list, value(d, s.Items.Schema, name, full))
	}
	return list
}

func number(d *Dice, s *apiextensionsv1.JSONSchemaProps) int64 {
	least, most := int64(-5), int64(1<<31-1)
	if s.Minimum != nil {
		least = int64(*s.Minimum)
	}
	if s.Maximum != nil {
		most = int64(*s.Maximum)
	}
	switch d.Below(12) {
	case 0:
		return least
	case 1:
		return most
	case 2:
		return pick(d, []int64{least - 1, most + 1, 0, -1, 1 << 31, 1 << 62})
	default:
		usual := []int64{1, 2, 3, 5, 10, 30, 50, 80, 443, 8080, 11211, 30010, 31000}
		usual = slices.DeleteFunc(usual, func(n int64) bool { return n < least || n > most })
		if len(usual) == 0 {
			return least
		}
		return pick(d, usual)
	}
}

func enum(d *Dice, s *apiextensionsv1.JSONSchemaProps) any {
	if d.One(100) {
		return pick(d, words())
	}
	var v any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(pick(d, s.Enum).Raw, &v); err != nil {
		return err.Error()
	}
	return v
}

func intOrString(d *Dice, s *apiextensionsv1.JSONSchemaProps) any {
	switch {
	case strings.Contains(s.Pattern, "KMGTPE"): // a quantity
		return pick(d, quantities())
	case d.One(2):
		return pick(d, []int64{0, 1, 2, 3, 80, 443, 8080, 65535, 65536, -1})
	}
	return text(d, s)
}

// text returns a word that the schema allows, if there is one, or else any.
func text(d *Dice, s *apiextensionsv1.JSONSchemaProps) string {
	if d.One(60) {
		return pick(d, words())
	}
	switch s.Format {
	case "date-time":
		return time.Unix(int64(d.Below(1<<30)), 0).UTC().Format(time.RFC3339)
	case "":
	default:
		return pick(d, []string{"a", "1"})
	}
	most := 64
	if s.MaxLength != nil {
		most = int(*s.MaxLength)
	}
	var re *regexp.Regexp
	if s.Pattern != "" {
		re, _ = regexp.Compile(s.Pattern) // otherwise the CRD would not have been read
	}
	allowed := slices.DeleteFunc(words(), func(w string) bool {
		return len(w) > most || s.MinLength != nil && len(w) < int(*s.MinLength) || re != nil && !re.MatchString(w)
	})
	if d.One(40) && most <= 1024 { // the maximum length
		for _, long := range []string{strings.Repeat("a", most), "/" + strings.Repeat("a", most-1)} {
			if re == nil || re.MatchString(long) {
				return long
			}
		}
	}
	if len(allowed) == 0 {
		return pick(d, words())
	}
	return pick(d, allowed)
}
