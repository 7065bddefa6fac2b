//go:build chart

package charts_test

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks"
)

// refusedValues are values with which the operator would exit when it starts. The operator and
// the chart must refuse each of them.
var refusedValues = map[string]string{
	"version":                    "config: {apiVersion: platform-operator.io/config/v2}",
	"unknown field":              "config: {image: {}}",
	"wrong type":                 "config: {workers: many}",
	"kind":                       "config: {kinds: [webserver]}",
	"namespace twice":            "config: {watchNamespaces: [team-a, team-a]}",
	"no workers":                 "config: {workers: 0}",
	"too many workers":           "config: {workers: 101}",
	"feature":                    "config: {featureGates: {Flying: true}}",
	"latest":                     "config: {images: {latest: Never}}",
	"pull":                       "config: {images: {pull: Never}}",
	"shared rollouts":            "config: {sharedRollouts: -1}",
	"many shared rollouts":       "config: {sharedRollouts: 2147483648}",
	"no replicas":                "config: {maxReplicas: 0}",
	"too many replicas":          "config: {maxReplicas: 10001}",
	"port 0":                     "config: {nodePortRange: {from: 0}}",
	"port 65536":                 "config: {nodePortRange: {to: 65536}}",
	"ports that end first":       "config: {nodePortRange: {from: 31000, to: 30999}, webServer: {nodePort: 0}}",
	"type of Service":            "config: {serviceTypes: [ClusterIP, NodePort, ExternalName]}",
	"no ClusterIP":               "config: {serviceTypes: [NodePort]}",
	"unknown default type":       "config: {webServer: {serviceType: ExternalName}}",
	"default type not allowed":   "config: {serviceTypes: [ClusterIP]}",
	"preferred port below range": "config: {webServer: {nodePort: 80}}",
	"preferred port above range": "config: {nodePortRange: {to: 30009}}",
	"host of no namespace":       "config: {hosts: [{namespaces: [], hosts: [a.example]}]}",
	"no hosts":                   "config: {hosts: [{namespaces: [team-a], hosts: []}]}",
	"keys":                       "config: {pods: {unlistedKeys: Warn}}",
	"profile":                    "config: {pods: {leastProfile: Privileged}}",
	"no grace period":            "config: {pods: {maxTerminationGracePeriodSeconds: 0}}",
	"long grace period":          "config: {pods: {maxTerminationGracePeriodSeconds: 86401}}",
	"negative drain":             "config: {pods: {drainSeconds: -1}}",
	"long drain":                 "config: {pods: {drainSeconds: 3601}}",
	"negative toleration":        "config: {pods: {tolerationSeconds: -1}}",
	"long toleration":            "config: {pods: {tolerationSeconds: 86401}}",
	"drain beyond grace period":  "config: {pods: {drainSeconds: 100, maxTerminationGracePeriodSeconds: 124}}",
	"negative size":              "config: {pods: {maxEmptyDirSize: -1}}",
	"negative size with unit":    "config: {pods: {maxEmptyDirSize: -1Gi}}",
	"unknown unit":               "config: {pods: {maxEmptyDirSize: 1GB}}",
	"deletion policy":            "config: {deletionPolicies: [Delete, Keep]}",
	"no Delete":                  "config: {deletionPolicies: [Orphan]}",
	"no exporter":                `config: {webServer: {exporterImage: ""}}`,
	"exporter":                   "config: {webServer: {exporterImage: an image}}",
	"judge":                      `config: {pods: {judgeImage: an image}}`,
	"cache":                      `config: {memcached: {image: "memcached:1.6\n"}}`,
	"kind of defaults":           "config: {defaults: [{kinds: [Webserver], spec: {networkPolicy: {preset: Isolated}}}]}",
	"namespace of defaults":      "config: {defaults: [{namespaces: [Team], spec: {networkPolicy: {preset: Isolated}}}]}",
	"no defaults":                "config: {defaults: [{spec: {}}]}",
	"no labels":                  "config: {defaults: [{spec: {pod: {}}}]}",
	"replicas":                   "config: {defaults: [{kinds: [WebServer], spec: {replicas: 2}}]}",
	"tolerations":                "config: {defaults: [{spec: {pod: {tolerations: []}}}]}",
	"node port of defaults":      "config: {defaults: [{kinds: [WebServer], spec: {service: {nodePort: 30011}}}]}",
	"defaults of other kinds":    "config: {defaults: [{spec: {probes: {readiness: {tcpSocket: {port: 80}}}}}]}",
	"type of headless Service":   "config: {defaults: [{kinds: [Memcached], spec: {service: {type: ClusterIP}}}]}",
	"misspelled field":           "config: {defaults: [{spec: {resources: {request: {cpu: 1m}}}}]}",
	"word for a number":          "config: {defaults: [{kinds: [WebServer], spec: {rollout: {minReadySeconds: ten}}}]}",
	"part of a number":           "config: {defaults: [{kinds: [WebServer], spec: {rollout: {minReadySeconds: 1.5}}}]}",
	"number for a word":          "config: {defaults: [{kinds: [WebServer], spec: {rollout: {onFailure: 1}}}]}",
	"list for an object":         "config: {defaults: [{spec: {resources: []}}]}",
	"object for a list":          "config: {defaults: [{spec: {networkPolicy: {preset: Isolated, from: {}}}}]}",
	"number too large":           "config: {defaults: [{kinds: [WebServer], spec: {rollout: {revisionHistoryLimit: 51}}}]}",
	"number too small":           "config: {defaults: [{spec: {security: {runAsUser: 0}}}]}",
	"not one of the words":       "config: {defaults: [{spec: {networkPolicy: {preset: Open}}}]}",
	"required field":             "config: {defaults: [{spec: {networkPolicy: {}}}]}",
	"pattern":                    "config: {defaults: [{kinds: [WebServer], spec: {podDisruptionBudget: {minAvailable: 100%}}}]}",
	"memory of a cache":          "config: {defaults: [{spec: {resources: {requests: {memory: 64Mi}}}}]}",
	"memory limit of a cache":    "config: {defaults: [{kinds: [Memcached], spec: {resources: {limits: {memory: 64Mi}}}}]}",
	"quantity":                   "config: {defaults: [{spec: {resources: {requests: {cpu: much}}}}]}",
	"part of a quantity":         "config: {defaults: [{spec: {resources: {requests: {cpu: 0.5}}}}]}",
	"label value":                "config: {defaults: [{spec: {pod: {labels: {a: b c}}}}]}",
	"label value, a number":      "config: {defaults: [{spec: {pod: {labels: {a: 1}}}}]}",
	"long label value":           "config: {defaults: [{spec: {pod: {labels: {a: " + strings.Repeat("b", 64) + "}}}}]}",
	"two budgets":                "config: {defaults: [{kinds: [WebServer], spec: {podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}}]}",
	"no budget":                  "config: {defaults: [{kinds: [WebServer], spec: {podDisruptionBudget: {}}}]}",
	"probe without an action":    "config: {defaults: [{kinds: [WebServer], spec: {probes: {readiness: {periodSeconds: 5}}}}]}",
	"no command":                 "config: {defaults: [{kinds: [WebServer], spec: {probes: {readiness: {exec: {command: []}}}}}]}",
	"late renewal":               "webhooks: {certificates: {renewBefore: 59m59s}}",
	"no validity":                "webhooks: {certificates: {validity: 30m, renewBefore: 1h}}",
	"early renewal":              "webhooks: {certificates: {validity: 24h, renewBefore: 1440m}}",
	"long validity":              "webhooks: {certificates: {validity: 87599h1s}}",
	"overflow":                   "webhooks: {certificates: {validity: 9999999h}}",
	"no duration":                "webhooks: {certificates: {validity: 90d}}",
	"duration null":              "webhooks: {certificates: {renewBefore: null}}",
	"webhooks null":              "webhooks: {enabled: null}",
	"log level":                  "log: {level: loud}",
	"log format":                 "log: {format: text}",
	"log format null":            "log: {format: null}",
}

