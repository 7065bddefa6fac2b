package corpus

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/schema"
)

// Bound is a case that was generated from a rule of the schema and a valid case.
type Bound struct {
	Case
	Rule schema.Rule
	// Bad says that the value is just beyond the bound; otherwise it is the last
	// value that the rule allows, which another rule may still reject.
	Bad bool
}

// Bounds generates cases for every rule of the schema except CEL rules: a value or
// list that exceeds a limit by one, a value that is not in an enum, a missing
// required field. Each differs from a valid case in one field. without are the
// rules whose field is in no valid case.
func Bounds(k Kind, d *schema.Definition, cases []Case) (made []Bound, without []schema.Rule) {
	hosts := valid(d, cases)
	for _, r := range d.Rules() {
		if r.Keyword == schema.KeywordCEL {
			continue
		}
		found := false
		for _, host := range hosts {
			for _, bad := range []bool{true, false} {
				obj := clone(host).(map[string]any)
				if !edit(obj, split(r.Path), func(parent any, key any) bool { return breach(r, parent, key, bad) }) {
					continue
				}
				raw, err := json.Marshal(obj)
				if err != nil {
					continue
				}
				found = true
				name := fmt.Sprintf("%s: %s %s", r.Path, r.Keyword, r.Text)
				made = append(made, Bound{Case: Case{Kind: k.Folder, Class: "bounds", Name: name, Platform: config.Default(), Object: raw}, Rule: r, Bad: bad})
			}
			if found {
				break
			}
		}
		if !found {
			without = append(without, r)
		}
	}
	return made, without
}

// valid returns the objects of the valid cases that create one.
func valid(d *schema.Definition, cases []Case) []map[string]any {
	var objects []map[string]any
	for _, c := range cases {
		if c.Refused == nil && c.Old == nil {
			if obj, strict, err := d.Decode(c.Object); err == nil && len(strict) == 0 {
				objects = append(objects, obj)
			}
		}
	}
	return objects
}

// clone copies JSON values.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, e := range v {
			c[k] = clone(e)
		}
		return c
	case []any:
		c := make([]any, len(v))
		for i, e := range v {
			c[i] = clone(e)
		}
		return c
	}
	return v
}

// split splits the path of a rule: spec.env[*].name is spec, env, [*], name.
func split(path string) []string {
	return strings.Split(strings.ReplaceAll(path, "[*]", ".[*]"), ".")
}

// edit calls change with the parent and the key of each place that the path
// matches, until it returns true, and reports whether it did.
func edit(v any, path []string, change func(parent, key any) bool) bool {
	step, rest := path[0], path[1:]
	try := func(parent any, key any, child any) bool {
		if len(rest) == 0 {
			return change(parent, key)
		}
		return child != nil && edit(child, rest, change)
	}
	switch v := v.(type) {
	case map[string]any:
		if step != "[*]" {
			return try(v, step, v[step])
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if try(v, k, v[k]) {
				return true
			}
		}
	case []any:
		for i := range v {
			if step == "[*]" && try(v, i, v[i]) {
				return true
			}
		}
	}
	return false
}

// breach sets a value that is at the bound of the rule, or just beyond it. It
// returns false if the rule does not apply to the existing value.
func breach(r schema.Rule, parent, key any, bad bool) bool {
	fields, isMap := parent.(map[string]any)
	list, _ := parent.([]any)
	var value any
	set := func(v any) bool { list[key.(int)] = v; return true }
	if isMap {
		name := key.(string)
		if r.Keyword == schema.KeywordRequired {
			if _, there := fields[name]; !there || !bad {
				return false
			}
			delete(fields, name)
			return true
		}
		var there bool
		if value, there = fields[name]; !there {
			return false
		}
		set = func(v any) bool { fields[name] = v; return true }
	} else {
		value = list[key.(int)]
	}
	bound, _ := strconv.ParseInt(r.Text, 10, 64)
	step := int64(0)
	if bad {
		step = 1
	}
	switch v := value.(type) {
	case int64, float64:
		switch r.Keyword {
		case schema.KeywordMinimum:
			return set(bound - step)
		case schema.KeywordMaximum:
			return set(bound + step)
		}
	case string:
		switch r.Keyword {
		case schema.KeywordEnum, schema.KeywordFormat:
			return bad && set("none of these")
		case schema.KeywordPattern:
			return bad && set("..\t")
		case schema.KeywordMinLength:
			return set(v[:min(len(v), int(bound-step))])
		case schema.KeywordMaxLength:
			return set(lengthen(v, int(bound+step)))
		}
	case []any:
		switch r.Keyword {
		case schema.KeywordMinItems:
			return set(v[:bound-step])
		case schema.KeywordMaxItems:
			for len(v) > 0 && len(v) < int(bound+step) {
				v = append(v, clone(v[len(v)-1]))
			}
			return len(v) > 0 && set(v)
		case schema.KeywordUnique:
			return bad && len(v) > 0 && set(append(v, clone(v[0])))
		}
	case map[string]any:
		switch r.Keyword {
		case schema.KeywordMinProperties:
			for _, k := range slices.Sorted(maps.Keys(v))[bound-step:] {
				delete(v, k)
			}
			return true
		case schema.KeywordMaxProperties:
			if len(v) == 0 {
				return false
			}
			some := v[slices.Sorted(maps.Keys(v))[0]]
			for i := 0; len(v) < int(bound+step); i++ {
				v["key"+strconv.Itoa(i)] = clone(some)
			}
			return true
		}
	}
	return false
}

// lengthen repeats the last letter or digit of a string up to that many characters.
func lengthen(text string, size int) string {
	at := strings.LastIndexFunc(text, func(r rune) bool { return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' })
	if at < 0 {
		return strings.Repeat("a", size)
	}
	if more := size - utf8.RuneCountInString(text); more > 0 {
		return text[:at] + strings.Repeat(text[at:at+1], more) + text[at:]
	}
	return string([]rune(text)[:size])
}
