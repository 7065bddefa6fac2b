package main

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/platform-operator/platform-operator/config/crd"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

const folder = "../../docs/api"

func TestGenerate_PagesAreCurrent(t *testing.T) {
	pages, crds := inputs(t)
	generated, err := generate(pages, crds)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range generated {
		golden.File(t, folder+"/"+name, []byte(content))
	}
}

// undocumented returns the fields that are neither in the list of their kind nor in that
// of a shared block.
func undocumented(pages map[string]string, crds []apiextensionsv1.CustomResourceDefinition) []string {
	lists := map[string]string{}
	for _, page := range pages {
		for _, m := range marker.FindAllStringSubmatch(page, -1) {
			lists[m[2]] = m[0]
		}
	}
	var missing []string
	for _, c := range crds {
		for _, f := range specOf(c) {
			block, _, _ := strings.Cut(f.path, ".")
			text := lists[c.Spec.Names.Kind] + lists[block]
			if !strings.Contains(text, "\n* `"+f.path+"`") && !strings.Contains(text, "[`"+f.path+"`](") {
				missing = append(missing, c.Spec.Names.Kind+" "+f.path)
			}
		}
	}
	return missing
}

func TestPages_ListEveryField(t *testing.T) {
	pages, crds := inputs(t)
	if missing := undocumented(pages, crds); len(missing) > 0 {
		t.Errorf("docs/api does not list %q: run make generate", missing)
	}
	for name, path := range map[string][]string{
		"a field of a kind":                {"flavour"},
		"a field that another kind has":    {"content"},
		"a field of a shared block":        {"rollout", "speed"},
		"a field of an element of a list":  {"ports", "purpose"},
		"a field of a block that is new":   {"backup", "schedule"},
		"a field two levels below a block": {"expose", "gateway", "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, crds := inputs(t)
			i := slices.IndexFunc(crds, func(c apiextensionsv1.CustomResourceDefinition) bool { return c.Spec.Names.Kind == "DemoApplication" })
			add(&crds[i].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, append([]string{"spec"}, path...))
			if missing := undocumented(pages, crds); len(missing) == 0 {
				t.Errorf("the field is not reported")
			}
			generated, err := generate(pages, crds)
			if err != nil {
				t.Fatal(err)
			}
			if missing := undocumented(generated, crds); len(missing) > 0 {
				t.Errorf("generated pages do not list %q", missing)
			}
		})
	}
}

func TestGenerate_RejectsDifferentDescriptions(t *testing.T) {
	pages, crds := inputs(t)
	spec := crds[0].Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	preset := spec.Properties["networkPolicy"].Properties["preset"]
	preset.Description = "preset is something else."
	spec.Properties["networkPolicy"].Properties["preset"] = preset
	if _, err := generate(pages, crds); err == nil || !strings.Contains(err.Error(), "networkPolicy.preset") {
		t.Errorf("error %v", err)
	}
}

func TestGenerate_RejectsAListOfNothing(t *testing.T) {
	_, crds := inputs(t)
	page := map[string]string{"x.md": "<!-- fields of Redis: make generate -->\n<!-- end of fields -->"}
	if _, err := generate(page, crds); err == nil || !strings.Contains(err.Error(), "Redis") {
		t.Errorf("error %v", err)
	}
}

// add adds a field to a schema.
func add(properties *map[string]apiextensionsv1.JSONSchemaProps, path []string) {
	if *properties == nil {
		*properties = map[string]apiextensionsv1.JSONSchemaProps{}
	}
	p := (*properties)[path[0]]
	if len(path) > 1 {
		below := &p.Properties
		if p.Items != nil {
			below = &p.Items.Schema.Properties
		}
		add(below, path[1:])
	}
	(*properties)[path[0]] = p
}

// inputs returns the pages, and copies of the CRDs.
func inputs(t *testing.T) (map[string]string, []apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	pages, err := read(folder)
	if err != nil {
		t.Fatal(err)
	}
	all, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	var crds []apiextensionsv1.CustomResourceDefinition
	for _, c := range all {
		crds = append(crds, *c.DeepCopy())
	}
	return pages, crds
}
