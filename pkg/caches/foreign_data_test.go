package caches

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

func TestCache_DropsTheDataOfUnownedObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		meta metav1.ObjectMeta
		kept bool
	}{
		"only the label":        {metav1.ObjectMeta{}, false},
		"of a StatefulSet":      {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Controller: new(true)}}}, false},
		"of an object":          {metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: "my.domain/v1", Kind: "WebServer", Controller: new(true)}}}, true},
		"without its reference": {metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationOwner: "u"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			cm := &corev1.ConfigMap{ObjectMeta: tc.meta, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {1}}}
			r := &appsv1.ControllerRevision{ObjectMeta: tc.meta, Data: runtime.RawExtension{Raw: []byte("{}")}}
			for _, o := range []any{cm, r} {
				if _, err := new(trimmer).trim(o); err != nil {
					t.Fatal(err)
				}
			}
			if (cm.Data != nil) != tc.kept || (cm.BinaryData != nil) != tc.kept || (r.Data.Raw != nil) != tc.kept {
				t.Errorf("kept are %v, %v, %s", cm.Data, cm.BinaryData, r.Data.Raw)
			}
		})
	}
}
