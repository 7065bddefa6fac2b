package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/platform-operator/platform-operator/apis/common"
)

func TestLoad(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want func(*Platform)
	}{
		"empty":         {"", func(*Platform) {}},
		"only comments": {"# nothing is decided here\n", func(*Platform) {}},
		"version alone": {"apiVersion: platform-operator.io/config/v1\n", func(*Platform) {}},
		"one field keeps the others": {
			"webServer: {nodePort: 31000}\n", func(p *Platform) { p.WebServer.NodePort = 31000 },
		},
		"zero leaves the choice to Kubernetes": {
			"webServer: {nodePort: 0}\n", func(p *Platform) { p.WebServer.NodePort = 0 },
		},
		"another list replaces the default": {
			"serviceTypes: [ClusterIP, NodePort]\n", func(p *Platform) { p.ServiceTypes = []corev1.ServiceType{"ClusterIP", "NodePort"} },
		},
		"everything": {
			`apiVersion: platform-operator.io/config/v1
kinds: [WebServer]
watchNamespaces: [team-a, team-b]
workers: 3
featureGates: {ReadYourWrites: false, PodMonitors: true}
images:
  allowed: [registry.example, docker.io/library, "localhost:5000", registry.example:8443/team/]
  latest: Refuse
  pull: Always
maxReplicas: 50
sharedRollouts: 0
nodePortRange: {from: 20000, to: 20010}
serviceTypes: [ClusterIP, LoadBalancer]
gateways:
- {namespace: gateways, name: public}
- {namespace: gateways, name: internal.v2, from: [team-*, "*-test", ops]}
hosts:
- {namespaces: [team-a], hosts: ["*.a.example.com", shop.example.com]}
- {namespaces: ["*"], hosts: ["*"]}
annotations: [cert-manager.io/issuer, example.com/*, plain]
priorityClasses: [batch-*, low]
ingressClasses: [internal]
loadBalancerClasses: [example.com/lb]
deletionPolicies: [Delete]
pods:
  annotations: [sidecar.istio.io/*]
  labels: [team, app.kubernetes.io/*]
  unlistedKeys: Refuse
  runtimeClasses: [gvisor]
  tolerations: [dedicated]
  initContainers: true
  leastProfile: Restricted
  maxTerminationGracePeriodSeconds: 600
  drainSeconds: 20
  tolerationSeconds: 60
  userNamespaces: true
  maxEmptyDirSize: 1Gi
serviceAccounts: true
restartOnSecretChange: true
metrics: {namespaces: false}
webServer: {serviceType: ClusterIP, nodePort: 20010, exporterImage: registry.example/exporter:1}
memcached: {image: "registry.example/memcached:1.6"}
defaults:
- {kinds: [WebServer], namespaces: [team-*], spec: {rollout: {minReadySeconds: 5}, pod: {labels: {team: a}}}}
- {spec: {service: {type: ClusterIP}}}
`,
			func(p *Platform) {
				*p = Platform{
					APIVersion: Version, Kinds: []string{"WebServer"}, WatchNamespaces: []string{"team-a", "team-b"}, Workers: 3,
					FeatureGates: map[Feature]bool{ReadYourWrites: false, PodMonitors: true},
					Images: Images{
						Allowed: []string{"registry.example", "docker.io/library", "localhost:5000", "registry.example:8443/team/"},
						Latest:  LatestRefuse, Pull: PullAlways,
					},
					MaxReplicas: 50, SharedRollouts: 0, NodePortRange: PortRange{From: 20000, To: 20010},
					ServiceTypes: []corev1.ServiceType{"ClusterIP", "LoadBalancer"},
					Gateways: []Gateway{
						{Namespace: "gateways", Name: "public"},
						{Namespace: "gateways", Name: "internal.v2", From: []string{"team-*", "*-test", "ops"}},
					},
					Hosts: []Hosts{
						{Namespaces: []string{"team-a"}, Hosts: []string{"*.a.example.com", "shop.example.com"}},
						{Namespaces: []string{"*"}, Hosts: []string{"*"}},
					},
					Annotations:     []string{"cert-manager.io/issuer", "example.com/*", "plain"},
					PriorityClasses: []string{"batch-*", "low"},
					IngressClasses:  []string{"internal"}, LoadBalancerClasses: []string{"example.com/lb"},
					DeletionPolicies: []common.DeletionPolicy{common.DeletionPolicyDelete},
					Pods: Pods{
						Annotations: []string{"sidecar.istio.io/*"}, Labels: []string{"team", "app.kubernetes.io/*"}, UnlistedKeys: KeysRefuse,
						RuntimeClasses: []string{"gvisor"}, Tolerations: []string{"dedicated"}, LeastProfile: common.SecurityRestricted, InitContainers: true, UserNamespaces: true,
						MaxTerminationGracePeriodSeconds: 600, DrainSeconds: 20, TolerationSeconds: 60, MaxEmptyDirSize: resource.MustParse("1Gi"),
					},
					ServiceAccounts: true, RestartOnSecretChange: true,
					WebServer: WebServer{ServiceType: "ClusterIP", NodePort: 20010, ExporterImage: "registry.example/exporter:1"},
					Memcached: Memcached{Image: "registry.example/memcached:1.6"},
					Defaults: []Defaults{
						{
							Kinds: []string{"WebServer"}, Namespaces: []string{"team-*"},
							Spec: Spec{"rollout": map[string]any{"minReadySeconds": int64(5)}, "pod": map[string]any{"labels": map[string]any{"team": "a"}}},
						},
						{Spec: Spec{"service": map[string]any{"type": "ClusterIP"}}},
					},
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Load(write(t, tc.file))
			if err != nil {
				t.Fatal(err)
			}
			want := Default()
			tc.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLoad_ReturnsDefaultsWithoutAFile(t *testing.T) {
	got, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
}

func TestLoad_RejectsInvalidFiles(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		want []string // all of which the error must contain
	}{
		"unknown field":            {"webServer: {nodeport2: 1}\n", []string{"nodeport2"}},
		"unknown field at the top": {"webserverz: {}\n", []string{"webserverz"}},
		"field twice":              {"apiVersion: a\napiVersion: b\n", []string{"apiVersion"}},
		"wrong type":               {"webServer: {nodePort: thirty}\n", []string{"nodePort"}},
		"no YAML":                  {"a: [\n", []string{"platform.yaml"}},
		"key policy":               {"pods: {unlistedKeys: Deny}\n", []string{`pods.unlistedKeys is "Deny", must be Allow or Refuse`}},
		"no key":                   {"pods: {annotations: [a b], labels: [\"\"], tolerations: [a/b/c]}\n", []string{"pods.annotations[0]", "pods.labels[0]", "pods.tolerations[0]"}},
		"no classes":               {"{pods: {runtimeClasses: [A]}, ingressClasses: [\"\"], loadBalancerClasses: [a b]}\n", []string{"pods.runtimeClasses[0]", "ingressClasses[0]", "loadBalancerClasses[0]"}},
		"defaults": {
			`defaults: [{}, {namespaces: [Team], spec: {pod: {labels: null}, resources: null}}, {spec: {replicas: 2, service: {nodePort: 1}, pod: 5}}]`,
			[]string{
				"defaults[0].spec is empty", `defaults[1].namespaces[0] is "Team"`, "defaults[1].spec is empty, must have one of networkPolicy, pod.labels",
				"defaults[2].spec.pod cannot", "defaults[2].spec.replicas cannot be a default: use networkPolicy", "defaults[2].spec.service.nodePort cannot",
			},
		},
		"profile":                       {"pods: {leastProfile: Privileged}\n", []string{`pods.leastProfile is "Privileged", must be Baseline or Restricted`}},
		"drain":                         {"pods: {drainSeconds: 3601}\n", []string{"pods.drainSeconds is 3601, must be between 0 and 3600"}},
		"drain beyond the grace period": {"pods: {drainSeconds: 16, maxTerminationGracePeriodSeconds: 40}\n", []string{"pods.drainSeconds is 16, for which pods need a grace period of 41 seconds: pods.maxTerminationGracePeriodSeconds is 40"}},
		"toleration":                    {"pods: {tolerationSeconds: -1}\n", []string{"pods.tolerationSeconds is -1, must be between 0 and 3600"}},
		"grace period":                  {"pods: {maxTerminationGracePeriodSeconds: 0}\n", []string{"pods.maxTerminationGracePeriodSeconds is 0, must be between 1 and 86400"}},
		"size":                          {"pods: {maxEmptyDirSize: -1}\n", []string{"pods.maxEmptyDirSize is -1, must not be negative"}},
		"deletion policies":             {"deletionPolicies: [Orphan, Keep]\n", []string{`deletionPolicies[1] is "Keep", must be Delete or Orphan`, "deletionPolicies must contain Delete"}},
		"pull policy":                   {"images: {pull: Never}\n", []string{`images.pull is "Never", must be Any or Always`}},
		"another version":               {"apiVersion: platform-operator.io/config/v9\n", []string{"v9", Version}},
		"range from 0":                  {"nodePortRange: {from: 0, to: 10}\n", []string{"nodePortRange", "0-10"}},
		"range too high":                {"nodePortRange: {from: 30000, to: 65536}\n", []string{"nodePortRange", "65536"}},
		"range backwards":               {"nodePortRange: {from: 32767, to: 30000}\n", []string{"nodePortRange", "from first"}},
		"service type":                  {"webServer: {serviceType: ExternalName}\n", []string{"webServer.serviceType", "ExternalName", "LoadBalancer"}},
		"empty service type":            {"webServer: {serviceType: ''}\n", []string{"webServer.serviceType"}},
		"node port below":               {"webServer: {nodePort: 29999}\n", []string{"webServer.nodePort", "29999", "30000-32767"}},
		"node port above":               {"webServer: {nodePort: 32768}\n", []string{"webServer.nodePort", "32768"}},
		"watched namespace":             {"watchNamespaces: [Team_A]\n", []string{"watchNamespaces[0]", "Team_A"}},
		"all, as an empty string":       {"watchNamespaces: ['']\n", []string{"watchNamespaces[0]"}},
		"watched twice":                 {"watchNamespaces: [a, b, a]\n", []string{"watchNamespaces[2]", "second time"}},
		"no worker":                     {"workers: 0\n", []string{"workers is 0", "between 1 and 100"}},
		"too many workers":              {"workers: 101\n", []string{"workers is 101"}},
		"feature that there is not":     {"featureGates: {Flying: true}\n", []string{"featureGates", "Flying", "ReadYourWrites"}},
		"feature on in other words":     {"featureGates: {ReadYourWrites: sometimes}\n", []string{"featureGates"}},
		"latest":                        {"images: {latest: Never}\n", []string{"images.latest", "Never", "Allow, Warn or Refuse"}},
		"latest, empty":                 {"images: {latest: ''}\n", []string{"images.latest"}},
		"registry, empty":               {"images: {allowed: ['']}\n", []string{"images.allowed[0]", "registry.example"}},
		"registry with a scheme":        {"images: {allowed: [a.b, 'https://registry.example']}\n", []string{"images.allowed[1]", "https://registry.example"}},
		"registry with a digest":        {"images: {allowed: ['a.b/c@sha256:00']}\n", []string{"images.allowed[0]"}},
		"registry with a tag":           {"images: {allowed: ['a.b/c:1']}\n", []string{"images.allowed[0]", "without scheme, tag"}},
		"registry with a pattern":       {"images: {allowed: ['*']}\n", []string{"images.allowed[0]"}},
		"registry that is a folder":     {"images: {allowed: [library]}\n", []string{"images.allowed[0]", "docker.io/library"}},
		"registry with a space":         {"images: {allowed: ['a.b/c d']}\n", []string{"images.allowed[0]"}},
		"registry by its other name":    {"images: {allowed: [index.docker.io/library]}\n", []string{"images.allowed[0]", "must begin with docker.io"}},
		"fewer than no rollouts":        {"sharedRollouts: -1\n", []string{"sharedRollouts is -1"}},
		"no replicas":                   {"maxReplicas: 0\n", []string{"maxReplicas is 0", "between 1 and 10000"}},
		"more than the kinds take":      {"maxReplicas: 10001\n", []string{"maxReplicas is 10001"}},
		"no service type":               {"serviceTypes: []\n", []string{"serviceTypes", "ClusterIP"}},
		"another service type":          {"serviceTypes: [ClusterIP, NodePort, ExternalName]\n", []string{"serviceTypes[2]", "ExternalName", "ClusterIP, NodePort or LoadBalancer"}},
		"without ClusterIP":             {"serviceTypes: [NodePort]\n", []string{"serviceTypes must hold ClusterIP"}},
		"preference that is forbidden":  {"serviceTypes: [ClusterIP]\n", []string{"webServer.serviceType", "NodePort", "one of serviceTypes: ClusterIP"}},
		"annotation of no key":          {"annotations: [example.com/a, '']\n", []string{"annotations[1]", "example.com/*"}},
		"annotation with a space":       {"annotations: ['a b']\n", []string{"annotations[0]", "a b"}},
		"annotation with two slashes":   {"annotations: [a/b/c]\n", []string{"annotations[0]", "a/b/c"}},
		"priority class of no name":     {"priorityClasses: ['']\n", []string{"priorityClasses[0]"}},
		"priority class, broken":        {"priorityClasses: ['a[']\n", []string{"priorityClasses[0]", "a["}},
		"Gateway of no namespace":       {"gateways: [{name: g}]\n", []string{"gateways[0].namespace"}},
		"Gateway of all namespaces":     {"gateways: [{name: g, namespace: '*'}]\n", []string{"gateways[0].namespace", "*"}},
		"Gateway of no name":            {"gateways: [{namespace: g}]\n", []string{"gateways[0].name"}},
		"Gateway for no namespace":      {"gateways: [{namespace: g, name: g, from: [a, '']}]\n", []string{"gateways[0].from[1]"}},
		"Gateway for a broken pattern":  {"gateways: [{namespace: g, name: g, from: ['a[']}]\n", []string{"gateways[0].from[0]", "a["}},
		"Gateway for one of a range":    {"gateways: [{namespace: g, name: g, from: ['team-?']}]\n", []string{"gateways[0].from[0]"}},
		"Gateway, another field":        {"gateways: [{namespace: g, name: g, to: [a]}]\n", []string{"to"}},
		"hosts of no namespace":         {"hosts: [{hosts: [a.b]}]\n", []string{"hosts[0].namespaces is empty"}},
		"hosts of a bad namespace":      {"hosts: [{namespaces: [Team_A], hosts: [a.b]}]\n", []string{"hosts[0].namespaces[0]", "Team_A"}},
		"no hosts":                      {"hosts: [{namespaces: [a]}]\n", []string{"hosts[0].hosts is empty"}},
		"host in upper case":            {"hosts: [{namespaces: [a], hosts: [a.b, A.b]}]\n", []string{"hosts[0].hosts[1]", "A.b", "lower case"}},
		"host with * inside":            {"hosts: [{namespaces: [a], hosts: ['a.*.b']}]\n", []string{"hosts[0].hosts[0]", "a.*.b"}},
		"host with a port":              {"hosts: [{namespaces: [a], hosts: ['a.b:80']}]\n", []string{"hosts[0].hosts[0]"}},
		"host, empty":                   {"hosts: [{namespaces: [a], hosts: ['']}]\n", []string{"hosts[0].hosts[0]"}},
		"host of nothing":               {"hosts: [{namespaces: [a], hosts: ['*.']}]\n", []string{"hosts[0].hosts[0]"}},
		"no exporter":                   {"webServer: {exporterImage: ''}\n", []string{"webServer.exporterImage", "memcached:1.6"}},
		"no image for caches":           {"memcached: {image: ''}\n", []string{"memcached.image"}},
		"image with a line's end":       {"memcached: {image: \"memcached:1.6\\n\"}\n", []string{"memcached.image"}},
		"default node port out of another range": {
			"nodePortRange: {from: 20000, to: 20010}\n", []string{"webServer.nodePort", "30010", "20000-20010"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, tc.file)
			_, err := Load(path)
			if err == nil {
				t.Fatal("it was accepted")
			}
			for _, w := range append(tc.want, path) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("error %q does not name %q", err, w)
				}
			}
		})
	}
}

