package demoapplication

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

func decided(a *demoapplicationv1.DemoApplication) rollout.Decision {
	d, err := decide(a, Observed{Offline: true}, platform)
	if err != nil {
		panic(err) // nothing is pinned
	}
	return d
}

// rolled returns a Deployment with 2 replicas and these counts.
func rolled(updated, available int32) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo", Generation: 2},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: sample().PodLabels()},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: sample().PodLabels(), Annotations: decided(sample()).Template.Annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx-demo", Image: "nginx:latest"}}},
			},
		},
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: updated, ReadyReplicas: available, AvailableReplicas: available,
		},
	}
	if available > 0 {
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
	}
	return d
}

func liveService(ports ...corev1.ServicePort) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Selector: sample().PodLabels(), Ports: ports},
	}
}

func outcome(problem error, d *appsv1.Deployment, s *corev1.Service) converge.Outcome {
	children := map[string]client.Object{}
	if d != nil {
		children["Deployment"] = d
	}
	if s != nil {
		children["Service"] = s
	}
	return converge.NewOutcome(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), fault.Classify(problem), children)
}

// brief returns the conditions as "status reason", by type.
func brief(a *demoapplicationv1.DemoApplication) map[string]string {
	m := map[string]string{}
	for _, c := range a.Status.Conditions {
		m[c.Type] = string(c.Status) + " " + c.Reason
	}
	return m
}

// pkg/workload tests how the state of a Deployment is reported; this tests what the
// kind adds.
func TestDemoApplication_ReportsConditions(t *testing.T) {
	type conditions = map[string]string
	available := "True ReplicasAvailable"
	noPorts := func(a *demoapplicationv1.DemoApplication) { a.Spec.Ports = nil }
	asIs := func(*demoapplicationv1.DemoApplication) {}
	s := liveService(corev1.ServicePort{Port: 80, NodePort: 30002})

	for name, tc := range map[string]struct {
		spec       func(*demoapplicationv1.DemoApplication)
		deployment *appsv1.Deployment
		service    *corev1.Service
		problem    error
		want       conditions
	}{
		"nothing yet":        {asIs, nil, nil, nil, conditions{"Available": "False NoReplicasAvailable", "Ready": "False Progressing", "Reconciling": "True Progressing"}},
		"rolling out":        {asIs, rolled(1, 1), s, nil, conditions{"Available": available, "Ready": "False Progressing", "Reconciling": "True Progressing"}},
		"all serve":          {asIs, rolled(2, 2), s, nil, conditions{"Available": available, "Ready": "True Serving"}},
		"no Service yet":     {asIs, rolled(2, 2), nil, nil, conditions{"Available": available, "Ready": "False Progressing", "Reconciling": "True Progressing"}},
		"no Service at all":  {noPorts, rolled(2, 2), nil, nil, conditions{"Available": available, "Ready": "True Serving"}},
		"node port is taken": {asIs, rolled(2, 2), nil, fault.Stalled(messages.New(common.ReasonNodePortUnavailable, "taken")), conditions{"Available": available, "Ready": "False NodePortUnavailable", "Stalled": "True NodePortUnavailable"}},
		"unowned":            {asIs, nil, nil, fault.Stalled(messages.New(common.ReasonConflict, "taken")), conditions{"Available": "False NoReplicasAvailable", "Ready": "False Conflict", "Stalled": "True Conflict"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			tc.spec(a)
			if tc.deployment != nil {
				tc.deployment.Spec.Template.Annotations = decided(a).Template.Annotations
			}
			o := Observed{Observed: rollout.Observed{Deployment: tc.deployment}, Service: tc.service}
			report(a, o, outcome(tc.problem, tc.deployment, tc.service), platform)
			if diff := cmp.Diff(tc.want, brief(a)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if a.Status.ObservedGeneration != a.Generation {
				t.Errorf("observedGeneration is %d, want %d", a.Status.ObservedGeneration, a.Generation)
			}
			once := a.DeepCopy()
			later := outcome(tc.problem, tc.deployment, tc.service)
			later.Now = later.Now.Add(time.Hour)
			report(a, o, later, platform)
			if diff := cmp.Diff(once, a); diff != "" {
				t.Errorf("reconciling the same state again changed the status, which causes a needless write:\n%s", diff)
			}
		})
	}
}

// A rejected or failed write does not mean that the serving pods are unavailable,
// and neither does a missing reference, without which nothing can be written.
func TestReport_FailedReconcileKeepsAvailable(t *testing.T) {
	a := sample()
	d, s := rolled(2, 2), liveService(corev1.ServicePort{Port: 80, NodePort: 30002})
	d.Spec.Template.Annotations = decided(a).Template.Annotations
	report(a, Observed{Observed: rollout.Observed{Deployment: d}, Service: s}, outcome(errors.New("no answer"), nil, nil), platform)
	want := map[string]string{"Available": "True ReplicasAvailable", "Ready": "False Error", "Reconciling": "True Error"}
	if diff := cmp.Diff(want, brief(a)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if len(a.Status.Addresses) == 0 || a.Status.ReadyReplicas == 0 {
		t.Errorf("%d pods ready at %v", a.Status.ReadyReplicas, a.Status.Addresses)
	}

	a = sample()
	a.Spec.Pod = &common.Pod{ServiceAccountName: "robot"} // which is not granted
	_, err := desired(a, Observed{Observed: rollout.Observed{Deployment: d}, Service: s}, platform)
	report(a, Observed{Observed: rollout.Observed{Deployment: d}, Service: s}, outcome(err, nil, s), platform)
	if got := brief(a); got["Available"] != "True ReplicasAvailable" || got["Stalled"] != "True NotAllowed" {
		t.Errorf("what cannot be decided: %v", got)
	}
}

func TestReport_ImageIsTheServingOne(t *testing.T) {
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		service    *corev1.Service
		want       string
	}{
		"the previous one during a rollout":  {rolled(1, 2), liveService(), "nginx:1.0"},
		"the new one after it":               {rolled(2, 2), liveService(), "nginx:latest"},
		"the new one, though without access": {rolled(2, 2), nil, "nginx:latest"},
		"the previous one without a child":   {nil, nil, "nginx:1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			a.Status.Image = "nginx:1.0"
			report(a, Observed{Observed: rollout.Observed{Deployment: tc.deployment}}, outcome(nil, tc.deployment, tc.service), platform)
			if a.Status.Image != tc.want {
				t.Errorf("got %q, want %q", a.Status.Image, tc.want)
			}
		})
	}
}

