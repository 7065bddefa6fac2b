package memcached

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		length int
		want   string // prefix of the error
	}{
		"legacy sample":          {0, ""},
		"as long as it may be":   {655000, ""},
		"longer than a revision": {656000, "spec: Forbidden: must have no more than 640 KiB as JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &cachev1alpha1.Memcached{Spec: cachev1alpha1.MemcachedSpec{Size: 3}}
			if tc.length > 0 {
				m.Spec.Pod = &common.Pod{Annotations: map[string]common.AnnotationValue{"a": common.AnnotationValue(strings.Repeat("a", tc.length))}}
			}
			before := m.DeepCopy()
			errs := Validate(m, config.Default())
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("got %v, want %q", errs, tc.want)
			}
			if diff := cmp.Diff(before, m); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}

func TestWarnUpdate_FewerNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		old, size int32
		want      int
	}{
		"fewer":     {4, 3, 1},
		"none":      {4, 0, 0},
		"as before": {3, 3, 0},
		"more":      {3, 4, 0},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(size int32) *cachev1alpha1.Memcached {
				return &cachev1alpha1.Memcached{Spec: cachev1alpha1.MemcachedSpec{Size: size}}
			}
			if got := Kind().WarnUpdate(of(tc.old), of(tc.size)); len(got) != tc.want {
				t.Errorf("got %q", got)
			}
		})
	}
}
