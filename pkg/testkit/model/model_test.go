package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/platform-operator/platform-operator/pkg/naming"
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
		k, err := kindNamed(c.kind)
		if err != nil {
			t.Fatal(err)
		}
		spec, edits, vain, exists := k.base(), 0, 0, false
		for i, s := range c.steps {
			exists = exists || s.op == "create"
			o := opNamed(s.op)
			if !exists && !o.Early {
				t.Errorf("%s: %s before there is an object", c, s.op)
			}
			if o.patch == "" {
				continue
			}
			var change map[string]any
			if err := json.Unmarshal([]byte(k.expand(o.patch, i+1)), &change); err != nil {
				t.Fatal(err)
			}
			next := runtimeCopy(merge(spec, change))
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

func TestMemory_ForgetsWhatWasHealthyIfItWasDeletedDuringARollout(t *testing.T) {
	d := func(image string) *appsv1.Deployment {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: image}}
		return d
	}
	old, next := d("old"), d("new")
	for name, tc := range map[string]struct {
		deleted bool
		current *appsv1.Deployment
		since   []*appsv1.Deployment
		forgets bool
	}{
		"nothing was deleted":              {current: next, since: []*appsv1.Deployment{old, next}},
		"deleted at rest":                  {deleted: true, current: old, since: []*appsv1.Deployment{old}},
		"deleted during a rollout":         {deleted: true, current: next, since: []*appsv1.Deployment{next}, forgets: true},
		"deleted, and changed at once":     {deleted: true, current: next, since: []*appsv1.Deployment{old, next}, forgets: true},
		"changed and changed back":         {deleted: true, current: old, since: []*appsv1.Deployment{next, old}, forgets: true},
		"deleted, and so was the workload": {deleted: true, since: []*appsv1.Deployment{old}, forgets: true},
	} {
		t.Run(name, func(t *testing.T) {
			m := memory{healthy: map[string]any{}, healthyTemplate: hashOfTemplate(old.Spec.Template), historyDeleted: tc.deleted}
			m.forgetDeletedHistory(tc.current, tc.since)
			if got := m.healthy == nil; got != tc.forgets {
				t.Errorf("it forgets: %v, want %v", got, tc.forgets)
			}
		})
	}
}

