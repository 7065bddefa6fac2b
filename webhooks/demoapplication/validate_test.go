package demoapplication

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

type port = demoapplicationv1.Port

func TestValidate(t *testing.T) {
	type change = func(*demoapplicationv1.DemoApplication)
	args := func(bytes int) change {
		return func(a *demoapplicationv1.DemoApplication) { a.Spec.Args = []string{strings.Repeat("a", bytes)} }
	}
	onNode := func(numbers ...int32) change {
		return func(a *demoapplicationv1.DemoApplication) {
			for _, n := range numbers {
				a.Spec.Ports = append(a.Spec.Ports, port{Port: 80, NodePort: &n})
			}
		}
	}

	for name, tc := range map[string]struct {
		change change
		want   []string // prefixes of the errors
	}{
		"an image alone":           {func(*demoapplicationv1.DemoApplication) {}, nil},
		"as long as a spec may be": {args(655000), nil},
		"longer":                   {args(656000), []string{"spec: Forbidden: must have no more than 640 KiB as JSON"}},
		"first and last node port": {onNode(30000, 32767), nil},
		"node port below":          {onNode(29999), []string{"spec.ports[0].nodePort: Invalid value: 29999: must be between 30000 and 32767"}},
		"node port above":          {onNode(30000, 32768), []string{"spec.ports[1].nodePort: Invalid value: 32768"}},
		"everything at once": {
			func(a *demoapplicationv1.DemoApplication) { args(700000)(a); onNode(1, 2)(a) },
			[]string{"spec: Forbidden", "spec.ports[0].nodePort: Invalid", "spec.ports[1].nodePort: Invalid"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &demoapplicationv1.DemoApplication{
				ObjectMeta: metav1.ObjectMeta{Name: "nginx-demo"},
				Spec:       demoapplicationv1.DemoApplicationSpec{Image: "nginx:1.27.4"},
			}
			tc.change(a)
			before := a.DeepCopy()
			errs := Validate(a, config.Default())
			if len(errs) != len(tc.want) {
				t.Fatalf("got %d errors, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
			if diff := cmp.Diff(before, a); diff != "" {
				t.Errorf("the object was changed:\n%s", diff)
			}
		})
	}
}

func TestValidate_NodePortRange(t *testing.T) {
	platform := config.Default()
	platform.NodePortRange = config.PortRange{From: 20000, To: 20010}
	for number, want := range map[int32]int{20000: 0, 20010: 0, 30002: 1} {
		a := &demoapplicationv1.DemoApplication{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       demoapplicationv1.DemoApplicationSpec{Image: "nginx", Ports: []port{{Port: 80, NodePort: &number}}},
		}
		if got := Validate(a, platform); len(got) != want {
			t.Errorf("%d: got %v, want %d errors", number, got, want)
		}
	}
}
