package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/platform-operator/platform-operator/pkg/testkit/wire"
)

func TestChain_RoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		c := Generate(seed, []string{"webserver", "demoapplication", "memcached", "immortalcontainer"})
		again, err := ParseChain(c.String())
		if err != nil {
			t.Fatal(err)
		}
		if again.String() != c.String() {
			t.Fatalf("got %s, want %s", again, c)
		}
	}
}

func TestGenerate_EditsAreValidAndChangeTheSpec(t *testing.T) {
	kinds := []string{"webserver", "demoapplication", "memcached", "immortalcontainer"}
	for seed := range uint64(50) {
		c := Generate(seed, kinds)
		k := c.kind
		spec, edits, vain, exists := decode(k.Base), 0, 0, false
		for i, s := range c.steps {
			exists = exists || s.op == "create"
			o := opNamed(s.op)
			if !exists && !o.Early {
				t.Errorf("%s: %s before there is an object", c, s.op)
			}
			if o.patch == "" {
				continue
			}
			next := merge(spec, decode(k.expand(o.patch, i+1)))
			edits++
			if cmp.Equal(spec, next) {
				vain++
			}
			spec = next
		}
		if errs, err := k.validate(k.manifest("", spec)); err != nil || len(errs) > 0 {
			t.Errorf("%s: the final spec is refused: %v %v", c, errs, err)
		}
		if !exists || vain > edits/10 {
			t.Errorf("%s: created %v, and %d of %d edits change nothing", c, exists, vain, edits)
		}
	}
}

func TestWorld_Expect(t *testing.T) {
	k, err := kindNamed("demoapplication")
	if err != nil {
		t.Fatal(err)
	}
	one, crash := map[string]any{"image": "nginx:1"}, map[string]any{"image": "nginx:crash"}
	healthy := memory{healthy: one, healthyImage: "nginx:1"}
	type promises struct {
		Ready, MayBeReady, Serves bool
		Image                     string
	}
	for name, tc := range map[string]struct {
		spec   map[string]any
		memory memory
		want   promises
	}{
		"works":                    {spec: one, want: promises{Ready: true, MayBeReady: true, Serves: true, Image: "nginx:1"}},
		"never worked":             {spec: crash},
		"rolled back":              {spec: crash, memory: healthy, want: promises{Serves: true, Image: "nginx:1"}},
		"another one may be newer": {spec: crash, memory: memory{healthy: one, unsure: true}, want: promises{Serves: true}},
		"history deleted":          {spec: crash, memory: memory{healthy: one, historyDeleted: true}},
		"Halt":                     {spec: merge(crash, decode(`{"rollout":{"onFailure":"Halt"}}`)), memory: healthy},
		"Halt after the rollback":  {spec: merge(crash, decode(`{"rollout":{"onFailure":"Halt"}}`)), memory: memory{healthy: one, healthyImage: "nginx:1", rolledBack: inputsOf(crash, nil)}, want: promises{Serves: true, Image: "nginx:1"}},
		"a ConfigMap is missing":   {spec: merge(one, decode(`{"envFrom":[{"configMapRef":{"name":"cm"}}]}`)), memory: healthy, want: promises{MayBeReady: true}},
		"nothing runs":             {spec: merge(crash, decode(`{"replica":0}`)), memory: healthy, want: promises{MayBeReady: true}},
		"paused":                   {spec: merge(crash, decode(`{"paused":true}`)), memory: healthy, want: promises{MayBeReady: true}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{kind: k, cluster: newCluster(nil, ""), memory: tc.memory}
			e := w.expect(tc.spec, nil)
			if diff := cmp.Diff(tc.want, promises{e.ready, e.mayBeReady, e.serves, e.image}); diff != "" {
				t.Errorf("%s (-want +got):\n%s", e.why, diff)
			}
		})
	}
}

func TestWorld_CheckVersions_IgnoresAnEarlierObject(t *testing.T) {
	k, err := kindNamed("demoapplication")
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		owner types.UID
		found bool
	}{
		"of this object":       {owner: "2", found: true},
		"of an earlier object": {owner: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(1))}}
			d.OwnerReferences = []metav1.OwnerReference{{UID: tc.owner, Controller: new(true)}}
			w := &World{kind: k, wire: wire.New(), history: &history{deployments: []*appsv1.Deployment{d}}, memory: memory{uid: "2", floor: 4}}
			w.checkVersions(&scene{spec: decode(`{"autoscaling":{"minReplicas":4,"maxReplicas":6}}`)})
			if got := slices.ContainsFunc(w.found, func(v Violation) bool { return v.Oracle == "replicas-dropped" }); got != tc.found {
				t.Errorf("found %v, want replicas-dropped: %v", w.found, tc.found)
			}
		})
	}
}

// regressions returns the chains of files in testdata.
func regressions(t *testing.T, files ...string) []Chain {
	t.Helper()
	var all []Chain
	for _, file := range files {
		raw, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			c, err := ParseChain(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, c)
		}
	}
	return all
}

func TestParseChain_Regressions(t *testing.T) {
	for file, least := range map[string]int{"chains.txt": 12, "more.txt": 35} {
		if n := len(regressions(t, file)); n < least {
			t.Errorf("testdata/%s has only %d chains", file, n)
		}
	}
}

func TestCatalogue_EndsExist(t *testing.T) {
	for name, end := range ends {
		if opNamed(name) == nil || opNamed(end) == nil {
			t.Errorf("%s ends with %s: no such operation", name, end)
		}
	}
}

func TestCatalogue_NamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range catalogue() {
		if seen[o.Name] {
			t.Errorf("there are two operations %q", o.Name)
		}
		seen[o.Name] = true
	}
	t.Logf("%d operations", len(seen))
}

func TestFlatten_NamesElements(t *testing.T) {
	got := map[string]string{}
	flatten("Pod", map[string]any{"a": []any{map[string]any{"name": "x", "v": int64(1)}, "y"}}, got)
	if got["Pod.a[x].v"] != "1" || got["Pod.a[1]"] != "y" {
		t.Errorf("got %v", got)
	}
}
