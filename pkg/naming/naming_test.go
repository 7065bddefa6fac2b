package naming

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
)

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
