package gitops

import (
	"path/filepath"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"
)

// states are objects of the kinds, as the operator reports them; the tests of the command
// line print them.
const states = "../../cmd/kubectl-platform/testdata"

var want = map[string]struct{ argo, flux string }{
	"autoscaling":             {argo: "Progressing", flux: "InProgress"},
	"bad-pin":                 {argo: "Degraded", flux: "Failed"},
	"canary":                  {argo: "Suspended", flux: "InProgress"},
	"conflict":                {argo: "Degraded", flux: "Failed"},
	"container-keeps-exiting": {argo: "Progressing", flux: "InProgress"},
	"crash-loop":              {argo: "Degraded", flux: "Failed"},
	"image-not-found":         {argo: "Progressing", flux: "InProgress"},
	"load-balancer":           {argo: "Healthy", flux: "Current"},
	"missing-configmap":       {argo: "Progressing", flux: "InProgress"},
	"missing-reference":       {argo: "Degraded", flux: "Failed"},
	"paused":                  {argo: "Suspended", flux: "InProgress"},
	"probe-failed":            {argo: "Degraded", flux: "Failed"},
	"quota":                   {argo: "Degraded", flux: "Failed"},
	"quota-of-pods":           {argo: "Degraded", flux: "Failed"},
	"ready":                   {argo: "Healthy", flux: "Current"},
	"rolled-back":             {argo: "Degraded", flux: "Failed"},
	"terminating":             {argo: "Progressing", flux: "Terminating"},
	"unbound-claim":           {argo: "Progressing", flux: "InProgress"},
	"unprocessed":             {argo: "Progressing", flux: "InProgress"},
	"unschedulable":           {argo: "Progressing", flux: "InProgress"},
}

func TestHealth_OfEveryState(t *testing.T) {
	scripts := customizations(t)
	files, err := filepath.Glob(filepath.Join(states, "*", "in.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no states in %s: %v", states, err)
	}
	seen := map[string]bool{}
	for _, f := range files {
		name := filepath.Base(filepath.Dir(f))
		seen[name] = true
		t.Run(name, func(t *testing.T) {
			o := load(t, f)
			w, known := want[name]
			if !known {
				t.Fatal("say how Argo CD and Flux must judge this state")
			}
			got, message := judge(t, scripts[key(o)], o)
			if got != w.argo || message == "" {
				t.Errorf("Argo CD: %s %q, want %s and a message", got, message, w.argo)
			}
			k, err := status.Compute(o)
			if err != nil {
				t.Fatal(err)
			}
			if k.Status.String() != w.flux {
				t.Errorf("kstatus: %s %q, want %s", k.Status, k.Message, w.flux)
			}
		})
	}
	for name := range want {
		if !seen[name] {
			t.Errorf("there is no state %s", name)
		}
	}
}

func TestHealth_OfAnObjectThatTheOperatorHasNotSeen(t *testing.T) {
	script := customizations(t)["resource.customizations.health.my.domain_WebServer"]
	for name, content := range map[string]string{
		"no status":             `{metadata: {generation: 1}}`,
		"no conditions":         `{metadata: {generation: 1}, status: {observedGeneration: 1}}`,
		"conditions of another": `{metadata: {generation: 1}, status: {observedGeneration: 1, conditions: [{type: Other, status: "True"}]}}`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, _ := judge(t, script, parse(t, []byte(content))); got != "Progressing" {
				t.Errorf("%s, want Progressing", got)
			}
		})
	}
}

// TestHealth_OfEveryKind fails if a kind has no script.
func TestHealth_OfEveryKind(t *testing.T) {
	scripts := customizations(t)
	crds, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, f := range crds {
		crd := load(t, f)
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
		if scripts["resource.customizations.health."+group+"_"+kind] == "" {
			t.Errorf("%s has no script in config/gitops/argocd-cm.yaml", kind)
		}
	}
	if len(scripts) != len(crds) {
		t.Errorf("%d scripts for %d kinds", len(scripts), len(crds))
	}
}

// customizations returns the data of the ConfigMap for Argo CD.
func customizations(t *testing.T) map[string]string {
	t.Helper()
	var cm struct {
		Data map[string]string `json:"data"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "../../config/gitops/argocd-cm.yaml")), &cm); err != nil {
		t.Fatal(err)
	}
	return cm.Data
}

// key returns the key of an object's script.
func key(o *unstructured.Unstructured) string {
	gvk := o.GroupVersionKind()
	return "resource.customizations.health." + gvk.Group + "_" + gvk.Kind
}

// load returns the first object in a file.
func load(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	first, _, _ := strings.Cut(strings.TrimPrefix(read(t, file), "---\n"), "\n---\n")
	return parse(t, []byte(first))
}

func parse(t *testing.T, content []byte) *unstructured.Unstructured {
	t.Helper()
	j, err := yaml.YAMLToJSON(content)
	if err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(j); err != nil && !strings.Contains(err.Error(), "Kind") {
		t.Fatal(err)
	}
	return o
}

// judge runs a script as Argo CD does: with the object in the variable obj, and without
// libraries that reach the system.
func judge(t *testing.T, script string, o *unstructured.Unstructured) (health, message string) {
	t.Helper()
	l := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer l.Close()
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable, lua.StringLibName: lua.OpenString} {
		l.Push(l.NewFunction(open))
		l.Push(lua.LString(name))
		l.Call(1, 0)
	}
	l.SetGlobal("obj", value(l, o.Object))
	if err := l.DoString(script); err != nil {
		t.Fatal(err)
	}
	result, ok := l.Get(-1).(*lua.LTable)
	if !ok {
		t.Fatalf("the script returns %s, want a table", l.Get(-1).Type())
	}
	return result.RawGetString("status").String(), result.RawGetString("message").String()
}

// value returns a value of JSON in Lua.
func value(l *lua.LState, v any) lua.LValue {
	switch v := v.(type) {
	case map[string]any:
		table := l.NewTable()
		for k, e := range v {
			table.RawSetString(k, value(l, e))
		}
		return table
	case []any:
		table := l.NewTable()
		for _, e := range v {
			table.Append(value(l, e))
		}
		return table
	case string:
		return lua.LString(v)
	case bool:
		return lua.LBool(v)
	case int64:
		return lua.LNumber(v)
	case float64:
		return lua.LNumber(v)
	}
	return lua.LNil
}
