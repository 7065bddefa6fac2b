package demoapplication

import (
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// Clients reach every ready pod on the port on which its own revision listens, and the
// NetworkPolicy lets them, whatever the spec says.
func TestService_RoutesToThePortsOfEachPod(t *testing.T) {
	to := func(port int32, target any) demoapplicationv1.Port {
		p := demoapplicationv1.Port{Name: fmt.Sprintf("p%d", port), Port: port}
		switch v := target.(type) {
		case int:
			p.TargetPort = new(intstr.FromInt(v))
		case string:
			p.TargetPort = new(intstr.FromString(v))
		}
		return p
	}
	type ports = []demoapplicationv1.Port
	type revisions = common.Revisions
	for name, tc := range map[string]struct {
		first, second ports
		unnamed       bool // an earlier version of the operator generated the first revision
		ready         []int
		starting      []int
		revisions     revisions
		pinned        int64
		unreached     []string // pods and ports that no request can reach
	}{
		"the target port changes, rolling out": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"the target port changes, no new pod is ready": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, ready: []int{1}, starting: []int{2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"the target port changes, rolled back": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, ready: []int{1},
			revisions: revisions{Current: 1, LastHealthy: 1, Failed: 2},
		},
		"the target port changes, pinned": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, ready: []int{1, 2}, pinned: 1,
			revisions: revisions{Current: 2, LastHealthy: 2},
		},
		"two ports change places": {
			first: ports{to(80, 8080), to(81, 8081)}, second: ports{to(80, 8081), to(81, 8080)}, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"a name changes": {
			first: ports{to(80, "web")}, second: ports{to(80, "http")}, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"the port of the Service changes": {
			first: ports{to(80, 8080)}, second: ports{to(81, 8080)}, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"both ports change, no new pod is ready": {
			first: ports{to(80, nil)}, second: ports{to(81, nil)}, ready: []int{1}, starting: []int{2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"both ports change, rolled back": {
			first: ports{to(80, nil)}, second: ports{to(81, nil)}, ready: []int{1},
			revisions: revisions{Current: 1, LastHealthy: 1, Failed: 2},
		},
		"both ports change, pinned": {
			first: ports{to(80, nil)}, second: ports{to(81, nil)}, ready: []int{1}, pinned: 1,
			revisions: revisions{Current: 2, LastHealthy: 2},
		},
		"both ports of several change, rolled back": {
			first: ports{to(80, 8080), to(81, nil)}, second: ports{to(82, nil), to(80, 8081)}, ready: []int{1},
			revisions: revisions{Current: 1, LastHealthy: 1, Failed: 2},
		},
		"a port is new, rolled back": {
			first: ports{to(80, 8080)}, second: ports{to(80, 8080), to(81, 8081)}, ready: []int{1},
			revisions: revisions{Current: 1, LastHealthy: 1, Failed: 2}, unreached: []string{"pod 1 on 81"},
		},
		"two ports to one": {
			first: ports{to(80, 8080)}, second: ports{to(80, 8080), to(81, 8080)}, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"another port is new": {
			first: ports{to(80, 8080)}, second: ports{to(80, 8080), to(81, 8081)}, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1}, unreached: []string{"pod 1 on 81"},
		},
		"ports without names, no new pod is ready": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, unnamed: true, ready: []int{1}, starting: []int{2},
			revisions: revisions{Current: 2, LastHealthy: 1},
		},
		"ports without names, rolled back": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, unnamed: true, ready: []int{1},
			revisions: revisions{Current: 1, LastHealthy: 1, Failed: 2},
		},
		"ports without names, pinned": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, unnamed: true, ready: []int{1}, pinned: 1,
			revisions: revisions{Current: 2, LastHealthy: 2},
		},
		// The first rollout with names: both numbers cannot be reached at once.
		"ports without names, rolling out": {
			first: ports{to(80, 80)}, second: ports{to(80, 8080)}, unnamed: true, ready: []int{1, 2},
			revisions: revisions{Current: 2, LastHealthy: 1}, unreached: []string{"pod 1 on 80"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			a.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
			a.Spec.Ports = tc.first
			first := revisionOf(t, a, 1)
			if tc.unnamed {
				first.Data.Raw = regexp.MustCompile(`"name":"tcp-\d+",|("platform-operator.io/template":")[0-9a-f]{4}`).ReplaceAll(first.Data.Raw, []byte("${1}"))
			}
			a.Spec.Ports = tc.second
			second := revisionOf(t, a, 2)
			a.Status.Revisions = &tc.revisions
			if tc.pinned != 0 {
				a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{PinnedRevision: &tc.pinned}}
			}
			o := withPods(t, []*appsv1.ControllerRevision{first, second}, tc.ready, tc.starting)
			service, policy := routing(t, a, o)
			var unreached []string
			for _, n := range tc.ready {
				for _, asked := range [][]demoapplicationv1.Port{tc.first, tc.second}[n-1] {
					if !slices.ContainsFunc(tc.second, func(p demoapplicationv1.Port) bool { return p.Port == asked.Port }) {
						continue // its clients are told to use another one
					}
					if got := reached(service, policy, templateOf(t, o.Revisions[n-1]), asked.Port); got != containerPort(asked) {
						unreached = append(unreached, fmt.Sprintf("pod %d on %d", n, asked.Port))
					}
				}
				for _, p := range service.Spec.Ports {
					if n == 1 && !slices.ContainsFunc(tc.first, func(f demoapplicationv1.Port) bool { return f.Port == p.Port }) &&
						reached(service, policy, templateOf(t, o.Revisions[0]), p.Port) == 0 {
						unreached = append(unreached, fmt.Sprintf("pod %d on %d", n, p.Port))
					}
				}
			}
			if !slices.Equal(unreached, tc.unreached) {
				t.Errorf("clients cannot reach %q, want %q: %+v, %+v", unreached, tc.unreached, service.Spec.Ports, policy.Spec.Ingress)
			}
		})
	}
}

// Prometheus finds the metrics of every ready pod, and the autoscaler scales by what all
// pods request, whatever the spec says.
func TestAuxiliary_FollowsTheTemplatesInUse(t *testing.T) {
	both := []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}
	cpu := []corev1.ResourceName{corev1.ResourceCPU}
	for name, tc := range map[string]struct {
		ready     []int
		revisions common.Revisions
		pinned    int64
		requests  corev1.ResourceList // of the first revision
		scraped   []string
		scaledBy  []corev1.ResourceName
	}{
		"rolling out": {
			ready: []int{1, 2}, revisions: common.Revisions{Current: 2, LastHealthy: 1}, requests: requests("cpu"),
			scraped: []string{"http", "web"}, scaledBy: cpu,
		},
		"rolled out": {
			ready: []int{2}, revisions: common.Revisions{Current: 2, LastHealthy: 2}, requests: requests("cpu"),
			scraped: []string{"http"}, scaledBy: both,
		},
		"rolled back": {
			ready: []int{1}, revisions: common.Revisions{Current: 1, LastHealthy: 1, Failed: 2}, requests: requests("cpu"),
			scraped: []string{"web"}, scaledBy: cpu,
		},
		"pinned": {
			ready: []int{1}, revisions: common.Revisions{Current: 2, LastHealthy: 2}, pinned: 1, requests: requests("cpu", "memory"),
			scraped: []string{"web"}, scaledBy: both,
		},
		"pinned, without requests, which the autoscaler reports": {
			ready: []int{1}, revisions: common.Revisions{Current: 2, LastHealthy: 2}, pinned: 1,
			scraped: []string{"web"}, scaledBy: both,
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			a.Spec.Monitoring = &common.Monitoring{Enabled: true}
			a.Spec.Ports = []demoapplicationv1.Port{{Port: 80, TargetPort: new(intstr.FromString("web"))}}
			a.Spec.Resources = &common.Resources{Requests: tc.requests}
			first := revisionOf(t, a, 1)
			a.Spec.Ports[0].TargetPort = new(intstr.FromString("http"))
			a.Spec.Resources = &common.Resources{Requests: requests("cpu"), Limits: requests("memory")}
			a.Spec.Autoscaling = &common.Autoscaling{
				MaxReplicas: 3, TargetCPUUtilizationPercentage: new(int32(80)), TargetMemoryUtilizationPercentage: new(int32(80)),
			}
			second := revisionOf(t, a, 2)
			a.Status.Revisions = &tc.revisions
			if tc.pinned != 0 {
				a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{PinnedRevision: &tc.pinned}}
			}
			monitor, autoscaler := &monitoring.PodMonitor{}, &autoscalingv2.HorizontalPodAutoscaler{}
			decode(t, a, withPods(t, []*appsv1.ControllerRevision{first, second}, tc.ready, nil),
				map[string]any{"PodMonitor": monitor, "HorizontalPodAutoscaler": autoscaler})
			var scraped []string
			for _, e := range monitor.Spec.PodMetricsEndpoints {
				scraped = append(scraped, e.Port)
			}
			var scaledBy []corev1.ResourceName
			for _, m := range autoscaler.Spec.Metrics {
				scaledBy = append(scaledBy, m.Resource.Name)
			}
			if diff := cmp.Diff(tc.scraped, scraped); diff != "" {
				t.Errorf("ports that are scraped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.scaledBy, scaledBy); diff != "" {
				t.Errorf("metrics of the autoscaler (-want +got):\n%s", diff)
			}
		})
	}
}