func TestReport_CountsAndSelector(t *testing.T) {
	a := sample()
	d := rolled(1, 2)
	report(a, Observed{Observed: rollout.Observed{Deployment: d}}, outcome(nil, d, nil), platform)
	if diff := cmp.Diff([]int32{2, 1, 2}, []int32{a.Status.Replicas, a.Status.UpdatedReplicas, a.Status.ReadyReplicas}); diff != "" {
		t.Errorf("replicas, updated, ready (-want +got):\n%s", diff)
	}
	// A HorizontalPodAutoscaler reads it through the scale subresource.
	if want := "app=nginx-demo,demoapplication_cr=nginx-demo"; a.Status.Selector != want {
		t.Errorf("selector is %q, want %q", a.Status.Selector, want)
	}
	report(a, Observed{}, outcome(errors.New("no answer"), nil, nil), platform)
	if a.Status.Replicas != 2 {
		t.Errorf("got %d replicas after a reconcile without a Deployment, want the last observed 2", a.Status.Replicas)
	}
	// Pods that the legacy operator created have only one label.
	d.Spec.Selector.MatchLabels = articleLabels(a)
	report(a, Observed{Observed: rollout.Observed{Deployment: d}}, outcome(nil, d, nil), platform)
	if want := "app=nginx-demo"; a.Status.Selector != want {
		t.Errorf("selector during a takeover is %q, want %q", a.Status.Selector, want)
	}
}