// acceptedValues are values at the limits, which neither may refuse.
var acceptedValues = map[string]string{
	"maximums": `
config:
  workers: 100
  maxReplicas: 10000
  sharedRollouts: 2147483647
  nodePortRange: {from: 1, to: 65535}
  webServer: {nodePort: 65535}
  pods: {drainSeconds: 3600, maxTerminationGracePeriodSeconds: 3625, maxEmptyDirSize: 1.5Gi}
webhooks: {certificates: {validity: 87599h, renewBefore: 60m}}`,
	"minimums": `
config:
  workers: 1
  maxReplicas: 1
  sharedRollouts: 0
  nodePortRange: {from: 30010, to: 30010}
  pods: {drainSeconds: 0, maxTerminationGracePeriodSeconds: 1, maxEmptyDirSize: 10737418240}
webhooks: {certificates: {validity: 1h0m1s, renewBefore: 1h}}`,
	"defaults": `
config:
  kinds: [WebServer, DemoApplication]
  defaults:
  - kinds: [WebServer]
    namespaces: [team-*]
    spec:
      resources: {requests: {cpu: 500m, memory: 64Mi}, limits: {cpu: 1, example.com/gpu: 1}}
      probes: {readiness: {httpGet: {port: http, httpHeaders: [{name: A, value: b}]}, periodSeconds: 86400}, liveness: {exec: {command: [/bin/true]}}}
      networkPolicy: {preset: Isolated, from: [{namespaceSelector: {}}, {ipBlock: {cidr: 10.0.0.0/8}}]}
      rollout: {maxSurge: 50%, maxUnavailable: 0, revisionHistoryLimit: 50}
  - spec:
      podDisruptionBudget: {maxUnavailable: 10%}
      security: {profile: Restricted, runAsUser: 1}
      service: {type: ClusterIP}
      pod: {labels: {team: "", example.com/tier: b.c}}
  - spec: {podDisruptionBudget: {minAvailable: 2}, resources: {}, rollout: {}, probes: {}}`,
	"without webhooks": "webhooks: {enabled: false, certificates: {validity: 1h}}",
}

