package gitops

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// schema is the part of a CRD's schema that leads to references.
type schema struct {
	Type       string            `json:"type"`
	Properties map[string]schema `json:"properties"`
	Items      *schema           `json:"items"`
}

// reference is a field of a kind that names another object, or an image.
type reference struct {
	path string
	spec any // the smallest spec with that field, whose value is "given"
}

// references returns those below a schema, which build returns a spec for.
func references(s schema, path string, build func(any) any) []reference {
	if s.Items != nil {
		return references(*s.Items, path, func(v any) any { return build([]any{v}) })
	}
	var all []reference
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field, at := s.Properties[name], strings.TrimPrefix(path+"/"+name, "/")
		inside := func(v any) any { return build(map[string]any{name: v}) }
		parent := path[strings.LastIndex(path, "/")+1:]
		refers := slices.Contains([]string{"secretName", "claimName", "serviceAccountName", "reference"}, name) ||
			name == "image" && field.Type == "string" ||
			name == "name" && slices.ContainsFunc([]string{"configMap", "secret", "imagePullSecrets"}, func(kind string) bool { return strings.HasPrefix(parent, kind) })
		if refers {
			all = append(all, reference{path: at, spec: inside("given")})
		}
		all = append(all, references(field, at, inside)...)
	}
	return all
}

// kustomize changes every name and image in the four kinds, as it does in a Deployment.
func TestKustomize_ChangesEveryReference(t *testing.T) {
	files := filesys.MakeFsInMemory()
	write := func(name, text string) {
		if err := files.WriteFile(name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("kustomize.yaml", read(t, "../../config/gitops/kustomize.yaml"))
	write("kustomization.yaml", `
namePrefix: dev-
resources: [others.yaml, objects.yaml]
configurations: [kustomize.yaml]
configMapGenerator: [{name: given, literals: [a=b]}]
secretGenerator: [{name: given, literals: [a=b]}]
images: [{name: given, newTag: "2"}]
`)
	write("others.yaml", `
apiVersion: v1
kind: ServiceAccount
metadata: {name: given}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: given}
`)
	var objects []string
	crds, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("CRDs: %v, %v", crds, err)
	}
	for _, file := range crds {
		var crd struct {
			Spec struct {
				Group    string
				Names    struct{ Kind string }
				Versions []struct {
					Name   string
					Schema struct{ OpenAPIV3Schema schema }
				}
			}
		}
		if err := yaml.Unmarshal([]byte(read(t, file)), &crd); err != nil {
			t.Fatal(err)
		}
		for _, v := range crd.Spec.Versions {
			for _, r := range references(v.Schema.OpenAPIV3Schema.Properties["spec"], "", func(v any) any { return v }) {
				if k := crd.Spec.Names.Kind; strings.Contains(r.path, "initContainers") && (k == "Memcached" || k == "ImmortalContainer") {
					continue // they refuse the field
				}
				raw, err := yaml.Marshal(map[string]any{
					"apiVersion": crd.Spec.Group + "/" + v.Name, "kind": crd.Spec.Names.Kind, "spec": r.spec,
					"metadata": map[string]any{"name": fmt.Sprint("o", len(objects)), "annotations": map[string]any{"path": r.path}},
				})
				if err != nil {
					t.Fatal(err)
				}
				objects = append(objects, string(raw))
			}
		}
	}
	write("objects.yaml", strings.Join(objects, "---\n"))

	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, ".")
	if err != nil {
		t.Fatal(err)
	}
	changed := 0
	for _, resource := range built.Resources() {
		raw, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var o unstructured.Unstructured
		if err := yaml.Unmarshal(raw, &o.Object); err != nil {
			t.Fatal(err)
		}
		path, ok := o.GetAnnotations()["path"]
		if !ok {
			continue
		}
		changed++
		if text := string(raw); !strings.Contains(text, "dev-given") && !strings.Contains(text, "given:2") {
			t.Errorf("%s: spec.%s is not changed", o.GetKind(), strings.ReplaceAll(path, "/", "."))
		}
	}
	if changed != len(objects) || changed == 0 {
		t.Errorf("%d of %d objects", changed, len(objects))
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
