//go:build envtest

package common_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/testkit/apiserver"
)

// A kind that has every block, in two versions of which one has no descriptions, must stay
// under what kubectl apply can keep in an annotation.
const largest = 140 << 10

// The API server refuses definitions whose rules could cost too much, so that
// this one is taken at all says that a kind may have every block.
func TestSharedTypes_FitTheCostLimit(t *testing.T) {
	dir := t.TempDir()
	gen := exec.Command("go", "tool", "controller-gen", "crd", "paths=./testdata/blocks", "output:crd:dir="+dir)
	if out, err := gen.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file := filepath.Join(dir, "blocks.test_blocks.yaml")
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// As make generate does: maps of quantities get a bound.
	raw = regexp.MustCompile(`(?m)^( *- type: string\n)( *)(pattern: \^\(\\\+)`).ReplaceAll(raw, []byte("${1}${2}maxLength: 32\n${2}${3}"))
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	compact, err := yaml.YAMLToJSON(raw)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d KiB of JSON", len(compact)>>10)
	if len(compact) > largest {
		t.Errorf("%d bytes of JSON, want at most %d", len(compact), largest)
	}

	env := &envtest.Environment{CRDDirectoryPaths: []string{dir}}
	cfg, err := apiserver.Start(env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			o := &unstructured.Unstructured{}
			spec, err := yaml.YAMLToJSON([]byte(tc.spec))
			if err != nil {
				t.Fatal(err)
			}
			var fields map[string]any
			if err := json.Unmarshal(spec, &fields); err != nil {
				t.Fatal(err)
			}
			o.Object = map[string]any{"apiVersion": "blocks.test/v1", "kind": "Block", "spec": fields}
			o.SetNamespace("default")
			o.SetGenerateName("block-")
			err = c.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case tc.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tc.refused != "" && err == nil:
				t.Error("not refused")
			case tc.refused != "" && !strings.Contains(err.Error(), tc.refused):
				t.Errorf("refused with %v, want %q", err, tc.refused)
			}
		})
	}
}

