package v1beta1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// Nothing is converted between the versions, so whatever one of them knows and
// the other does not would be lost on the way.
func TestSchema_IsTheSameInBothVersions(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", "paas.cmft.com_demoapplications.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Conversion any
			Versions   []map[string]any
		}
	}
	if err := yaml.Unmarshal(raw, &crd); err != nil {
		t.Fatal(err)
	}
	if crd.Spec.Conversion != nil {
		t.Errorf("conversion is %v, want none", crd.Spec.Conversion)
	}
	versions := map[string][]byte{}
	for _, v := range crd.Spec.Versions {
		name, _ := v["name"].(string)
		if v["served"] != true || v["storage"] != (name == "v1") {
			t.Errorf("%s: served %v, stored %v", name, v["served"], v["storage"])
		}
		withoutDescriptions(v)
		delete(v, "name")
		delete(v, "storage")
		if versions[name], err = yaml.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	if len(versions) != 2 || versions["v1"] == nil {
		t.Fatalf("%d versions, want v1 and v1beta1", len(versions))
	}
	if diff := cmp.Diff(string(versions["v1"]), string(versions["v1beta1"])); diff != "" {
		t.Errorf("schema, subresources and columns (-v1 +v1beta1):\n%s", diff)
	}
}

// withoutDescriptions removes the descriptions of fields, which only v1 has.
func withoutDescriptions(v any) {
	switch v := v.(type) {
	case map[string]any:
		if _, text := v["description"].(string); text {
			delete(v, "description")
		}
		for _, e := range v {
			withoutDescriptions(e)
		}
	case []any:
		for _, e := range v {
			withoutDescriptions(e)
		}
	}
}
