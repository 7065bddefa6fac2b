package naming

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestNames_AreStable(t *testing.T) {
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

func TestOwnerUID(t *testing.T) {
	controller := metav1.OwnerReference{APIVersion: "my.domain/v1", Kind: "WebServer", Name: "web", UID: "owner-1", Controller: new(true)}
	namespace := metav1.OwnerReference{APIVersion: "v1", Kind: "Namespace", Name: "ns", UID: "ns-1"}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other-1"}
	written := map[string]string{AnnotationApplied: "1-abc", AnnotationOwner: "owner-1"}
	for name, tc := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		want        types.UID
	}{
		"controlled":                                       {[]metav1.OwnerReference{controller}, nil, "owner-1"},
		"controlled by another object":                     {[]metav1.OwnerReference{controller}, map[string]string{AnnotationApplied: "1-abc", AnnotationOwner: "owner-2"}, "owner-1"},
		"the reference was removed":                        {nil, written, "owner-1"},
		"only the Namespace is left":                       {[]metav1.OwnerReference{namespace}, written, "owner-1"},
		"another object owns it, too":                      {[]metav1.OwnerReference{other}, written, "owner-1"},
		"it outlives its owner, and was not applied since": {nil, map[string]string{AnnotationOwner: "owner-1", AnnotationOrphanOf: "WebServer.my.domain/web"}, "owner-1"},
		"it was released":                                  {nil, nil, ""},
		"a user hands it over, not yet written":            {nil, map[string]string{AnnotationOwner: "owner-1"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := &metav1.ObjectMeta{Namespace: "ns", OwnerReferences: tc.owners, Annotations: tc.annotations}
			if got := OwnerUID(o); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