func TestValues_RefusedByTheOperatorAreRefusedByTheChart(t *testing.T) {
	t.Parallel()
	said := make(chan string, 100*len(refusedValues))
	t.Run("values", func(t *testing.T) {
		for name, values := range refusedValues {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				err := startsWith(t, values)
				if err == nil {
					t.Fatal("the operator does not refuse them: the case shows nothing")
				}
				said <- err.Error()
				if _, err := renderValues(t, values); err == nil {
					t.Errorf("the chart accepts what the operator refuses: %s", values)
				}
			})
		}
		for name, values := range acceptedValues {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if err := startsWith(t, values); err != nil {
					t.Errorf("the operator refuses the limits: %v", err)
				}
				if stderr, err := renderValues(t, values); err != nil {
					t.Errorf("the chart refuses what the operator accepts: %s", stderr)
				}
			})
		}
	})
	said <- startsWith(t, wordValues()).Error()
	close(said)
	var all []string
	for message := range said {
		all = append(all, strings.Split(message, "\n")...)
	}
	for _, format := range refusals(t) {
		if !slices.ContainsFunc(all, regexp.MustCompile(format).MatchString) {
			t.Errorf("no case shows that the chart refuses what the operator refuses with %q", format)
		}
	}
}

// words are values of lists. Each list gets all of them.
var words = []string{
	"a", "team-a", "example.com", "example.com/key", "example.com/*", "*", "*.example.com", "team-*", "registry.example", "registry.example/team",
	"", " ", "A", "-", "-a", "a-", ".", ".a", "a.", "a..b", "a_b", "a/b", "a//b", "/", "/a", "a/", "a b", "a\n", "\na", "ä", "?", "[a]", "a?", "**",
	"*.*", "*.", "*a.example", "a.*.example", "https://registry.example", "registry.example:5000/team", "registry.example/team:1", "index.docker.io",
	"index.docker.io/library", "docker.io", "localhost", "localhost:5000", "library", "1.2.3.4", strings.Repeat("a", 63), strings.Repeat("a", 64),
	strings.Repeat("a", 253), strings.Repeat("a", 254), "a." + strings.Repeat("a", 251), strings.Repeat("a.", 126) + "ab", "*." + strings.Repeat("a.", 126) + "ab", "9a", "a9",
}

