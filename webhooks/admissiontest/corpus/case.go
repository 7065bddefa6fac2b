// Package corpus reads the corpus in e2e/testdata/specs, which contains objects that
// admission rejects and objects that it accepts, and validates each with every
// layer of admission. The README there describes the format of a case.
package corpus

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/config"
)

// Layer is a part of admission that can reject an object by itself.
type Layer string

// The layers, in the order in which the API server runs them.
const (
	Decode Layer = "decode"
	Schema Layer = "schema"
	Go     Layer = "go"
	Policy Layer = "policy"
)

// Layers returns all layers in that order.
func Layers() []Layer { return []Layer{Decode, Schema, Go, Policy} }

// Refusal is the expected rejection of an object.
type Refusal struct {
	By []Layer
	// Field is the field that each layer in By reports, and Says a part of its
	// message.
	Field, Says map[Layer]string
}

// Case is an object, or an update of one.
type Case struct {
	Kind  string // the folder, such as webserver
	Class string // the file without its extension, such as 05-nodeports
	Name  string // unique in the kind
	// Refused is nil for a valid object.
	Refused  *Refusal
	Platform config.Platform
	// Object is the JSON that is sent, and Old the JSON of the previous state,
	// which is nil unless the case is an update.
	Object, Old []byte
}

func (c Case) String() string { return c.Kind + "/" + c.Class + ": " + c.Name }

// Version returns the API version of the object, or that of the kind if it cannot
// be parsed.
func (c Case) Version(k Kind) string {
	var o struct{ APIVersion string }
	if json.Unmarshal(c.Object, &o) == nil {
		if _, version, ok := strings.Cut(o.APIVersion, "/"); ok && slices.Contains(k.Versions, version) {
			return version
		}
	}
	return k.Versions[0]
}

// document is a case as stored in the corpus.
type document struct {
	Case       string          `json:"case"`
	Refused    *refused        `json:"refused"`
	Platform   json.RawMessage `json:"platform"`
	Old        json.RawMessage `json:"old"`
	Spec       json.RawMessage `json:"spec"`
	Object     json.RawMessage `json:"object"`
	ObjectText string          `json:"objectText"`
}

type refused struct {
	By    []Layer `json:"by"`
	Field byLayer `json:"field"`
	Says  byLayer `json:"says"`
}

// byLayer is one text for all layers, with the key "", or one for each.
type byLayer map[Layer]string

// UnmarshalJSON reads either form.
func (b *byLayer) UnmarshalJSON(raw []byte) error {
	var all string
	if json.Unmarshal(raw, &all) == nil {
		*b = byLayer{"": all}
		return nil
	}
	return json.Unmarshal(raw, (*map[Layer]string)(b))
}

func (b byLayer) of(l Layer) string {
	if text, own := b[l]; own {
		return text
	}
	return b[""]
}

// Read reads the cases of a kind from dir, the folder of the corpus, sorted by file
// name and then by their order in the file.
func Read(dir string, k Kind) ([]Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, k.Folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var all []Case
	seen := map[string]string{}
	for _, file := range files {
		class := strings.TrimSuffix(filepath.Base(file), ".yaml")
		raw, err := os.ReadFile(file) //nolint:gosec // a file of the corpus
		if err != nil {
			return nil, fmt.Errorf("reading the corpus: %w", err)
		}
		cases, err := parse(raw, k)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		for _, c := range cases {
			if other, twice := seen[c.Name]; twice {
				return nil, fmt.Errorf("%s: the case %q is in %s too", file, c.Name, other)
			}
			seen[c.Name], c.Class = class, class
			all = append(all, c)
		}
	}
	return all, nil
}

func parse(raw []byte, k Kind) ([]Case, error) {
	t, err := template.New("").Funcs(template.FuncMap{"repeat": strings.Repeat}).Parse(string(raw))
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := t.Execute(&text, nil); err != nil {
		return nil, err
	}
	var cases []Case
	reader := utilyaml.NewYAMLReader(bufio.NewReader(&text))
	for n := 1; ; n++ {
		doc, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return cases, nil
		}
		if err != nil {
			return nil, err
		}
		var d document
		if err := yaml.UnmarshalStrict(doc, &d); err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
		c, err := d.asCase(k)
		if err != nil {
			return nil, fmt.Errorf("document %d, %q: %w", n, d.Case, err)
		}
		cases = append(cases, c)
	}
}

// rawByte is the notation of an objectText for a byte that is not a character.
var rawByte = regexp.MustCompile(`\\x[0-9a-fA-F]{2}`)

func (d document) asCase(k Kind) (Case, error) {
	c := Case{Kind: k.Folder, Name: d.Case, Platform: config.Default()}
	if d.Case == "" {
		return c, errors.New("a case needs a sentence")
	}
	switch {
	case d.Spec != nil && d.Object == nil && d.ObjectText == "":
		c.Object = k.object(d.Spec)
		if d.Old != nil {
			c.Old = k.object(d.Old)
		}
	case d.Spec == nil && d.Object != nil && d.ObjectText == "":
		c.Object, c.Old = d.Object, d.Old
	case d.Spec == nil && d.Object == nil && d.ObjectText != "":
		c.Object, c.Old = []byte(d.ObjectText), d.Old
		c.Object = rawByte.ReplaceAllFunc(c.Object, func(escape []byte) []byte {
			b, _ := strconv.ParseUint(string(escape[2:]), 16, 8)
			return []byte{byte(b)}
		})
	default:
		return c, errors.New("exactly one of spec, object and objectText must be there")
	}
	if d.Platform != nil {
		if err := yaml.UnmarshalStrict(d.Platform, &c.Platform); err != nil {
			return c, fmt.Errorf("platform: %w", err)
		}
		if err := c.Platform.Validate(); err != nil {
			return c, fmt.Errorf("platform: %w", err)
		}
	}
	if r := d.Refused; r != nil {
		c.Refused = &Refusal{By: r.By, Field: map[Layer]string{}, Says: map[Layer]string{}}
		if len(r.By) == 0 {
			return c, errors.New("by must name the layers that refuse it")
		}
		for _, l := range r.By {
			if !slices.Contains(Layers(), l) {
				return c, fmt.Errorf("there is no layer %q, only %v", l, Layers())
			}
			c.Refused.Field[l], c.Refused.Says[l] = r.Field.of(l), r.Says.of(l)
			if c.Refused.Says[l] == "" {
				return c, fmt.Errorf("says must quote the message of layer %s", l)
			}
			if c.Refused.Field[l] == "" && l != Decode {
				return c, errors.New("field must be there")
			}
		}
	}
	return c, nil
}