// cases are specs, and of those that are refused what is said about it.
var cases = []struct{ name, spec, refused string }{
	{"nothing", `{}`, ""},

	{"resources", `resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {cpu: 1, memory: 1024Mi, example.com/gpu: 1}}`, ""},
	{"resources beyond the limit", `resources: {requests: {cpu: 1500m}, limits: {cpu: 1}}`, "spec.resources.requests: Invalid value: requests must not be greater"},
	{"negative resources", `resources: {limits: {cpu: -1}}`, "must not be negative"},
	{"part of a device", `resources: {limits: {example.com/gpu: 500m}}`, "whole numbers"},
	{"mistyped resource", `resources: {limits: {mem: 1Gi}}`, "limits can contain"},
	{"requested device", `resources: {requests: {example.com/gpu: 1}}`, "requested by their limit"},

	{"env", `env: [{name: A, value: b}, {name: B, valueFrom: {configMapKeyRef: {name: c, key: .k}}}, {name: C, valueFrom: {fieldRef: {fieldPath: "metadata.labels['a.b/c']"}}}, {name: D, valueFrom: {resourceFieldRef: {resource: limits.cpu, divisor: 1m}}}]`, ""},
	{"env of two values", `env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]`, "mutually exclusive"},
	{"env from two places", `env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}, secretKeyRef: {name: a, key: b}}}]`, "exactly one"},
	{"env from no place", `env: [{name: A, valueFrom: {}}]`, "exactly one"},
	{"env twice", `env: [{name: A}, {name: A}]`, "Duplicate value"},
	{"env of an unknown field", `env: [{name: A, valueFrom: {fieldRef: {fieldPath: spec.replicas}}}]`, "fieldPath"},
	{"key that is a path", `env: [{name: A, valueFrom: {configMapKeyRef: {name: c, key: ../k}}}]`, "key"},
	{"unit of another resource", `env: [{name: D, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1m}}}]`, "divisor can be"},
	{"envFrom", `envFrom: [{prefix: P_, configMapRef: {name: c}}, {secretRef: {name: s, optional: true}}]`, ""},
	{"envFrom two", `envFrom: [{configMapRef: {name: c}, secretRef: {name: s}}]`, "exactly one"},

	{"probes", `probes: {startup: {exec: {command: [a]}}, readiness: {httpGet: {port: http, path: /}, successThreshold: 2}, liveness: {grpc: {port: 1}}}`, ""},
	{"probe of two ways", `probes: {readiness: {tcpSocket: {port: 1}, grpc: {port: 1}}}`, "exactly one"},
	{"probe of a host", `probes: {readiness: {httpGet: {port: 1, host: example.com}}}`, "unknown field"},
	{"probe of port 0", `probes: {readiness: {tcpSocket: {port: 0}}}`, "from 1 to 65535"},
	{"liveness that has to succeed twice", `probes: {liveness: {tcpSocket: {port: 1}, successThreshold: 2}}`, "spec.probes.liveness.successThreshold: Invalid value: must be 1"},

	{"labels and annotations", `pod: {labels: {example.com/team: a, x: ""}, annotations: {Example.com/Key: "some text"}}`, ""},
	{"label of the operator", `pod: {labels: {app.kubernetes.io/managed-by: me}}`, "cannot be set"},
	{"label of our domain", `pod: {labels: {platform-operator.io/x: me}}`, "cannot be set"},
	{"label of Kubernetes", `pod: {labels: {pod-template-hash: me}}`, "cannot be set"},
	{"label that is none", `pod: {labels: {"a b": me}}`, "keys must be names"},
	{"value that is none", `pod: {labels: {a: "b c"}}`, "spec.pod.labels.a"},
	{"annotation of the operator", `pod: {annotations: {platform-operator.io/applied: x}}`, "cannot be set"},
	{"annotation that gives privileges", `pod: {annotations: {container.apparmor.security.beta.kubernetes.io/web: unconfined}}`, "cannot be set"},
	{"priority", `pod: {priorityClassName: high}`, ""},
	{"priority of the system", `pod: {priorityClassName: system-node-critical}`, "are not allowed"},
	{"tolerations", `pod: {tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute, tolerationSeconds: 3}]}`, ""},
	{"toleration of nothing", `pod: {tolerations: [{effect: NoSchedule}]}`, "key is required"},
	{"toleration of a value that exists", `pod: {tolerations: [{key: a, operator: Exists, value: b}]}`, "key is required"},
	{"toleration for a time", `pod: {tolerations: [{key: a, operator: Exists, tolerationSeconds: 3}]}`, "only for effect NoExecute"},
	{"affinity", `pod: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}, {key: c, operator: Gt, values: ["3"]}]}]}}, podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}]}}}`, ""},
	{"affinity to other namespaces", `pod: {affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: a, labelSelector: {}, namespaceSelector: {}}]}}}`, "unknown field"},
	{"requirement without values", `pod: {affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}}`, "require values"},
	{"spread", `pod: {topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule, maxSkew: 1, minDomains: 2}, {topologyKey: a, whenUnsatisfiable: ScheduleAnyway, maxSkew: 1}]}`, ""},
	{"spread twice", `pod: {topologySpreadConstraints: [{topologyKey: a, whenUnsatisfiable: DoNotSchedule, maxSkew: 1}, {topologyKey: a, whenUnsatisfiable: DoNotSchedule, maxSkew: 2}]}`, "Duplicate value"},
	{"volumes", `pod: {volumes: [{name: a, configMap: {name: c, items: [{key: k, path: a/.b/c}]}}, {name: b, emptyDir: {medium: Memory, sizeLimit: 1Gi}}, {name: c, projected: {sources: [{secret: {name: s}}, {downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}]}}, {name: d, persistentVolumeClaim: {claimName: p}}, {name: e, image: {reference: "r:1"}}], volumeMounts: [{name: a, mountPath: /a, subPath: b}]}`, ""},
	{"volume of the node", `pod: {volumes: [{name: a, hostPath: {path: /}}]}`, "unknown field"},
	{"volume with a token", `pod: {volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: a}}]}}]}`, "unknown field"},
	{"volume of two types", `pod: {volumes: [{name: a, emptyDir: {}, secret: {secretName: s}}]}`, "exactly one"},
	{"volume of no size", `pod: {volumes: [{name: a, emptyDir: {sizeLimit: -1}}]}`, "not be negative"},
	{"file outside of its volume", `pod: {volumes: [{name: a, configMap: {name: c, items: [{key: k, path: a/../../b}]}}]}`, "path"},
	{"mount of no volume", `pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: b, mountPath: /b}]}`, "must name one of volumes"},
	{"mounts at one path", `pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /b}, {name: a, mountPath: /b}]}`, "Duplicate value"},

	{"security", `security: {profile: Restricted, runAsUser: 1000, runAsGroup: 0, fsGroup: 2000, readOnlyRootFilesystem: false}`, ""},
	{"security of root", `security: {runAsUser: 0}`, "runAsUser"},
	{"security profile that does not exist", `security: {profile: Privileged}`, "profile"},

	{"service", `service: {annotations: {a.b/c: d}, loadBalancerClass: example.com/lb, externalTrafficPolicy: Local, sessionAffinity: ClientIP}`, ""},
	{"service with an annotation of the operator", `service: {annotations: {platform-operator.io/owner-uid: x}}`, "outside of platform-operator.io"},

	{"Gateway", `expose: {type: Gateway, hosts: [a.example.com, "*.example.com"], path: /.well-known/x, gateway: {parentRef: {name: g}}}`, ""},
	{"Gateway without one", `expose: {type: Gateway, hosts: [a.example.com]}`, "spec.expose.gateway: Invalid value: gateway is required"},
	{"Gateway with an Ingress", `expose: {type: Gateway, hosts: [a.example.com], gateway: {parentRef: {name: g}}, ingress: {}}`, ""},
	{"Ingress", `expose: {type: Ingress, hosts: [a.example.com], ingress: {ingressClassName: nginx, tls: {secretRef: {name: s}}, annotations: {nginx.ingress.kubernetes.io/proxy-body-size: 1m}}}`, ""},
	{"Ingress and nothing else", `expose: {type: Ingress, hosts: [a.example.com]}`, ""},
	{"Ingress with a Gateway", `expose: {type: Ingress, hosts: [a.example.com], gateway: {parentRef: {name: g}}}`, ""},
	{"Ingress with a snippet", `expose: {type: Ingress, hosts: [a.example.com], ingress: {annotations: {nginx.ingress.kubernetes.io/server-snippet: x}}}`, "no snippets"},
	{"no host", `expose: {type: Ingress, hosts: []}`, "hosts"},
	{"address as a host", `expose: {type: Ingress, hosts: [192.0.2.1]}`, "not an address"},
	{"host twice", `expose: {type: Ingress, hosts: [a.b, a.b]}`, "listed once"},
	{"path that climbs", `expose: {type: Ingress, hosts: [a.b], path: /a/../b}`, "path"},

	{"autoscaling", `autoscaling: {minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 70, behavior: {scaleDown: {selectPolicy: Disabled}, scaleUp: {policies: [{type: Pods, value: 1, periodSeconds: 60}]}}}`, ""},
	{"autoscaling by metrics", `autoscaling: {maxReplicas: 5, metrics: [{type: Pods, name: requests_per_second, averageValue: 20}, {type: Object, name: requests, object: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}, value: 2k}, {type: External, name: queue, matchLabels: {queue: orders}, averageValue: 500m}]}`, ""},
	{"autoscaling to no aim", `autoscaling: {maxReplicas: 5}`, "at least one"},
	{"metric without a target", `autoscaling: {maxReplicas: 5, metrics: [{type: Pods, name: a}]}`, "exactly one of the fields in [value averageValue]"},
	{"metric with two targets", `autoscaling: {maxReplicas: 5, metrics: [{type: External, name: a, value: 1, averageValue: 1}]}`, "exactly one of the fields in [value averageValue]"},
	{"metric of pods with a total", `autoscaling: {maxReplicas: 5, metrics: [{type: Pods, name: a, value: 1}]}`, "type Pods needs averageValue"},
	{"metric of no object", `autoscaling: {maxReplicas: 5, metrics: [{type: Object, name: a, value: 1}]}`, "object is required for type Object"},
	{"metric of pods with an object", `autoscaling: {maxReplicas: 5, metrics: [{type: Pods, name: a, averageValue: 1, object: {apiVersion: v1, kind: Pod, name: a}}]}`, "forbidden for any other"},
	{"metric with a target of zero", `autoscaling: {maxReplicas: 5, metrics: [{type: External, name: a, value: "0.0"}]}`, "must be more than 0"},
	{"metric with a negative target", `autoscaling: {maxReplicas: 5, metrics: [{type: External, name: a, value: -1}]}`, "must be more than 0"},
	{"metric with an exponent", `autoscaling: {maxReplicas: 5, metrics: [{type: External, name: a, averageValue: "1e3"}]}`, "must be more than 0"},
	{"metric with a path as its name", `autoscaling: {maxReplicas: 5, metrics: [{type: External, name: a/b, value: 1}]}`, "metrics[0].name"},
	{"metric of a resource", `autoscaling: {maxReplicas: 5, metrics: [{type: Resource, name: cpu, averageValue: 1}]}`, "Pods"},
	{"metric by a label that is none", `autoscaling: {maxReplicas: 5, metrics: [{type: External, name: a, value: 1, matchLabels: {"a b": c}}]}`, "keys must be names"},
	{"autoscaling upside down", `autoscaling: {minReplicas: 6, maxReplicas: 5, targetCPUUtilizationPercentage: 70}`, "spec.autoscaling.minReplicas"},

	{"budget", `podDisruptionBudget: {maxUnavailable: 100%}`, ""},
	{"budget of a minimum", `podDisruptionBudget: {minAvailable: 99%}`, ""},
	{"budget of neither", `podDisruptionBudget: {}`, "exactly one"},
	{"budget of both", `podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}`, "exactly one"},
	{"budget of none", `podDisruptionBudget: {maxUnavailable: 0}`, "so that a node can be drained"},
	{"budget of no percent", `podDisruptionBudget: {maxUnavailable: 0%}`, "maxUnavailable"},
	{"budget of all", `podDisruptionBudget: {minAvailable: 100%}`, "minAvailable"},

	{"network policy", `networkPolicy: {preset: Isolated, from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {a: b}}, podSelector: {matchExpressions: [{key: a, operator: Exists}]}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}`, ""},
	{"peer that is empty", `networkPolicy: {preset: Isolated, from: [{}]}`, "either ipBlock"},
	{"peer of both", `networkPolicy: {preset: Isolated, from: [{podSelector: {}, ipBlock: {cidr: 10.0.0.0/8}}]}`, "either ipBlock"},
	{"range that is none", `networkPolicy: {preset: Isolated, from: [{ipBlock: {cidr: 10.0.0.0}}]}`, "must be a range"},
	{"range with more bits", `networkPolicy: {preset: Isolated, from: [{ipBlock: {cidr: 10.1.2.3/8}}]}`, "must be a range"},
	{"exception from elsewhere", `networkPolicy: {preset: Isolated, from: [{ipBlock: {cidr: 10.0.0.0/8, except: [11.0.0.0/16]}}]}`, "within cidr"},

	{"monitoring", `monitoring: {enabled: true, interval: 1m30s, labels: {release: prometheus}}`, ""},
	{"monitoring never", `monitoring: {enabled: true, interval: never}`, "interval"},
	{"monitoring as another's", `monitoring: {enabled: true, labels: {app.kubernetes.io/managed-by: helm}}`, "none of the operator's own"},
}