// All errors are reported together, so that the file has to be corrected only
// once.
func TestLoad_ReportsAllErrorsTogether(t *testing.T) {
	path := write(t, `apiVersion: v0
watchNamespaces: [A]
workers: 0
featureGates: {B: true, A: true}
images: {allowed: ["*", "http://a.b"], latest: No}
maxReplicas: -1
nodePortRange: {from: 2, to: 1}
serviceTypes: [X]
gateways: [{from: [""]}]
hosts: [{hosts: [""]}, {namespaces: [""]}]
webServer: {serviceType: Y, nodePort: 7, exporterImage: ""}
memcached: {image: ""}
`)
	want := []string{
		"platform configuration " + path + ": apiVersion is", "watchNamespaces[0]", "workers", "featureGates has \"A\"", "featureGates has \"B\"",
		"images.allowed[0]", "images.allowed[1]", "images.latest", "maxReplicas", "nodePortRange", "serviceTypes[0]", "serviceTypes must",
		"webServer.serviceType", "webServer.nodePort", "gateways[0].namespace", "gateways[0].name", "gateways[0].from[0]",
		"hosts[0].namespaces is", "hosts[0].hosts[0]", "hosts[1].namespaces[0]", "hosts[1].hosts is", "webServer.exporterImage", "memcached.image",
	}
	for range 20 { // the order of the errors must not depend on the iteration order of maps
		_, err := Load(path)
		if err == nil {
			t.Fatal("it was accepted")
		}
		lines := strings.Split(err.Error(), "\n")
		if len(lines) != len(want) {
			t.Fatalf("got %d lines, want %d:\n%v", len(lines), len(want), err)
		}
		for i, l := range lines {
			if !strings.HasPrefix(l, want[i]) {
				t.Fatalf("line %d is %q, want %s…", i, l, want[i])
			}
		}
	}
}

func TestLoad_NamesTheMissingFile(t *testing.T) {
	if _, err := Load("/nowhere/platform.yaml"); err == nil || !strings.Contains(err.Error(), "/nowhere/platform.yaml") {
		t.Errorf("got %v, want the path in it", err)
	}
}

func TestPlatform_ZeroValueIsInvalid(t *testing.T) {
	if err := (Platform{}).Validate(); err == nil {
		t.Error("it is accepted: a Platform made without Default would go unnoticed")
	}
}

func TestPortRange_ContainsBothEnds(t *testing.T) {
	r := PortRange{From: 10, To: 12}
	for port, want := range map[int32]bool{9: false, 10: true, 11: true, 12: true, 13: false} {
		if got := r.Contains(port); got != want {
			t.Errorf("%d: got %v, want %v", port, got, want)
		}
	}
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "platform.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