func TestReport_Addresses(t *testing.T) {
	inside := "://nginx-demo.default.svc"
	type port = corev1.ServicePort
	for name, tc := range map[string]struct {
		ports []port
		want  []string
	}{
		"cluster only":         {[]port{{Port: 80}}, []string{"Cluster http" + inside}},
		"node port":            {[]port{{Port: 80, NodePort: 30002}}, []string{"NodePort http://<node>:30002", "Cluster http" + inside}},
		"the widest first":     {[]port{{Port: 80, NodePort: 30002}, {Port: 81, NodePort: 30003}}, []string{"NodePort http://<node>:30002", "NodePort http://<node>:30003", "Cluster http" + inside, "Cluster http" + inside + ":81"}},
		"https":                {[]port{{Port: 443, AppProtocol: new("https")}}, []string{"Cluster https" + inside}},
		"https, another port":  {[]port{{Port: 8443, AppProtocol: new("https")}}, []string{"Cluster https" + inside + ":8443"}},
		"HTTP/2":               {[]port{{Port: 80, AppProtocol: new("kubernetes.io/h2c")}}, []string{"Cluster http" + inside}},
		"another protocol":     {[]port{{Port: 5432, AppProtocol: new("postgresql")}}, []string{"Cluster tcp" + inside + ":5432"}},
		"UDP":                  {[]port{{Port: 53, Protocol: corev1.ProtocolUDP}}, []string{"Cluster udp" + inside + ":53"}},
		"SCTP, of any content": {[]port{{Port: 80, Protocol: corev1.ProtocolSCTP, AppProtocol: new("http")}}, []string{"Cluster sctp" + inside + ":80"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := sample()
			report(a, Observed{}, outcome(nil, nil, liveService(tc.ports...)), platform)
			var got []string
			for _, ad := range a.Status.Addresses {
				got = append(got, string(ad.Type)+" "+ad.URL)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("they stay while the Service is lost", func(t *testing.T) {
		a := sample()
		a.Status.Addresses = []common.Address{{Type: common.AddressCluster, URL: "http" + inside}}
		report(a, Observed{}, outcome(nil, nil, nil), platform)
		if len(a.Status.Addresses) != 1 {
			t.Errorf("%v", a.Status.Addresses)
		}
		a.Spec.Ports = nil
		report(a, Observed{Service: liveService()}, outcome(nil, nil, nil), platform)
		if a.Status.Addresses != nil {
			t.Errorf("%v, and no ports are asked for", a.Status.Addresses)
		}
	})
}

func TestReport_AddressesOfHostsComeFirst(t *testing.T) {
	urls := func(e common.Expose, s *corev1.Service) []string {
		a := sample()
		a.Spec.Expose = &e
		child := client.Object(&networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo"}})
		kind := "Ingress"
		if e.Type == common.ExposeGateway {
			child, kind = &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nginx-demo"}}, "HTTPRoute"
		}
		report(a, Observed{}, converge.NewOutcome(time.Time{}, fault.Classify(nil), map[string]client.Object{kind: child, "Service": s}), platform)
		var all []string
		for _, ad := range a.Status.Addresses {
			all = append(all, string(ad.Type)+" "+ad.URL)
		}
		return all
	}
	s := liveService(corev1.ServicePort{Port: 80, NodePort: 30002})
	s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "2001:db8::1"}, {Hostname: "lb.example.com"}}
	balanced := []string{"LoadBalancer http://[2001:db8::1]", "LoadBalancer http://lb.example.com", "NodePort http://<node>:30002", "Cluster http://nginx-demo.default.svc"}
	for name, tc := range map[string]struct {
		e    common.Expose
		want string
	}{
		"Ingress":           {common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.b"}, Path: "/"}, "Ingress http://a.b"},
		"Ingress with TLS":  {common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.b"}, Path: "/x", Ingress: &common.ExposeIngressOptions{TLS: &common.IngressTLS{}}}, "Ingress https://a.b/x"},
		"Gateway":           {common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.b"}, Gateway: &common.ExposeGatewayOptions{}}, "Gateway http://a.b"},
		"Gateway, by https": {common.Expose{Type: common.ExposeGateway, Hosts: []string{"a.b"}, Gateway: &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{SectionName: "https"}}}, "Gateway https://a.b"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(append([]string{tc.want}, balanced...), urls(tc.e, s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	many := liveService()
	for i := range int32(32) {
		many.Spec.Ports = append(many.Spec.Ports, corev1.ServicePort{Port: 1000 + i, NodePort: 30000 + i})
	}
	for range 8 {
		many.Status.LoadBalancer.Ingress = append(many.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: "192.0.2.1"})
	}
	if got := urls(common.Expose{Type: common.ExposeIngress, Hosts: []string{"a.b"}}, many); len(got) != 128 {
		t.Errorf("%d addresses: the status has room for 128", len(got))
	}
}

// The replicas that the autoscaler sets are the desired ones.
func TestReport_AutoscaledReplicas(t *testing.T) {
	a := sample()
	a.Spec.Replica = nil
	a.Spec.Autoscaling = &common.Autoscaling{MaxReplicas: 5}
	d, s := rolled(2, 2), liveService()
	d.Spec.Template.Annotations = decided(a).Template.Annotations
	report(a, Observed{Observed: rollout.Observed{Deployment: d}, Service: s}, outcome(nil, d, s), platform)
	if got := brief(a)["Ready"]; got != "True Serving" {
		t.Errorf("with the 2 that the Deployment has: %s", got)
	}
	d.Spec.Replicas = new(int32(3))
	report(a, Observed{Observed: rollout.Observed{Deployment: d}, Service: s}, outcome(nil, d, s), platform)
	if got := brief(a)["Ready"]; got != "False Progressing" {
		t.Errorf("with 2 of the 3 that the autoscaler wants: %s", got)
	}
}