func TestIsGivenAway(t *testing.T) {
	for name, tc := range map[string]struct {
		controlled, annotated bool
		tool                  string
		another               bool // the annotation names an earlier object
		want                  bool
	}{
		"owned":                                {controlled: true, annotated: true, tool: naming.ManagedBy, want: false},
		"owned, with the label of a tool":      {controlled: true, annotated: true, tool: "Helm", want: false},
		"disowned":                             {annotated: true, tool: naming.ManagedBy, want: false},
		"disowned, without label":              {annotated: true, want: false},
		"disowned, with the label of a tool":   {annotated: true, tool: "Helm", want: true},
		"disowned by an earlier object":        {annotated: true, tool: naming.ManagedBy, another: true, want: true},
		"disowned, and without the annotation": {tool: naming.ManagedBy, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			child := &unstructured.Unstructured{}
			if tc.controlled {
				child.SetOwnerReferences([]metav1.OwnerReference{{UID: "1", Controller: new(true)}})
			}
			if tc.annotated {
				child.SetAnnotations(map[string]string{naming.AnnotationOwner: "1"})
			}
			if tc.tool != "" {
				child.SetLabels(map[string]string{naming.LabelManagedBy: tc.tool})
			}
			object := types.UID("1")
			if tc.another {
				object = "2"
			}
			if got := isGivenAway(child, object); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWorld_KeepsRunning(t *testing.T) {
	k, err := kindNamed("demoapplication")
	if err != nil {
		t.Fatal(err)
	}
	decode := func(s string) map[string]any {
		var m map[string]any
		if err := json.Unmarshal([]byte(s), &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	const mounts = `"pod":{"volumes":[{"name":"c","configMap":{"name":"cm"}}]}`
	for name, tc := range map[string]struct {
		healthy, spec string
		want          bool
	}{
		"it was mounted":                {`{"image":"nginx:1.27.1",` + mounts + `}`, `{"image":"nginx:1.27.1","replica":3,` + mounts + `}`, true},
		"a snapshot was mounted":        {`{"image":"nginx:1.27.1","rollout":{"restartOnConfigChange":true},` + mounts + `}`, `{"image":"nginx:1.27.1","rollout":{"restartOnConfigChange":true},` + mounts + `}`, false},
		"a Secret was mounted":          {`{"image":"nginx:1.27.1","tls":{"secretRef":{"name":"secret"}}}`, `{"image":"nginx:1.27.1","tls":{"secretRef":{"name":"secret"}}}`, true},
		"it was not mounted":            {`{"image":"nginx:1.27.1"}`, `{"image":"nginx:1.27.1",` + mounts + `}`, false},
		"another image":                 {`{"image":"nginx:1.27.1",` + mounts + `}`, `{"image":"nginx:1.27.2",` + mounts + `}`, false},
		"variables are taken from it":   {`{"image":"nginx:1.27.1","envFrom":[{"configMapRef":{"name":"cm"}}]}`, `{"image":"nginx:1.27.1","envFrom":[{"configMapRef":{"name":"cm"}}]}`, true},
		"variables of a snapshot":       {`{"image":"nginx:1.27.1","rollout":{"restartOnConfigChange":true},"envFrom":[{"configMapRef":{"name":"cm"}}]}`, `{"image":"nginx:1.27.1","rollout":{"restartOnConfigChange":true},"envFrom":[{"configMapRef":{"name":"cm"}}]}`, false},
		"no ConfigMap to restart for":   {`{"image":"nginx:1.27.1","tls":{"secretRef":{"name":"secret"}}}`, `{"image":"nginx:1.27.1","rollout":{"restartOnConfigChange":true},"tls":{"secretRef":{"name":"secret"}}}`, true},
		"the image does not run either": {`{"image":"nginx:crash",` + mounts + `}`, `{"image":"nginx:crash",` + mounts + `}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{kind: k, memory: memory{healthy: decode(tc.healthy)}}
			if got := w.keepsRunning(decode(tc.spec), nil); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

func TestWorld_RememberHealthy(t *testing.T) {
	k, err := kindNamed("memcached")
	if err != nil {
		t.Fatal(err)
	}
	spec := func(image string) map[string]any { return map[string]any{"image": image} }
	paused := map[string]any{"image": "memcached:3", "paused": true}
	for name, tc := range map[string]struct {
		spec   map[string]any
		edited []map[string]any
		runs   string
		want   string
	}{
		"the spec serves":                    {spec: spec("memcached:2"), runs: "memcached:2", want: "memcached:2"},
		"the spec does not serve":            {spec: spec("memcached:crash"), runs: "memcached:2", want: "memcached:1"},
		"the spec has no image":              {spec: map[string]any{}, runs: "memcached:2", want: "memcached:2"},
		"it was rolled out before the pause": {spec: paused, edited: []map[string]any{spec("memcached:2"), paused}, runs: "memcached:2", want: "memcached:2"},
		"it was not rolled out any more":     {spec: paused, edited: []map[string]any{spec("memcached:2"), paused}, runs: "memcached:1", want: "memcached:1"},
		"it was set manually during a pause": {spec: paused, edited: []map[string]any{paused}, runs: "memcached:3", want: "memcached:1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := &appsv1.Deployment{}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Name: k.Container, Image: tc.runs}}
			pod := corev1.Pod{Status: corev1.PodStatus{
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: k.Container, Image: tc.runs, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			}}
			w := &World{kind: k, memory: memory{healthy: spec("memcached:1"), healthyImage: "memcached:1", edited: tc.edited}}
			w.rememberHealthy(&scene{spec: tc.spec, deployment: d, pods: []corev1.Pod{pod}})
			if got := w.memory.healthyImage; got != tc.want {
				t.Errorf("healthy is %s, want %s", got, tc.want)
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
			w := &World{kind: k, leader: &leader{wire: wire.New()}, history: &history{deployments: []*appsv1.Deployment{d}}, memory: memory{uid: "2"}}
			w.checkVersions(&scene{
				object: k.empty(), spec: map[string]any{"autoscaling": map[string]any{"minReplicas": int64(4), "maxReplicas": int64(6)}},
			})
			if got := slices.ContainsFunc(w.found, func(v Violation) bool { return v.Oracle == "replicas-minimum" }); got != tc.found {
				t.Errorf("found %v, want replicas-minimum: %v", w.found, tc.found)
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
	for file, least := range map[string]int{"chains.txt": 15, "more.txt": 50} {
		if n := len(regressions(t, file)); n < least {
			t.Errorf("testdata/%s has only %d chains", file, n)
		}
	}
}

func TestCatalogue_NeedsExist(t *testing.T) {
	for name, all := range needs {
		for _, need := range all {
			if opNamed(name) == nil || opNamed(need) == nil {
				t.Errorf("%s needs %s: no such operation", name, need)
			}
		}
	}
}

func TestCatalogue_NamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Catalogue() {
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
	if got["Pod.a[x].v"] != "1" || got["Pod.a[1]"] != `"y"` {
		t.Errorf("got %v", got)
	}
}
