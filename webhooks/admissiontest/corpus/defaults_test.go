package corpus

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks"
)

// assertive are defaults that contradict many objects of the corpus.
var assertive = []string{
	`[{kinds: [WebServer, DemoApplication], spec: {service: {type: ClusterIP}, probes: {readiness: {httpGet: {port: web}}, liveness: {httpGet: {port: https, scheme: HTTPS}}}}},
	{kinds: [WebServer, DemoApplication, Memcached], spec: {podDisruptionBudget: {minAvailable: 9000}, rollout: {maxSurge: 0, maxUnavailable: 1, minReadySeconds: 500}}},
	{spec: {resources: {requests: {cpu: 1m}, limits: {cpu: 2m, ephemeral-storage: 1Mi}}, networkPolicy: {preset: Isolated, from: [{podSelector: {}}]}, security: {profile: Restricted, readOnlyRootFilesystem: true}, pod: {labels: {app: other, team: a}}}}]`,
	`[{kinds: [WebServer, DemoApplication], spec: {service: {type: LoadBalancer}, probes: {startup: {tcpSocket: {port: 80}, periodSeconds: 1}}}},
	{kinds: [DemoApplication, ImmortalContainer], spec: {security: {profile: Baseline, runAsUser: 1, fsGroup: 0}}},
	{kinds: [WebServer, DemoApplication, Memcached], spec: {podDisruptionBudget: {maxUnavailable: 100%}, rollout: {strategy: Recreate, onFailure: Halt, revisionHistoryLimit: 0}}},
	{spec: {resources: {limits: {cpu: "9000"}}, pod: {labels: {}}}}]`,
}

// An object that is admitted without defaults is admitted with them, and keeps what its
// author stated.
func TestDefaults_NeverMakeAdmissionRefuse(t *testing.T) {
	for _, text := range assertive {
		var defaults []config.Defaults
		if err := yaml.UnmarshalStrict([]byte(text), &defaults); err != nil {
			t.Fatal(err)
		}
		platform := config.Default()
		platform.Defaults = defaults
		if err := platform.Validate(); err != nil {
			t.Fatal(err)
		}
		if err := webhooks.CheckDefaults(platform); err != nil {
			t.Fatal(err)
		}
		for _, k := range Kinds() {
			t.Run(k.Folder, func(t *testing.T) {
				t.Parallel()
				added, left := 0, 0
				for i, c := range read(t, k) {
					if i%2 != 0 && os.Getenv("CAMPAIGN") == "" {
						continue // make campaign-admission takes all
					}
					if c.Old != nil || c.Refused != nil {
						continue
					}
					without := c.Object
					c.Platform.Defaults = defaults
					offline := webhooks.NewOffline(c.Platform)
					with, err := offline.Default(t.Context(), without, Namespace)
					if err != nil {
						t.Fatalf("%s: %v", c, err)
					}
					if c.Object = with; !bytes.Equal(with, without) {
						added++
					}
					faults, err := Judge(t.Context(), k, definition(t, k, c.Version(k)), c)
					if err != nil {
						t.Fatalf("%s: %v", c, err)
					}
					for _, f := range faults {
						t.Errorf("%s is refused with defaults: %s", c, f)
					}
					if again, err := offline.Default(t.Context(), with, Namespace); err != nil || !bytes.Equal(again, with) {
						t.Errorf("%s: again, it becomes %s, error %v", c, again, err)
					}
					var before, after map[string]any
					if json.Unmarshal(without, &before) != nil || json.Unmarshal(with, &after) != nil {
						t.Fatalf("%s is not JSON", c)
					}
					spec := after["spec"].(map[string]any)
					for name, value := range before["spec"].(map[string]any) {
						if !keeps(value, spec[name], name == "pod" || name == "service") {
							t.Errorf("%s: %s was %v, and is %v", c, name, value, spec[name])
						}
					}
					left += len(platform.DefaultsOf(k.GVK.Kind, Namespace)) - len(spec) + len(before["spec"].(map[string]any))
				}
				t.Logf("%d objects got defaults, and %d blocks were stated or left out", added, left)
				if added < 10 || left < 5 {
					t.Errorf("%d objects got defaults, and %d blocks were stated or left out: the test shows little", added, left)
				}
			})
		}
	}
}

// keeps reports whether a value is unchanged or, if it may grow, got more fields.
func keeps(before, after any, grows bool) bool {
	b, isMap := before.(map[string]any)
	a, _ := after.(map[string]any)
	if !grows || !isMap {
		x, _ := json.Marshal(before)
		y, _ := json.Marshal(after)
		return bytes.Equal(x, y)
	}
	for name, value := range b {
		if !keeps(value, a[name], false) {
			return false
		}
	}
	return true
}
