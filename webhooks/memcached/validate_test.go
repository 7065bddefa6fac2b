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
