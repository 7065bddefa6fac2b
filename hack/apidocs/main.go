// Command apidocs writes the lists of fields in docs/api from the CRDs.
//
//	go run ./hack/apidocs docs/api
//
// A page has a list between `<!-- fields of WebServer: make generate -->` and
// `<!-- end of fields -->`. If the name is that of a field, such as rollout, the
// list has the fields of that block. The list with the name shared has the other fields
// that several kinds describe in the same way. The lists of kinds link to both.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/platform-operator/platform-operator/config/crd"
)

// ofKubernetes are the fields with the types of Kubernetes, whose own fields are
// described by kubectl explain.
var ofKubernetes = []string{
	"affinity", "behavior", "env", "envFrom", "from", "imagePullSecrets", "initContainers", "liveness", "metrics", "readiness", "resources", "startup",
	"tolerations", "topologySpreadConstraints", "volumeMounts", "volumes",
}

var (
	marker  = regexp.MustCompile(`(?s)(<!-- fields of (\w+): make generate -->\n).*?(<!-- end of fields -->)`)
	heading = regexp.MustCompile(`(?m)^## (.*)$`)
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: apidocs FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder string) error {
	pages, err := read(folder)
	if err != nil {
		return err
	}
	all, err := crd.All()
	if err != nil {
		return err
	}
	generated, err := generate(pages, all)
	if err != nil {
		return err
	}
	for name, content := range generated {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil { //nolint:gosec // G306: documentation
			return fmt.Errorf("writing a page: %w", err)
		}
	}
	return nil
}

// read returns the pages of a folder by their names.
func read(folder string) (map[string]string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.md"))
	if err != nil {
		return nil, fmt.Errorf("listing the pages: %w", err)
	}
	pages := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(name) //nolint:gosec // G304: the folder is an argument of the caller
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		pages[filepath.Base(name)] = string(raw)
	}
	return pages, nil
}

// shared is the list of the fields that several kinds have, without those of blocks.
const shared = "shared"

// generate returns the pages with current lists. It fails if a list is about nothing,
// or if kinds describe a field of a shared block differently.
func generate(pages map[string]string, crds []apiextensionsv1.CustomResourceDefinition) (map[string]string, error) {
	links := anchors(pages)
	lists := map[string][]field{}
	for _, c := range crds {
		for _, f := range specOf(c) {
			list := c.Spec.Names.Kind
			if block, _, ok := strings.Cut(f.path, "."); ok && links[block] != "" {
				list = block
			}
			if i := slices.IndexFunc(lists[list], func(g field) bool { return g.path == f.path }); i < 0 {
				lists[list] = append(lists[list], f)
			} else if lists[list][i] != f {
				return nil, fmt.Errorf("%s: kinds describe the field differently", f.path)
			}
		}
	}
	for f, n := range count(crds, lists) {
		if n > 1 && links[f.path] == "" && links[shared] != "" {
			lists[shared] = append(lists[shared], f)
		}
	}
	slices.SortFunc(lists[shared], byPath)
	out := map[string]string{}
	for name, page := range pages {
		var err error
		out[name] = marker.ReplaceAllStringFunc(page, func(s string) string {
			m := marker.FindStringSubmatch(s)
			if len(lists[m[2]]) == 0 {
				err = fmt.Errorf("%s: no CRD has %s", name, m[2])
			}
			var except []field
			if m[2] != shared {
				except = lists[shared]
			}
			return m[1] + render(lists[m[2]], links, except) + m[3]
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// anchors returns where the list of each kind or block is: the page, and the heading above it.
func anchors(pages map[string]string) map[string]string {
	links := map[string]string{}
	for name, page := range pages {
		for _, m := range marker.FindAllStringSubmatchIndex(page, -1) {
			titles := heading.FindAllStringSubmatch(page[:m[0]], -1)
			if len(titles) > 0 {
				links[page[m[4]:m[5]]] = name + "#" + strings.ReplaceAll(strings.ToLower(titles[len(titles)-1][1]), " ", "-")
			}
		}
	}
	return links
}

// count returns how many kinds have a field with this description.
func count(crds []apiextensionsv1.CustomResourceDefinition, lists map[string][]field) map[field]int {
	n := map[field]int{}
	for _, c := range crds {
		for _, f := range lists[c.Spec.Names.Kind] {
			n[f]++
		}
	}
	return n
}

// A field is one of a spec, with its path below spec.
type field struct {
	path, description string
	required          bool
}

// specOf returns the fields of the spec of a kind, sorted by path.
func specOf(c apiextensionsv1.CustomResourceDefinition) []field {
	var all []field
	var visit func(path string, s apiextensionsv1.JSONSchemaProps)
	visit = func(path string, s apiextensionsv1.JSONSchemaProps) {
		if s.Items != nil && s.Items.Schema != nil {
			s, path = *s.Items.Schema, path+"[]"
		}
		for name, p := range s.Properties {
			at := strings.TrimPrefix(path+"."+name, ".")
			all = append(all, field{at, withoutName(name, p.Description), slices.Contains(s.Required, name)})
			if !slices.Contains(ofKubernetes, name) {
				visit(at, p)
			}
		}
	}
	visit("", c.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"])
	slices.SortFunc(all, byPath)
	return all
}

func byPath(a, b field) int { return strings.Compare(a.path, b.path) }

// withoutName returns a description without the name of the field that it begins with,
// unless it is part of a phrase ("name of the Secret").
func withoutName(name, description string) string {
	text := strings.Join(strings.Fields(description), " ")
	rest, ok := strings.CutPrefix(text, name+" ")
	first, _, _ := strings.Cut(rest, " ")
	if !ok || slices.Contains([]string{"of", "that"}, first) {
		return text
	}
	return strings.TrimPrefix(strings.TrimPrefix(rest, "is "), "are ")
}

// render returns a list of fields. It begins with links to those that are described
// elsewhere: the shared ones, and blocks.
func render(fields []field, links map[string]string, except []field) string {
	var b strings.Builder
	var elsewhere []string
	for _, f := range fields {
		name := "`" + f.path + "`"
		to := links[f.path]
		if slices.Contains(except, f) {
			to = links[shared]
		}
		if to != "" {
			elsewhere = append(elsewhere, "["+name+"]("+to+")")
			continue
		}
		if f.required {
			name += " (required)"
		}
		fmt.Fprintf(&b, "* %s: %s\n", name, strings.ReplaceAll(f.description, "<", "&lt;"))
	}
	if len(elsewhere) == 0 {
		return b.String()
	}
	return "* As in other kinds: " + strings.Join(elsewhere, ", ") + "\n" + b.String()
}
