package demoapplication

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// readingSecrets is a platform that allows the operator to read Secrets.
func readingSecrets() config.Platform {
	p := config.Default()
	p.RestartOnSecretChange = true
	return p
}

// following makes an application follow the Secret db.
func following(a *demoapplicationv1.DemoApplication) {
	a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{RestartOnConfigChange: new(true)}}
	a.Spec.EnvFrom = []common.EnvFromSource{{SecretRef: &common.OptionalReference{Name: "db"}}}
}

func TestSecrets_OfTheSpec(t *testing.T) {
	const all = `
image: web:1
env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: k}}}]
envFrom: [{secretRef: {name: b}}]
imagePullSecrets: [{name: registry}]
pod: {volumes: [{name: c, secret: {secretName: c}}, {name: d, projected: {sources: [{secret: {name: d}}]}}]}
expose: {type: Ingress, hosts: [a.example.com], ingress: {tls: {secretRef: {name: cert}}}}
`
	for name, tc := range map[string]struct {
		spec    string
		granted bool
		want    []string
	}{
		"all":                     {all + "rollout: {restartOnConfigChange: true}", true, []string{"a", "b", "c", "d"}},
		"not asked for":           {all, true, nil},
		"asked not to":            {all + "rollout: {restartOnConfigChange: false}", true, nil},
		"the platform grants not": {all + "rollout: {restartOnConfigChange: true}", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			a := &demoapplicationv1.DemoApplication{}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &a.Spec); err != nil {
				t.Fatal(err)
			}
			p := readingSecrets()
			p.RestartOnSecretChange = tc.granted
			k := Kind(p)
			if (k.Secrets != nil) != tc.granted {
				t.Fatalf("got Secrets read %v, want %v", k.Secrets != nil, tc.granted)
			}
			if !tc.granted {
				return
			}
			if diff := cmp.Diff(tc.want, k.Secrets(a)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecide_ReplacesPodsWhenASecretChanges(t *testing.T) {
	a := &demoapplicationv1.DemoApplication{}
	a.Name, a.Namespace, a.Spec.Image = "web", "ns", "web:1"
	following(a)
	template := func(digests map[string]configsource.SecretDigest) (digest, revision string) {
		t.Helper()
		d, err := decide(a, Observed{Secrets: digests}, platform)
		if err != nil {
			t.Fatal(err)
		}
		return d.Template.Annotations[naming.AnnotationSecrets], d.Keep.Name
	}
	none, today := template(nil)
	one, first := template(map[string]configsource.SecretDigest{"db": {Digest: "1"}})
	two, second := template(map[string]configsource.SecretDigest{"db": {Digest: "2"}})
	if none != "" || one == "" || two == "" || one == two {
		t.Errorf("digests %q, %q and %q", none, one, two)
	}
	if today == first || first == second {
		t.Errorf("revisions %s, %s and %s", today, first, second)
	}
	if _, err := decide(a, Observed{Secrets: map[string]configsource.SecretDigest{}}, platform); err == nil || !strings.Contains(err.Error(), `Secret "db" (`) {
		t.Errorf("it is missing: %v", err)
	}
}
