//go:build envtest

package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

const defaults = `
- namespaces: [defaults-*]
  spec:
    resources: {requests: {cpu: 100m}, limits: {cpu: 500m}}
    networkPolicy: {preset: Isolated}
    security: {runAsGroup: 101}
    pod: {labels: {team: a}}
- kinds: [WebServer, DemoApplication]
  namespaces: [defaults-*]
  spec:
    probes: {readiness: {tcpSocket: {port: 80}}}
    service: {type: ClusterIP}
- kinds: [WebServer, DemoApplication, Memcached]
  namespaces: [defaults-*]
  spec:
    podDisruptionBudget: {minAvailable: 1}
    rollout: {maxUnavailable: 0}
`

// kubectl runs kubectl with an object as its input, and returns its output, or what it says
// about an error.
func kubectl(t *testing.T, in string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), append([]string{"--kubeconfig", file}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return string(out) + string(failed.Stderr), err
	}
	return string(out), err
}

// authored are objects with one block of their author's. The blocks that are left of
// the defaults are named.
var authored = map[string]struct {
	text string
	want []string
}{
	"WebServer": {
		`{apiVersion: my.domain/v1, kind: WebServer, metadata: {name: web}, spec: {image: "nginx:1", service: {port: 8080, nodePort: 30007}, pod: {nodeSelector: {disk: ssd}}}}`,
		[]string{"networkPolicy", "pod", "podDisruptionBudget", "probes", "resources", "rollout", "security"},
	},
	"DemoApplication": {
		`{apiVersion: paas.cmft.com/v1, kind: DemoApplication, metadata: {name: app}, spec: {image: "nginx:1", ports: [{port: 80, name: http}], resources: {limits: {memory: 1024Mi}}}}`,
		[]string{"networkPolicy", "pod", "podDisruptionBudget", "probes", "rollout", "security", "service"},
	},
	"DemoApplication, v1beta1": {
		`{apiVersion: paas.cmft.com/v1beta1, kind: DemoApplication, metadata: {name: beta}, spec: {image: "nginx:1", podDisruptionBudget: {maxUnavailable: 1}}}`,
		[]string{"networkPolicy", "pod", "probes", "resources", "rollout", "security", "service"},
	},
	"ImmortalContainer": {
		`{apiVersion: immortalcontainer.flugel.it/v1alpha1, kind: ImmortalContainer, metadata: {name: one}, spec: {image: "nginx:1", security: {}}}`,
		[]string{"networkPolicy", "pod", "resources"},
	},
	"Memcached": {
		`{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: cache}, spec: {size: 2, pod: {labels: {}}, rollout: {minReadySeconds: 5}}}`,
		[]string{"networkPolicy", "podDisruptionBudget", "resources", "security"},
	},
}

