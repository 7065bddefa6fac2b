package naming

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

func TestDNS1035(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want bool
	}{
		"word":              {"web", true},
		"digits and dashes": {"web-2-b", true},
		"63 characters":     {strings.Repeat("a", 63), true},
		"64 characters":     {strings.Repeat("a", 64), false},
		"empty":             {"", false},
		"starts with digit": {"2web", false},
		"upper case":        {"Web", false},
		"dot":               {"a.b", false},
		"ends with dash":    {"web-", false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DNS1035(tc.in); (len(got) == 0) != tc.want {
				t.Errorf("%q: got %q, want it right: %v", tc.in, got, tc.want)
			}
		})
	}
}

// These names are in clusters: a changed one loses every object that an
// earlier version made or marked.
func TestNamesInClustersDoNotChange(t *testing.T) {
	for got, want := range map[string]string{
		FieldManager:      "platform-operator",
		Finalizer:         "platform-operator.io/teardown",
		LabelManagedBy:    "app.kubernetes.io/managed-by",
		AnnotationApplied: "platform-operator.io/applied",
		AnnotationOwner:   "platform-operator.io/owner-uid",
		AnnotationSource:  "platform-operator.io/source",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for _, key := range []string{Finalizer, LabelManagedBy, AnnotationApplied, AnnotationOwner, AnnotationSource} {
		if errs := validation.IsQualifiedName(key); len(errs) > 0 {
			t.Errorf("%q is no name for a label, annotation or finalizer: %q", key, errs)
		}
	}
	if errs := validation.IsValidLabelValue(ManagedBy); len(errs) > 0 {
		t.Errorf("%q is no value of a label: %q", ManagedBy, errs)
	}
}
