package crd_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/config/crd"
)

// The list shows whether an object is ready, why not, and which image runs.
func TestAll_ListsWhatRuns(t *testing.T) {
	defs, err := crd.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range defs {
		for _, v := range d.Spec.Versions {
			got := map[string]string{}
			for _, c := range v.AdditionalPrinterColumns {
				if c.Name == "Message" && c.Priority == 0 {
					t.Errorf("%s %s: the message is not for the narrow list", d.Name, v.Name)
				}
				got[c.Name] = c.JSONPath
			}
			for name, path := range map[string]string{
				"Ready":   `.status.conditions[?(@.type=="Ready")].status`,
				"Reason":  `.status.conditions[?(@.type=="Ready")].reason`,
				"Message": `.status.conditions[?(@.type=="Ready")].message`,
				"Image":   ".status.image",
			} {
				if diff := cmp.Diff(path, got[name]); diff != "" {
					t.Errorf("%s %s: column %s (-want +got):\n%s", d.Name, v.Name, name, diff)
				}
			}
		}
	}
}