// Each client applies an object twice. Its creation shows the defaults, also in a dry run,
// and the second time there is no difference and no write.
func TestDefaults_AreWrittenOnceByEveryClient(t *testing.T) {
	for name, tc := range authored {
		for tool, apply := range map[string][]string{
			"kubectl apply":               {"apply"},
			"kubectl apply --server-side": {"apply", "--server-side"},
		} {
			t.Run(name+"/"+tool, func(t *testing.T) {
				o, ns := inNewNamespace(t, tc.text)
				run := func(args ...string) string {
					t.Helper()
					out, err := kubectl(t, tc.text, slices.Concat([]string{"-n", ns}, args, []string{"-f", "-"})...)
					if err != nil {
						t.Fatalf("%v: %v: %s", args, err, out)
					}
					return out
				}
				dry := &unstructured.Unstructured{}
				if err := json.Unmarshal([]byte(run(append(slices.Clone(apply), "--dry-run=server", "-o", "json")...)), dry); err != nil {
					t.Fatal(err)
				}
				run(apply...)
				// As the operator does. The status has a default, so that the first write after
				// the creation would change something even if nothing else does.
				status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`))
				if err := admin.Status().Patch(t.Context(), o.DeepCopy(), status); err != nil {
					t.Fatal(err)
				}
				live := read(t, o)
				if diff := cmp.Diff(dry.Object["spec"], live.Object["spec"]); diff != "" {
					t.Errorf("kubectl --dry-run=server shows another spec (-dry run +live):\n%s", diff)
				}
				var added []string
				for block := range live.Object["spec"].(map[string]any) {
					stated := o.Object["spec"].(map[string]any)[block]
					if diff := cmp.Diff(stated, live.Object["spec"].(map[string]any)[block]); diff != "" {
						added = append(added, block)
					}
				}
				slices.Sort(added)
				if diff := cmp.Diff(tc.want, added); diff != "" {
					t.Errorf("blocks with defaults (-want +got):\n%s", diff)
				}
				offline, err := NewOffline(platform).Default(t.Context(), marshal(t, o), ns)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(decoded(t, offline).(map[string]any)["spec"], decoded(t, marshal(t, live)).(map[string]any)["spec"]); diff != "" {
					t.Errorf("render and validate compute another spec (-offline +live):\n%s", diff)
				}
				// No client owns the defaults, so that none removes them.
				for _, m := range live.GetManagedFields() {
					if bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:networkPolicy"`)) {
						t.Errorf("%s owns networkPolicy: %s", m.Manager, m.FieldsV1.GetRawString())
					}
				}
				run(append([]string{"diff"}, apply[1:]...)...) // fails if there is a difference
				run(apply...)
				if again := read(t, o); again.GetResourceVersion() != live.GetResourceVersion() {
					t.Errorf("the second time, it is written:\n%s", cmp.Diff(live.Object, again.Object))
				}
			})
		}
	}
}

// An author who later states the other one of two exclusive fields removes the default
// before. It does not come back.
func TestDefaults_AreTheAuthorsFromThenOn(t *testing.T) {
	const text = `{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {name: cache}, spec: {size: 2%s}}`
	for client, apply := range map[string][]string{"kubectl apply": {"apply"}, "server-side": {"apply", "--server-side"}} {
		t.Run(client, func(t *testing.T) {
			o, ns := inNewNamespace(t, strings.Replace(text, "%s", "", 1))
			run := func(spec string) (string, error) {
				return kubectl(t, strings.Replace(text, "%s", spec, 1), append([]string{"-n", ns}, append(apply, "-f", "-")...)...)
			}
			if out, err := run(""); err != nil {
				t.Fatal(out)
			}
			if out, err := run(", podDisruptionBudget: {maxUnavailable: 1}"); err == nil || !strings.Contains(out, "exactly one of the fields in [minAvailable maxUnavailable] must be set") {
				t.Fatalf("error %v: %s", err, out)
			}
			if out, err := kubectl(t, "", "-n", ns, "patch", "memcached", "cache", "--type=merge", "-p", `{"spec":{"podDisruptionBudget":null,"networkPolicy":null}}`); err != nil {
				t.Fatal(out)
			}
			if out, err := run(", podDisruptionBudget: {maxUnavailable: 1}"); err != nil {
				t.Fatal(out)
			}
			spec := read(t, o).Object["spec"].(map[string]any)
			if diff := cmp.Diff(map[string]any{"maxUnavailable": int64(1)}, spec["podDisruptionBudget"]); diff != "" || spec["networkPolicy"] != nil {
				t.Errorf("the network policy is %v, the budget differs (-want +got):\n%s", spec["networkPolicy"], diff)
			}
		})
	}
}

// inNewNamespace decodes an object for a namespace that has defaults.
func inNewNamespace(t *testing.T, text string) (*unstructured.Unstructured, string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "defaults-"}}
	if err := admin.Create(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(marshal(t, o), o); err != nil { // integers are of type int64
		t.Fatal(err)
	}
	o.SetNamespace(ns.Name)
	return o, ns.Name
}

func read(t *testing.T, o *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	live := o.DeepCopy()
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), live); err != nil {
		t.Fatal(err)
	}
	return live
}

func marshal(t *testing.T, o *unstructured.Unstructured) []byte {
	t.Helper()
	raw, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
