package resources

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

var (
	labels   = map[string]string{"app": "web", "part": "child"}
	selector = map[string]string{"app": "web"}
)

func read[T any](t *testing.T, spec string) *T {
	t.Helper()
	v := new(T)
	if err := yaml.UnmarshalStrict([]byte(spec), v); err != nil {
		t.Fatal(err)
	}
	return v
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// specOf returns the spec of the child as it would be sent, and checks the
// rest.
func specOf(t *testing.T, in apply.Intent, kind string) string {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}
	raw, err := in.Object(owner, metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if err != nil {
		t.Fatal(err)
	}
	var o struct {
		metav1.PartialObjectMetadata
		Spec json.RawMessage
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	if o.Kind != kind || o.Name != "web" || o.Namespace != "ns" {
		t.Errorf("%s %s/%s, want %s ns/web", o.Kind, o.Namespace, o.Name, kind)
	}
	for k, v := range labels {
		if o.Labels[k] != v {
			t.Errorf("label %s is %q, want %q", k, o.Labels[k], v)
		}
	}
	return string(o.Spec)
}

func TestPodDisruptionBudget(t *testing.T) {
	const one = `"maxUnavailable":1`
	for name, tc := range map[string]struct {
		spec     string
		replicas int32
		covered  string
		want     string // "": none
		keep     string // the annotation
	}{
		"default":                                {replicas: 3, want: one},
		"default of one replica":                 {replicas: 1, want: one, keep: "1"},
		"default of none":                        {},
		"default where another selects the pods": {replicas: 3, covered: "theirs"},
		"one replica where another selects it":   {replicas: 1, covered: "theirs"},
		"asked for in addition to another":       {spec: `maxUnavailable: 1`, replicas: 3, covered: "theirs", want: one},
		"one replica that may be unavailable":    {spec: `maxUnavailable: 1`, replicas: 1, want: one},
		"one replica, none of which has to stay": {spec: `minAvailable: 0`, replicas: 1, want: `"minAvailable":0`},
		"maximum":                                {spec: `maxUnavailable: 2`, replicas: 3, want: `"maxUnavailable":2`},
		"maximum in percent":                     {spec: `maxUnavailable: 30%`, replicas: 3, want: `"maxUnavailable":"30%"`},
		"minimum":                                {spec: `minAvailable: 2`, replicas: 3, want: `"minAvailable":2`},
		"minimum in percent":                     {spec: `minAvailable: 50%`, replicas: 3, want: `"minAvailable":"50%"`},
		"minimum of all":                         {spec: `minAvailable: 3`, replicas: 3, want: one, keep: "3"},
		"minimum of more than all":               {spec: `minAvailable: 4`, replicas: 3, want: one, keep: "3"},
		"minimum that rounds to all":             {spec: `minAvailable: 90%`, replicas: 3, want: one, keep: "3"},
		"minimum of the only one":                {spec: `minAvailable: 1`, replicas: 1, want: one, keep: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec *common.PodDisruptionBudget
			if tc.spec != "" {
				spec = read[common.PodDisruptionBudget](t, tc.spec)
			}
			in, is := PodDisruptionBudget("web", "ns", labels, selector, spec, Disruption{Least: tc.replicas, Most: tc.replicas, Keep: KeepAvailable(spec, tc.replicas), Covered: tc.covered})
			if is != (tc.want != "") {
				t.Fatalf("there is one: %v", is)
			}
			if !is {
				return
			}
			got := decoded(t, json.RawMessage(specOf(t, in, "PodDisruptionBudget")))
			want := decoded(t, json.RawMessage(`{`+tc.want+`,"selector":{"matchLabels":{"app":"web"}},"unhealthyPodEvictionPolicy":"AlwaysAllow"}`))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			keep := ""
			if n := KeepAvailable(spec, tc.replicas); n > 0 {
				keep = strconv.Itoa(int(n))
			}
			if keep != tc.keep {
				t.Errorf("%q pods remain available, want %q", keep, tc.keep)
			}
		})
	}
}

func TestCovered(t *testing.T) {
	budget := func(name, selector string) policyv1.PodDisruptionBudget {
		b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if selector != "" {
			b.Spec.Selector = read[metav1.LabelSelector](t, selector)
		}
		return b
	}
	pods := map[string]string{"app": "web", "tier": "front"}
	for name, tc := range map[string]struct {
		others []policyv1.PodDisruptionBudget
		want   string
	}{
		"there is none":                {nil, ""},
		"it selects the pods":          {[]policyv1.PodDisruptionBudget{budget("a", `matchLabels: {tier: front}`)}, "a"},
		"it selects other pods":        {[]policyv1.PodDisruptionBudget{budget("a", `matchLabels: {tier: back}`)}, ""},
		"it selects fewer":             {[]policyv1.PodDisruptionBudget{budget("a", `matchLabels: {app: web, tier: front, x: y}`)}, ""},
		"it selects by an expression":  {[]policyv1.PodDisruptionBudget{budget("a", `matchExpressions: [{key: tier, operator: In, values: [back, front]}]`)}, "a"},
		"it excludes by an expression": {[]policyv1.PodDisruptionBudget{budget("a", `matchExpressions: [{key: app, operator: DoesNotExist}]`)}, ""},
		"it selects all":               {[]policyv1.PodDisruptionBudget{budget("a", `{}`)}, "a"},
		"it selects none":              {[]policyv1.PodDisruptionBudget{budget("a", "")}, ""},
		"several, in any order":        {[]policyv1.PodDisruptionBudget{budget("c", `{}`), budget("b", `{}`), budget("a", "")}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Covered(tc.others, pods); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// children returns one child of each kind, with every field that a user can
// set.
func children(t *testing.T) map[string]apply.Intent {
	t.Helper()
	budget, _ := PodDisruptionBudget("web", "ns", labels, selector, nil, Disruption{Least: 2, Most: 2})
	ports := []corev1ac.ContainerPortApplyConfiguration{
		*corev1ac.ContainerPort().WithContainerPort(80).WithProtocol(corev1.ProtocolTCP),
		*corev1ac.ContainerPort().WithContainerPort(53).WithProtocol(corev1.ProtocolUDP),
	}
	service := corev1ac.Service("web", "ns").WithLabels(labels).WithSpec(corev1ac.ServiceSpec().
		WithType(corev1.ServiceTypeLoadBalancer).WithSelector(selector).
		WithPorts(
			corev1ac.ServicePort().WithName("a").WithPort(53).WithProtocol(corev1.ProtocolTCP).WithTargetPort(intstr.FromInt32(53)),
			corev1ac.ServicePort().WithName("b").WithPort(53).WithProtocol(corev1.ProtocolUDP).WithTargetPort(intstr.FromInt32(53))))
	return map[string]apply.Intent{
		"PodDisruptionBudget": budget,
		"HorizontalPodAutoscaler": HorizontalPodAutoscaler("web", "ns", labels, "web", read[common.Autoscaling](t,
			`{minReplicas: 2, maxReplicas: 5, targetCPUUtilizationPercentage: 70, targetMemoryUtilizationPercentage: 80, metrics: [{type: Pods, name: requests_per_second, averageValue: 20}, {type: Object, name: requests, object: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}, value: 2k}, {type: External, name: queue, matchLabels: {queue: orders}, averageValue: 500m}], behavior: {scaleUp: {stabilizationWindowSeconds: 10, selectPolicy: Min, policies: [{type: Pods, value: 1, periodSeconds: 60}, {type: Percent, value: 10, periodSeconds: 30}]}, scaleDown: {selectPolicy: Disabled, tolerance: "0.05"}}}`)),
		"Ingress": Ingress("web", "ns", labels, "web-service", 80, "http", read[common.Expose](t,
			`{type: Ingress, hosts: [a.example.com, "*.example.com"], path: /app, ingress: {ingressClassName: nginx, tls: {secretRef: {name: cert}}, annotations: {a: b}}}`)),
		"HTTPRoute": HTTPRoute("web", "ns", labels, "web-service", 80, read[common.Expose](t,
			`{type: Gateway, hosts: [a.example.com, "*.example.com"], gateway: {parentRef: {name: public, namespace: gateways, sectionName: https}}}`)),
		"NetworkPolicy": NetworkPolicy("web", "ns", labels, selector, ports, read[common.NetworkPolicy](t,
			`{preset: Isolated, from: [{podSelector: {}}, {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchExpressions: [{key: a, operator: In, values: [b]}]}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}]}`)),
		"PodMonitor": PodMonitor("web", "ns", labels, selector, []string{"metrics"}, read[common.Monitoring](t,
			`{enabled: true, interval: 30s, labels: {release: prometheus, app: not-mine}}`)),
		"Service": Service(service, *read[common.ServiceOptions](t, `{annotations: {a: b}, loadBalancerClass: example.com/lb, externalTrafficPolicy: Local, sessionAffinity: ClientIP}`)),
	}
}

func TestChildren(t *testing.T) {
	for kind, in := range children(t) {
		t.Run(kind, func(t *testing.T) {
			doc, err := yaml.JSONToYAML([]byte(specOf(t, in, kind)))
			if err != nil {
				t.Fatal(err)
			}
			asFile(t, kind, string(doc))
		})
	}
}

func TestNetworkPolicy_AllowsIngress(t *testing.T) {
	tcp := []corev1ac.ContainerPortApplyConfiguration{*corev1ac.ContainerPort().WithContainerPort(80).WithProtocol(corev1.ProtocolTCP)}
	for name, tc := range map[string]struct {
		ports []corev1ac.ContainerPortApplyConfiguration
		want  string
	}{
		"the namespace":       {tcp, `{"podSelector":{"matchLabels":{"app":"web"}},"ingress":[{"ports":[{"protocol":"TCP","port":80}],"from":[{"podSelector":{}}]}],"policyTypes":["Ingress"]}`},
		"none without a port": {nil, `{"podSelector":{"matchLabels":{"app":"web"}},"policyTypes":["Ingress"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			in := NetworkPolicy("web", "ns", labels, selector, tc.ports, &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated})
			if diff := cmp.Diff(tc.want, specOf(t, in, "NetworkPolicy")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestNetworkPolicyOfAnyPort_AllowsIngress(t *testing.T) {
	in := NetworkPolicyOfAnyPort("web", "ns", labels, selector, &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated})
	want := `{"podSelector":{"matchLabels":{"app":"web"}},"ingress":[{"from":[{"podSelector":{}}]}],"policyTypes":["Ingress"]}`
	if diff := cmp.Diff(want, specOf(t, in, "NetworkPolicy")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestService_StatesOnlyFieldsOfItsType(t *testing.T) {
	for kind, want := range map[corev1.ServiceType]string{
		corev1.ServiceTypeClusterIP:    `{"type":"ClusterIP","sessionAffinity":"None"}`,
		corev1.ServiceTypeNodePort:     `{"type":"NodePort","sessionAffinity":"None","externalTrafficPolicy":"Local"}`,
		corev1.ServiceTypeLoadBalancer: `{"type":"LoadBalancer","sessionAffinity":"None","externalTrafficPolicy":"Local","loadBalancerClass":"c"}`,
	} {
		t.Run(string(kind), func(t *testing.T) {
			s := corev1ac.Service("web", "ns").WithSpec(corev1ac.ServiceSpec().WithType(kind))
			Service(s, common.ServiceOptions{ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, LoadBalancerClass: "c"})
			if diff := cmp.Diff(want, jsonOf(t, s.Spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestPodMonitor_LimitsWhatIsScraped(t *testing.T) {
	in := PodMonitor("web", "ns", labels, nil, []string{"metrics"}, read[common.Monitoring](t, `enabled: true`))
	want := `{"selector":{},"podMetricsEndpoints":[{"port":"metrics","followRedirects":false}],"sampleLimit":50000,"labelLimit":100}`
	if diff := cmp.Diff(want, specOf(t, in, "PodMonitor")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Autoscaled pods have the default budget from the start: it allows the eviction of a single pod.
func TestPodDisruptionBudget_Autoscaled(t *testing.T) {
	minimum := &common.PodDisruptionBudget{MinAvailable: new(intstr.FromInt32(2))}
	for name, tc := range map[string]struct {
		spec        *common.PodDisruptionBudget
		least, most int32
		want        string
	}{
		"default":                             {nil, 1, 2, `"maxUnavailable":1`},
		"default of at most one":              {nil, 1, 1, ""},
		"minimum that the least number eases": {minimum, 2, 9, `"maxUnavailable":1`},
		"minimum":                             {minimum, 3, 9, `"minAvailable":2`},
	} {
		t.Run(name, func(t *testing.T) {
			in, is := PodDisruptionBudget("web", "ns", labels, selector, tc.spec, Disruption{Least: tc.least, Most: tc.most})
			if is != (tc.want != "") {
				t.Fatalf("there is one: %v", is)
			}
			if is && !strings.Contains(specOf(t, in, "PodDisruptionBudget"), tc.want) {
				t.Errorf("got %s, want %s", specOf(t, in, "PodDisruptionBudget"), tc.want)
			}
		})
	}
}

func TestClaims(t *testing.T) {
	ingress := func(expose string) client.Object {
		return read[networkingv1.Ingress](t, "spec: "+specOf(t, Ingress("web", "ns", labels, "s", 80, "", read[common.Expose](t, expose)), "Ingress"))
	}
	route := func(expose, namespace string) client.Object {
		r := read[gatewayv1.HTTPRoute](t, "spec: "+specOf(t, HTTPRoute("web", "ns", labels, "s", 80, read[common.Expose](t, expose)), "HTTPRoute"))
		r.Namespace = namespace
		return r
	}
	for name, tc := range map[string]struct {
		a, b   client.Object
		shared int
	}{
		"the same hosts and path": {ingress(`{hosts: [a, b, c], path: /x}`), ingress(`{hosts: [b, c], path: /x}`), 2},
		"another path":            {ingress(`{hosts: [a], path: /x}`), ingress(`{hosts: [a]}`), 0},
		"another class":           {ingress(`{hosts: [a], ingress: {ingressClassName: x}}`), ingress(`{hosts: [a]}`), 0},
		"the same Gateway":        {route(`{hosts: [a], gateway: {parentRef: {name: g}}}`, "x"), route(`{hosts: [a], gateway: {parentRef: {name: g, namespace: x}}}`, "y"), 1},
		"another Gateway":         {route(`{hosts: [a], gateway: {parentRef: {name: g}}}`, "x"), route(`{hosts: [a], gateway: {parentRef: {name: g}}}`, "y"), 0},
		"another listener":        {route(`{hosts: [a], gateway: {parentRef: {name: g, sectionName: http}}}`, "x"), route(`{hosts: [a], gateway: {parentRef: {name: g, sectionName: https}}}`, "x"), 0},
		"another kind":            {ingress(`{hosts: [a]}`), &corev1.ConfigMap{}, 0},
	} {
		both := slices.DeleteFunc(Claims(tc.a), func(c string) bool { return !slices.Contains(Claims(tc.b), c) })
		if len(both) != tc.shared {
			t.Errorf("%s: %v and %v, both claim %v", name, Claims(tc.a), Claims(tc.b), both)
		}
	}
}
