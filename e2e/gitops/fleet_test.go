package gitops

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"
)

// down are the states in which no client is served. In all others one is, whatever became of
// the last change.
var down = []string{"container-keeps-exiting", "crash-loop", "image-not-found", "missing-configmap", "quota", "quota-of-pods", "unbound-claim"}

func TestKarmada_HealthOfEveryState(t *testing.T) {
	scripts := interpreters(t)
	files, err := filepath.Glob(filepath.Join(states, "*", "in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no states in %s: %v", states, err)
	}
	for _, f := range files {
		name := filepath.Base(filepath.Dir(f))
		t.Run(name, func(t *testing.T) {
			o := load(t, f)
			want := lua.LBool(!slices.Contains(down, name))
			if got := call(t, scripts[o.GetKind()]["healthInterpretation"], "InterpretHealth", o)[0]; got != want {
				t.Errorf("healthy: %v, want %v", got, want)
			}
		})
	}
}

func TestKarmada_DividesReplicas(t *testing.T) {
	scripts := interpreters(t)
	for name, tc := range map[string]struct {
		kind, spec, field string
		want              float64
	}{
		"WebServer":             {"WebServer", `{replicas: 5}`, "replicas", 5},
		"WebServer, unset":      {"WebServer", `{image: nginx}`, "replicas", 1},
		"WebServer, autoscaled": {"WebServer", `{autoscaling: {maxReplicas: 3}}`, "replicas", 0},
		"DemoApplication":       {"DemoApplication", `{replica: 4}`, "replica", 4},
		"Memcached":             {"Memcached", `{size: 3}`, "size", 3},
	} {
		t.Run(name, func(t *testing.T) {
			o := parse(t, []byte("{metadata: {name: web}, spec: "+tc.spec+"}"))
			if got := call(t, scripts[tc.kind]["replicaResource"], "GetReplicas", o)[0]; got != lua.LNumber(tc.want) {
				t.Errorf("%v replicas, want %v", got, tc.want)
			}
			revised := call(t, scripts[tc.kind]["replicaRevision"], "ReviseReplica", o, lua.LNumber(2))[0].(*lua.LTable)
			if got := revised.RawGetString("spec").(*lua.LTable).RawGetString(tc.field); got != lua.LNumber(2) {
				t.Errorf("spec.%s is %v after it was divided, want 2", tc.field, got)
			}
		})
	}
}

// interpreters returns the scripts of each kind, by the name of the customization.
func interpreters(t *testing.T) map[string]map[string]string {
	t.Helper()
	var list struct {
		Items []struct {
			Spec struct {
				Target struct {
					Kind string `json:"kind"`
				} `json:"target"`
				Customizations map[string]struct {
					LuaScript string `json:"luaScript"`
				} `json:"customizations"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../config/gitops/karmada.yaml")), &list); err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	for _, item := range list.Items {
		scripts := map[string]string{}
		for name, c := range item.Spec.Customizations {
			scripts[name] = c.LuaScript
		}
		all[item.Spec.Target.Kind] = scripts
	}
	if len(all) != 4 {
		t.Fatalf("interpreters for %d kinds", len(all))
	}
	return all
}

// call calls a function of a script with an object and further arguments.
func call(t *testing.T, script, function string, o *unstructured.Unstructured, args ...lua.LValue) []lua.LValue {
	t.Helper()
	l := lua.NewState()
	defer l.Close()
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	all := append([]lua.LValue{value(l, o.Object)}, args...)
	if err := l.CallByParam(lua.P{Fn: l.GetGlobal(function), NRet: lua.MultRet, Protect: true}, all...); err != nil {
		t.Fatal(err)
	}
	results := make([]lua.LValue, l.GetTop())
	for i := range results {
		results[i] = l.Get(i + 1)
	}
	return results
}

// Each path finds one value in an object that the operator has seen.
func TestManifestWork_PathsFindTheConditions(t *testing.T) {
	var configs []struct {
		FeedbackRules []struct {
			JSONPaths []struct{ Name, Path string } `json:"jsonPaths"`
		} `json:"feedbackRules"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "../../config/gitops/manifestwork.yaml")), &configs); err != nil {
		t.Fatal(err)
	}
	o := load(t, filepath.Join(states, "rolled-back", "in.yaml"))
	got := map[string]string{}
	for _, p := range configs[0].FeedbackRules[0].JSONPaths {
		path := jsonpath.New(p.Name)
		if err := path.Parse("{" + p.Path + "}"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := path.Execute(&out, o.Object); err != nil {
			t.Fatal(err)
		}
		got[p.Name] = out.String()
	}
	if got["ready"] != "False" || got["reason"] != "RolledBack" || got["available"] != "True" || !strings.Contains(got["message"], "evision") || got["observedGeneration"] == "" {
		t.Errorf("%v", got)
	}
}