// lists are the lists of words in the platform configuration, and those in lists of
// objects, with the path of one in messages of the operator, and in those of Helm.
var lists = map[string]struct{ operator, helm string }{
	"watchNamespaces":      {},
	"images.allowed":       {},
	"annotations":          {},
	"priorityClasses":      {},
	"ingressClasses":       {},
	"loadBalancerClasses":  {},
	"pods.annotations":     {},
	"pods.labels":          {},
	"pods.runtimeClasses":  {},
	"pods.tolerations":     {},
	"gateways[].namespace": {"gateways[%d].namespace", "gateways/%d/namespace"},
	"gateways[].name":      {"gateways[%d].name", "gateways/%d/name"},
	"gateways[0].from":     {"gateways[0].from[%d]", "gateways/0/from/%d"},
	"hosts[0].namespaces":  {"hosts[0].namespaces[%d]", "hosts/0/namespaces/%d"},
	"hosts[0].hosts":       {"hosts[0].hosts[%d]", "hosts/0/hosts/%d"},
}

// wordValues are values in which each list has all words.
func wordValues() string {
	var gateways []any
	for _, w := range words {
		gateways = append(gateways, map[string]any{"namespace": w, "name": w, "from": words})
	}
	raw, err := yaml.Marshal(map[string]any{"config": map[string]any{
		"watchNamespaces": words, "annotations": words, "priorityClasses": words, "ingressClasses": words, "loadBalancerClasses": words,
		"images":   map[string]any{"allowed": words},
		"pods":     map[string]any{"annotations": words, "labels": words, "runtimeClasses": words, "tolerations": words},
		"gateways": gateways,
		"hosts":    []any{map[string]any{"namespaces": words, "hosts": words}},
	}})
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// Each word of each list is refused by both, or by neither.
func TestValues_WordsAreRefusedByBoth(t *testing.T) {
	t.Parallel()
	values := wordValues()
	err := startsWith(t, values)
	if err == nil {
		t.Fatal("the operator refuses no word")
	}
	stderr, _ := renderValues(t, values)
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		l := lists[name]
		l.operator, l.helm = cmp.Or(l.operator, name+"[%d]"), cmp.Or(l.helm, strings.ReplaceAll(name, ".", "/")+"/%d")
		refusals := 0
		for i, w := range words {
			operator := strings.Contains(err.Error(), fmt.Sprintf(l.operator, i)+" is ")
			chart := strings.Contains(stderr, "'/config/"+fmt.Sprintf(l.helm, i)+"'")
			if operator {
				refusals++
			}
			if operator != chart {
				t.Errorf("%s: the operator refuses %q: %t, and the chart: %t", name, w, operator, chart)
			}
		}
		if refusals == 0 || refusals == len(words) {
			t.Errorf("%s: the operator refuses %d of %d words: the test shows nothing", name, refusals, len(words))
		}
	}
}

