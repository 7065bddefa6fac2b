package immortalcontainer

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func cases() map[string]struct {
	i *immortalv1alpha1.ImmortalContainer
	o Observed
} {
	counted := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	return map[string]struct {
		i *immortalv1alpha1.ImmortalContainer
		o Observed
	}{
		"seed":    {i: sample()},
		"counted": {i: sample(counted), o: Observed{Pod: livePod(withGate)}},
	}
}

func printed(t *testing.T, i *immortalv1alpha1.ImmortalContainer, o Observed) []byte {
	t.Helper()
	raw, err := pod(i, o).Object(i, gvk)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := yaml.JSONToYAML(raw)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// The files hold the exact pod: absent and empty are not the same.
func TestGolden(t *testing.T) {
	for name, tc := range cases() {
		t.Run(name, func(t *testing.T) {
			got, file := printed(t, tc.i, tc.o), filepath.Join("testdata", name, "want.yaml")
			if again := printed(t, tc.i, tc.o); string(again) != string(got) {
				t.Errorf("a second call says something else:\n%s", cmp.Diff(string(got), string(again)))
			}
			if *update {
				if err := os.WriteFile(file, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(filepath.Clean(file))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("pod (-want +got):\n%s", d)
			}
		})
	}
}

func TestPodMeetsTheBaselineStandard(t *testing.T) {
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(p *corev1.Pod) string {
		r := policy.AggregateCheckResults(e.EvaluatePod(api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec))
		return r.ForbiddenDetail()
	}
	for name, tc := range cases() {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{}
			if err := yaml.UnmarshalStrict(printed(t, tc.i, tc.o), p); err != nil {
				t.Fatal(err)
			}
			if why := refused(p); why != "" {
				t.Errorf("refused: %s", why)
			}
			p.Spec.HostNetwork = true // the check is worth something only if it can fail
			if refused(p) == "" {
				t.Error("the node's network is accepted")
			}
		})
	}
}
