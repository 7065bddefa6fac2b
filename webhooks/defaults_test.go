package webhooks

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// configured returns a platform configuration with defaults.
func configured(t *testing.T, text string) config.Platform {
	t.Helper()
	p, err := config.Parse([]byte(text), "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func kindOf(t *testing.T, name string) validate.AnyKind {
	t.Helper()
	for _, k := range Kinds() {
		if k.GVK.Kind == name {
			return k
		}
	}
	t.Fatalf("there is no kind %s", name)
	return validate.AnyKind{}
}

// given returns an object of a kind with a spec as JSON.
func given(t *testing.T, k validate.AnyKind, spec string) []byte {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte("apiVersion: " + k.GVK.GroupVersion().String() + "\nkind: " + k.GVK.Kind + "\nmetadata: {name: a}\nspec: " + spec))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// sent returns the object that the API server stores for a request.
func sent(t *testing.T, k validate.AnyKind, p config.Platform, operation admissionv1.Operation, raw []byte) []byte {
	t.Helper()
	handler, err := mutate(k, p)
	if err != nil {
		t.Fatal(err)
	}
	return patched(t, raw, handler(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: operation, Namespace: "team-a", Object: k8sruntime.RawExtension{Raw: raw},
	}}))
}

func TestMutate_AddsDefaultsWhereTheAuthorStatedNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		kind     string
		defaults string
		spec     string
		want     string // the spec
	}{
		"nothing is configured": {"WebServer", `[]`, `{image: "nginx:1"}`, `{image: "nginx:1"}`},
		"every block": {
			"WebServer", `[{spec: {resources: {requests: {cpu: 100m}}, networkPolicy: {preset: Isolated}, podDisruptionBudget: {minAvailable: 1}, rollout: {maxUnavailable: 0}, security: {runAsGroup: 101}, service: {type: ClusterIP}, pod: {labels: {team: a}}}},
				{kinds: [WebServer], spec: {probes: {liveness: {httpGet: {port: http}}}}}]`,
			`{image: "nginx:1"}`,
			`{image: "nginx:1", resources: {requests: {cpu: 100m}}, networkPolicy: {preset: Isolated}, podDisruptionBudget: {minAvailable: 1}, rollout: {maxUnavailable: 0}, security: {runAsGroup: 101}, service: {type: ClusterIP}, pod: {labels: {team: a}}, probes: {liveness: {httpGet: {port: http}}}}`,
		},
		"a block that the author states is the author's alone": {
			"DemoApplication", `[{spec: {resources: {requests: {cpu: 100m}}, podDisruptionBudget: {minAvailable: 1}, rollout: {maxUnavailable: 0}, pod: {labels: {team: a}}, service: {type: LoadBalancer}}}]`,
			`{image: "nginx:1", resources: {limits: {memory: 1024Mi}}, podDisruptionBudget: {maxUnavailable: 1}, rollout: {}, pod: {labels: {}}, service: {type: ClusterIP}}`,
			`{image: "nginx:1", resources: {limits: {memory: 1024Mi}}, podDisruptionBudget: {maxUnavailable: 1}, rollout: {}, pod: {labels: {}}, service: {type: ClusterIP}}`,
		},
		"fields of pod and service are blocks": {
			"WebServer", `[{spec: {pod: {labels: {team: a}}, service: {type: ClusterIP}}}]`,
			`{image: "nginx:1", pod: {nodeSelector: {disk: ssd}, terminationGracePeriodSeconds: 60}, service: {port: 8080}}`,
			`{image: "nginx:1", pod: {nodeSelector: {disk: ssd}, terminationGracePeriodSeconds: 60, labels: {team: a}}, service: {port: 8080, type: ClusterIP}}`,
		},
		"the first entry of the namespace counts": {
			"ImmortalContainer", `[{namespaces: [team-b], spec: {resources: {requests: {cpu: 1m}}}}, {namespaces: [team-*], spec: {resources: {requests: {cpu: 2m}}}}, {spec: {resources: {requests: {cpu: 3m}}, networkPolicy: {preset: Isolated}}}]`,
			`{image: "nginx:1"}`, `{image: "nginx:1", resources: {requests: {cpu: 2m}}, networkPolicy: {preset: Isolated}}`,
		},
		"another kind": {"Memcached", `[{kinds: [WebServer], spec: {networkPolicy: {preset: Isolated}}}]`, `{size: 1}`, `{size: 1}`},
		"a type of Service that excludes the node port": {
			"WebServer", `[{spec: {service: {type: ClusterIP}, networkPolicy: {preset: Isolated}}}]`,
			`{image: "nginx:1", service: {nodePort: 30001}}`, `{image: "nginx:1", service: {nodePort: 30001}, networkPolicy: {preset: Isolated}}`,
		},
		"a probe of a port that there is not": {
			"DemoApplication", `[{kinds: [DemoApplication], spec: {probes: {readiness: {httpGet: {port: web}}}}}]`,
			`{image: "nginx:1", ports: [{port: 80}]}`, `{image: "nginx:1", ports: [{port: 80}]}`,
		},
		"a probe of a port that there is": {
			"DemoApplication", `[{kinds: [DemoApplication], spec: {probes: {readiness: {httpGet: {port: web}}}}}]`,
			`{image: "nginx:1", ports: [{port: 80, targetPort: web}]}`, `{image: "nginx:1", ports: [{port: 80, targetPort: web}], probes: {readiness: {httpGet: {port: web}}}}`,
		},
		"an autoscaler that needs them": {
			"WebServer", `[{spec: {resources: {requests: {cpu: 100m}}}}]`,
			`{image: "nginx:1", autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 80}}`,
			`{image: "nginx:1", autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 80}, resources: {requests: {cpu: 100m}}}`,
		},
		"an object that is not valid": {"WebServer", `[{spec: {networkPolicy: {preset: Isolated}}}]`, `{image: [a]}`, `{image: [a]}`},
		"a number that takes for ever": {
			"WebServer", `[{spec: {networkPolicy: {preset: Isolated}}}]`,
			`{image: "nginx:1", resources: {limits: {memory: "1e-1000000000"}}}`, `{image: "nginx:1", resources: {limits: {memory: "1e-1000000000"}}, networkPolicy: {preset: Isolated}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			k, p := kindOf(t, tc.kind), configured(t, "defaults: "+tc.defaults)
			raw := given(t, k, tc.spec)
			created := sent(t, k, p, admissionv1.Create, raw)
			want := given(t, k, tc.want)
			if diff := cmp.Diff(decoded(t, want), decoded(t, created)); diff != "" {
				t.Errorf("created (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(decoded(t, created), decoded(t, sent(t, k, p, admissionv1.Create, created))); diff != "" {
				t.Errorf("a second call changes it (-once +twice):\n%s", diff)
			}
			if diff := cmp.Diff(decoded(t, raw), decoded(t, sent(t, k, p, admissionv1.Update, raw))); diff != "" {
				t.Errorf("an update is changed (-want +got):\n%s", diff)
			}
			offline, err := NewOffline(p).Default(t.Context(), raw, "team-a")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(decoded(t, created), decoded(t, offline)); diff != "" {
				t.Errorf("the command line computes another object (-webhook +offline):\n%s", diff)
			}
			exists := []byte(strings.Replace(string(raw), `"name":"a"`, `"name":"a","uid":"1"`, 1))
			if got, err := NewOffline(p).Default(t.Context(), exists, "team-a"); err != nil || string(got) != string(exists) {
				t.Errorf("an object of a cluster becomes %s, error %v", got, err)
			}
		})
	}
}

func decoded(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestCheckDefaults_RefusesWhatNoObjectMayHave(t *testing.T) {
	for name, tc := range map[string]struct{ platform, want string }{
		"valid for all kinds": {`defaults: [{spec: {networkPolicy: {preset: Isolated}, security: {runAsGroup: 7}, pod: {labels: {team: a}}, resources: {requests: {cpu: 1m}}}}]`, ""},
		"valid for some":      {`defaults: [{kinds: [WebServer, DemoApplication], spec: {probes: {liveness: {httpGet: {port: 80}}}, service: {type: ClusterIP}}}]`, ""},
		"about a port that objects may have": {
			`defaults: [{kinds: [DemoApplication], spec: {probes: {liveness: {httpGet: {port: web}}}}}]`, "",
		},
		"disabled kinds do not count": {`{kinds: [WebServer], defaults: [{spec: {probes: {liveness: {tcpSocket: {port: 80}}}}}]}`, ""},
		"allowed images do not count": {`{images: {allowed: [registry.example], pull: Always}, defaults: [{spec: {networkPolicy: {preset: Isolated}}}]}`, ""},
		"a kind":                      {`defaults: [{kinds: [Webserver], spec: {networkPolicy: {preset: Isolated}}}]`, `defaults[0].kinds[0] is "Webserver", must be one of DemoApplication, ImmortalContainer, Memcached, WebServer`},
		"a field of other kinds":      {`defaults: [{}, {spec: {probes: {}}}]`, `defaults[1] cannot be used for Memcached: unknown field "spec.probes"`},
		"a misspelled field":          {`defaults: [{kinds: [WebServer], spec: {resources: {request: {}}}}]`, `defaults[0] cannot be used for WebServer: unknown field "spec.resources.request"`},
		"a type":                      {`defaults: [{kinds: [WebServer], spec: {rollout: {minReadySeconds: ten}}}]`, `spec.rollout.minReadySeconds: Invalid value: "string"`},
		"a rule":                      {`defaults: [{kinds: [WebServer], spec: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}}]`, `exactly one of`},
		"a rule of the platform":      {`{serviceTypes: [ClusterIP], webServer: {serviceType: ClusterIP}, defaults: [{kinds: [WebServer], spec: {service: {type: NodePort}}}]}`, "spec.service.type: Forbidden: the platform configuration allows only Services of type ClusterIP"},
		"a key that is not listed":    {`{pods: {unlistedKeys: Refuse}, defaults: [{kinds: [WebServer], spec: {pod: {labels: {team: a}}}}]}`, "spec.pod.labels"},
	} {
		t.Run(name, func(t *testing.T) {
			p := config.Default()
			if err := yaml.UnmarshalStrict([]byte(tc.platform), &p); err != nil {
				t.Fatal(err)
			}
			err := CheckDefaults(p)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