// startsWith returns the error with which the operator exits if the chart, which does not
// have to accept the values, is installed with them.
func startsWith(t *testing.T, values string) error {
	t.Helper()
	var defaults, given map[string]any
	readYAML(t, filepath.Join(chart, "values.yaml"), &defaults)
	if err := yaml.Unmarshal([]byte(values), &given); err != nil {
		t.Fatal(err)
	}
	merged := coalesce(defaults, given)
	raw, err := yaml.Marshal(merged["config"])
	if err != nil {
		t.Fatal(err)
	}
	platform, err := config.Parse(raw, "values")
	errs := []error{err, controllers.CheckNames(platform.Kinds), webhooks.CheckDefaults(platform)}
	admission, _ := merged["webhooks"].(map[string]any)
	enabled, err := strconv.ParseBool(fmt.Sprint(admission["enabled"]))
	errs = append(errs, err)
	if enabled {
		lifetimes := certificates.DefaultLifetimes()
		for key, d := range map[string]*time.Duration{"validity": &lifetimes.Validity, "renewBefore": &lifetimes.RenewBefore} {
			*d, err = time.ParseDuration(fmt.Sprint(admission["certificates"].(map[string]any)[key]))
			errs = append(errs, err)
		}
		errs = append(errs, lifetimes.Validate())
	}
	log := merged["log"].(map[string]any)
	if !slices.Contains([]any{"debug", "info", "error"}, log["level"]) {
		errs = append(errs, fmt.Errorf("--log-level %q must be debug, info or error", log["level"]))
	}
	if !slices.Contains([]any{"json", "console"}, log["format"]) {
		errs = append(errs, fmt.Errorf("--log-format %q must be json or console", log["format"]))
	}
	return errors.Join(errs...)
}

// coalesce merges values into defaults, as Helm does: null removes a default.
func coalesce(defaults, values map[string]any) map[string]any {
	all := maps.Clone(defaults)
	for k, v := range values {
		below, isMap := v.(map[string]any)
		was, wasMap := all[k].(map[string]any)
		switch {
		case v == nil:
			delete(all, k)
		case isMap && wasMap:
			all[k] = coalesce(was, below)
		default:
			all[k] = v
		}
	}
	return all
}

func renderValues(t *testing.T, values string) (stderr string, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, []byte(values), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, err = run(tool(t, "HELM", "helm"), slices.Concat([]string{"template", "platform-operator", chart, "--namespace", namespace, "-f", file}, image)...)
	return stderr, err
}

// refusals returns patterns of all messages with which the operator refuses its
// configuration and the flags that the chart sets, from the source code.
func refusals(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, in := range []struct{ file, function, call string }{
		{"../pkg/config/validate.go", "", "add"},
		{"../pkg/config/pods.go", "", "add"},
		{"../pkg/config/defaults.go", "", "add"},
		{"../webhooks/defaults.go", "CheckDefaults", "Errorf"},
		{"../pkg/certificates/material.go", "Validate", "Errorf"},
		{"../controllers/setup.go", "CheckNames", "Errorf"},
		{"../cmd/platform-operator/run.go", "run", "Errorf"},
	} {
		n := len(all)
		source, err := parser.ParseFile(gotoken.NewFileSet(), in.file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range source.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || in.function != "" && f.Name.Name != in.function {
				continue
			}
			ast.Inspect(f, func(node ast.Node) bool {
				call, ok := node.(*ast.CallExpr)
				if !ok || len(call.Args) == 0 {
					return true
				}
				s, isMethod := call.Fun.(*ast.SelectorExpr)
				l, isText := call.Args[0].(*ast.BasicLit)
				if !isMethod || !isText || s.Sel.Name != in.call {
					return true
				}
				format, err := strconv.Unquote(l.Value)
				if err != nil {
					t.Fatal(err)
				}
				if in.function != "run" || strings.HasPrefix(format, "--") { // the others are not about flags
					all = append(all, regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(format), ".*"))
				}
				return true
			})
		}
		if len(all) == n {
			t.Errorf("%s has no refusals: has it moved?", in.file)
		}
	}
	return all
}