func requests(names ...corev1.ResourceName) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, name := range names {
		list[name] = resource.MustParse("100M")
	}
	return list
}

// withPods returns revisions and their pods, which are ready or starting.
func withPods(t *testing.T, revisions []*appsv1.ControllerRevision, ready, starting []int) Observed {
	t.Helper()
	o := Observed{Observed: rollout.Observed{Revisions: revisions}}
	for _, n := range slices.Concat(ready, starting) {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprint("pod ", n), Annotations: map[string]string{naming.AnnotationTemplate: templateOf(t, revisions[n-1]).Annotations[naming.AnnotationTemplate]},
		}}
		if slices.Contains(ready, n) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		o.Pods = append(o.Pods, p)
	}
	return o
}

// reached returns the number of the port of a pod that a request to a port of the Service
// reaches, or 0.
func reached(s *corev1.Service, policy *networkingv1.NetworkPolicy, pod corev1.PodTemplateSpec, port int32) int32 {
	i := slices.IndexFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if i < 0 {
		return 0
	}
	target := s.Spec.Ports[i].TargetPort
	number := target.IntVal
	for _, p := range pod.Spec.Containers[0].Ports {
		if target.Type == intstr.String && p.Name == target.StrVal {
			number = p.ContainerPort
		}
	}
	for _, rule := range policy.Spec.Ingress {
		for _, p := range rule.Ports {
			if p.Port.IntVal == number {
				return number
			}
		}
	}
	return 0
}

func revisionOf(t *testing.T, a *demoapplicationv1.DemoApplication, number int64) *appsv1.ControllerRevision {
	t.Helper()
	r := &appsv1.ControllerRevision{}
	decode(t, a, Observed{}, map[string]any{"ControllerRevision": r})
	r.Revision = number
	r.Data.Raw = regexp.MustCompile(`"revision":\d+`).ReplaceAll(r.Data.Raw, fmt.Appendf(nil, `"revision":%d`, number))
	return r
}

func templateOf(t *testing.T, r *appsv1.ControllerRevision) corev1.PodTemplateSpec {
	t.Helper()
	var kept struct {
		Template corev1.PodTemplateSpec `json:"template"`
	}
	if err := yaml.Unmarshal(r.Data.Raw, &kept); err != nil {
		t.Fatal(err)
	}
	return kept.Template
}

func routing(t *testing.T, a *demoapplicationv1.DemoApplication, o Observed) (*corev1.Service, *networkingv1.NetworkPolicy) {
	t.Helper()
	s, policy := &corev1.Service{}, &networkingv1.NetworkPolicy{}
	decode(t, a, o, map[string]any{"Service": s, "NetworkPolicy": policy})
	return s, policy
}
