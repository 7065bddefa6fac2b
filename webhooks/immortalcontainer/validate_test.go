package immortalcontainer

import (
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
)

func TestValidateNamesTheField(t *testing.T) {
	for what, tc := range map[string]struct {
		name, image string
		annotations int
		want        []string
	}{
		"the article's":            {name: "example-immortalcontainer", image: "nginx:latest"},
		"63 characters":            {name: strings.Repeat("a", 63), image: "nginx"},
		"64 characters":            {name: strings.Repeat("a", 64), image: "nginx", want: []string{"metadata.name"}},
		"no image":                 {name: "a", want: []string{"spec.image"}},
		"white space":              {name: "a", image: " nginx", want: []string{"spec.image"}},
		"annotations":              {name: "a", image: "nginx", annotations: 1},
		"too many annotations":     {name: "a", image: "nginx", annotations: 32, want: []string{"spec.pod.annotations"}},
		"both wrong, told at once": {name: strings.Repeat("a", 64), want: []string{"metadata.name", "spec.image"}},
	} {
		t.Run(what, func(t *testing.T) {
			all := map[string]common.AnnotationValue{}
			for n := range tc.annotations {
				all[strconv.Itoa(n)] = common.AnnotationValue(strings.Repeat("x", 8192))
			}
			errs := Validate(&immortalv1alpha1.ImmortalContainer{
				ObjectMeta: metav1.ObjectMeta{Name: tc.name},
				Spec:       immortalv1alpha1.ImmortalContainerSpec{Image: tc.image, Pod: &common.Pod{Annotations: all}},
			})
			if len(errs) != len(tc.want) {
				t.Fatalf("%v, want faults of %v", errs, tc.want)
			}
			for k, e := range errs {
				if e.Field != tc.want[k] {
					t.Errorf("fault %v, want one of %s", e, tc.want[k])
				}
			}
		})
	}
}
