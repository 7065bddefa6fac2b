package webserver

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// liveDeployment returns a Deployment with 3 replicas. All counts in its status are 0, as
// just after its creation, unless change sets them.
func liveDeployment(change func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "webserver-sample", Generation: 2},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3))},
		Status:     appsv1.DeploymentStatus{ObservedGeneration: 2},
	}
	made(d, sample())
	change(d)
	return d
}

// made sets the template of a Deployment to the one that an object asks for.
func made(d *appsv1.Deployment, w *webserverv1.WebServer) {
	decision, _, err := decide(w, Observed{}, platform)
	if err != nil {
		panic(err)
	}
	raw, err := json.Marshal(decision.Template)
	if err == nil {
		err = json.Unmarshal(raw, &d.Spec.Template)
	}
	if err != nil {
		panic(err)
	}
}

// replicaCounts are the counts in the status of a Deployment.
type replicaCounts struct{ total, updated, ready, available int32 }

func (c replicaCounts) set(d *appsv1.Deployment) {
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = c.total, c.updated, c.ready, c.available
	has(appsv1.DeploymentAvailable, c.available > 0, "")(d)
}

func allAvailable(replicas int32) func(*appsv1.Deployment) {
	return replicaCounts{total: replicas, updated: replicas, ready: replicas, available: replicas}.set
}

func has(kind appsv1.DeploymentConditionType, holds bool, message string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		v := corev1.ConditionFalse
		if holds {
			v = corev1.ConditionTrue
		}
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: kind, Status: v, Message: message})
	}
}

func both(changes ...func(*appsv1.Deployment)) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		for _, c := range changes {
			c(d)
		}
	}
}

func liveService(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "webserver-sample-service"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30010}}},
	}
	change(s)
	return s
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
func brief(w *webserverv1.WebServer) map[string]string {
	m := map[string]string{}
	for _, c := range w.Status.Conditions {
		m[c.Type] = string(c.Status) + " " + c.Reason
	}
	return m
}

func TestWebServer_ReportsConditions(t *testing.T) {
	type conditions = map[string]string
	unavailable := "False NoReplicasAvailable"
	available := "True ReplicasAvailable"
	rolling := conditions{"Available": available, "Ready": "False Progressing", "Reconciling": "True Progressing"}
	starting := conditions{"Available": unavailable, "Ready": "False Progressing", "Reconciling": "True Progressing"}
	api := func(err *apierrors.StatusError) error { return err }
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	wanted := func(n int32) func(*webserverv1.WebServer) {
		return func(w *webserverv1.WebServer) { w.Spec.Replicas = new(n) }
	}
	asIs := func(*webserverv1.WebServer) {}

	for name, tc := range map[string]struct {
		spec       func(*webserverv1.WebServer)
		deployment *appsv1.Deployment
		problem    error
		want       conditions
	}{
		"no Deployment yet":      {asIs, nil, nil, starting},
		"created":                {asIs, liveDeployment(func(*appsv1.Deployment) {}), nil, starting},
		"not seen by Kubernetes": {asIs, liveDeployment(both(allAvailable(3), func(d *appsv1.Deployment) { d.Generation = 3 })), nil, rolling},
		"first pod serves":       {asIs, liveDeployment(replicaCounts{total: 3, updated: 3, ready: 1, available: 1}.set), nil, rolling},
		"all serve":              {asIs, liveDeployment(allAvailable(3)), nil, conditions{"Available": available, "Ready": "True Serving"}},
		"ready but not long enough to be available": {asIs, liveDeployment(replicaCounts{total: 3, updated: 3, ready: 3, available: 2}.set), nil, rolling},
		"new pods in addition to old ones":          {asIs, liveDeployment(replicaCounts{total: 4, updated: 2, ready: 3, available: 3}.set), nil, rolling},
		"old pod left":                              {asIs, liveDeployment(replicaCounts{total: 4, updated: 3, ready: 4, available: 4}.set), nil, rolling},
		"scaled by another client":                  {asIs, liveDeployment(both(allAvailable(3), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) })), nil, rolling},
		"fewer than the strategy may leave": {
			asIs, liveDeployment(func(d *appsv1.Deployment) {
				replicaCounts{total: 3, updated: 3, ready: 1, available: 1}.set(d)
				d.Status.Conditions = nil
				has(appsv1.DeploymentAvailable, false, "")(d)
			}), nil, rolling,
		},
		"one replica, replicas unset": {
			func(w *webserverv1.WebServer) { w.Spec.Replicas = nil },
			liveDeployment(both(allAvailable(1), func(d *appsv1.Deployment) { d.Spec.Replicas = nil })), nil,
			conditions{"Available": available, "Ready": "True Serving"},
		},
		"scaled to zero": {
			wanted(0), liveDeployment(both(allAvailable(0), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })), nil,
			conditions{"Available": "False ScaledToZero", "Ready": "True ScaledToZero"},
		},
		// Kubernetes reports Available=True for a Deployment with 0 replicas.
		"scaled to zero, as Kubernetes sees it": {
			wanted(0), liveDeployment(both(has(appsv1.DeploymentAvailable, true, ""), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })), nil,
			conditions{"Available": "False ScaledToZero", "Ready": "True ScaledToZero"},
		},
		"scaling to zero": {
			wanted(0), liveDeployment(both(allAvailable(2), func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) })), nil, rolling,
		},
		"pods cannot be created": {
			asIs, liveDeployment(both(allAvailable(1), has(appsv1.DeploymentReplicaFailure, true, "no"))), nil,
			conditions{"Available": available, "Ready": "False ReplicaFailure", "Stalled": "True ReplicaFailure"},
		},
		"pods could not be created before this spec": {
			asIs, liveDeployment(both(allAvailable(1), has(appsv1.DeploymentReplicaFailure, true, "no"), func(d *appsv1.Deployment) { d.Generation = 3 })), nil, rolling,
		},
		"the failure is over": {
			asIs, liveDeployment(both(allAvailable(3), has(appsv1.DeploymentReplicaFailure, false, ""))), nil,
			conditions{"Available": available, "Ready": "True Serving"},
		},
		"the deadline is over": {
			asIs, liveDeployment(both(replicaCounts{total: 4, updated: 1, ready: 3, available: 3}.set, has(appsv1.DeploymentProgressing, false, "ProgressDeadlineExceeded"))), nil,
			conditions{"Available": available, "Ready": "False RolloutFailed", "Stalled": "True RolloutFailed"},
		},
		"the deadline of an earlier spec is over": {
			asIs, liveDeployment(both(replicaCounts{total: 4, updated: 1, ready: 3, available: 3}.set, has(appsv1.DeploymentProgressing, false, ""), func(d *appsv1.Deployment) { d.Generation = 3 })), nil, rolling,
		},
		"complete after the deadline": {
			asIs, liveDeployment(both(allAvailable(3), has(appsv1.DeploymentProgressing, false, ""))), nil,
			conditions{"Available": available, "Ready": "True Serving"},
		},

		"the Deployment is unowned": {
			asIs, nil, fault.Stalled(messages.New(common.ReasonConflict, "taken")),
			conditions{"Available": unavailable, "Ready": "False Conflict", "Stalled": "True Conflict"},
		},
		"the Service is refused; the pods serve": {
			asIs, liveDeployment(allAvailable(3)), fault.Stalled(messages.New(common.ReasonNodePortUnavailable, "taken")),
			conditions{"Available": available, "Ready": "False NodePortUnavailable", "Stalled": "True NodePortUnavailable"},
		},
		"quota": {
			asIs, nil, api(apierrors.NewForbidden(deployments, "w", errors.New("exceeded quota: small"))),
			conditions{"Available": unavailable, "Ready": "False QuotaExceeded", "Stalled": "True QuotaExceeded"},
		},
		"forbidden": {
			asIs, nil, api(apierrors.NewForbidden(deployments, "w", errors.New("policy"))),
			conditions{"Available": unavailable, "Ready": "False AdmissionRefused", "Stalled": "True AdmissionRefused"},
		},
		"invalid": {
			asIs, nil, api(apierrors.NewBadRequest("bad")),
			conditions{"Available": unavailable, "Ready": "False Invalid", "Stalled": "True Invalid"},
		},
		"an earlier child is still going": {
			asIs, nil, fault.Waiting(fault.Probe, messages.New(common.ReasonWaiting, "for it")),
			conditions{"Available": unavailable, "Ready": "False Waiting", "Reconciling": "True Waiting"},
		},
		"the API server has trouble with the Service": {
			asIs, liveDeployment(allAvailable(3)), errors.New("no answer"),
			conditions{"Available": available, "Ready": "False Error", "Reconciling": "True Error"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			tc.spec(w)
			report(w, Observed{}, outcome(tc.problem, tc.deployment, nil), platform)
			if diff := cmp.Diff(tc.want, brief(w)); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			if w.Status.ObservedGeneration != w.Generation {
				t.Errorf("observedGeneration is %d, want %d", w.Status.ObservedGeneration, w.Generation)
			}

			once := w.DeepCopy()
			later := outcome(tc.problem, tc.deployment, nil)
			later.Now = later.Now.Add(time.Hour)
			report(w, Observed{}, later, platform)
			if diff := cmp.Diff(once, w); diff != "" {
				t.Errorf("reconciling the same state again changed the status, which causes a needless write:\n%s", diff)
			}
		})
	}
}

func TestReport_AutoscalerThatCannotScale(t *testing.T) {
	w := sample()
	w.Spec.Replicas, w.Spec.Autoscaling = nil, &common.Autoscaling{MaxReplicas: 5}
	var o Observed
	o.Autoscaler = &autoscalingv2.HorizontalPodAutoscaler{Status: autoscalingv2.HorizontalPodAutoscalerStatus{
		Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionFalse, Reason: "FailedGetResourceMetric"}},
	}}
	report(w, o, outcome(nil, liveDeployment(allAvailable(3)), nil), platform)
	want := map[string]string{"Available": "True ReplicasAvailable", "Ready": "False AutoscalingFailed", "Reconciling": "True AutoscalingFailed"}
	if diff := cmp.Diff(want, brief(w)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

// The ReplicaSet controller tries another name each time. If the message contained
// the name, the status would be written after every attempt.
func TestReport_MessagesContainNoPodNames(t *testing.T) {
	message := func(pod string) string {
		w := sample()
		report(w, Observed{}, outcome(nil, liveDeployment(has(appsv1.DeploymentReplicaFailure, true,
			`pods "`+pod+`" is forbidden: exceeded quota: small, requested: pods=1, used: pods=2, limited: pods=2`)), nil), platform)
		for _, c := range w.Status.Conditions {
			if c.Type == common.ConditionStalled {
				return c.Message
			}
		}
		return ""
	}
	a := message("webserver-sample-7d4b9c6f5-abcde")
	if a != message("webserver-sample-7d4b9c6f5-xyz12") || strings.Contains(a, "abcde") {
		t.Errorf("the message changes with the pod: %q", a)
	}
	if !strings.Contains(a, "exceeded quota: small") {
		t.Errorf("%q does not say why", a)
	}
}

func TestReport_RolloutMessagesAreStable(t *testing.T) {
	var first *webserverv1.WebServer
	for _, d := range []*appsv1.Deployment{
		liveDeployment(replicaCounts{total: 4, updated: 1, ready: 3, available: 3}.set), liveDeployment(replicaCounts{total: 4, updated: 2, ready: 3, available: 3}.set), liveDeployment(replicaCounts{total: 4, updated: 3, ready: 4, available: 4}.set),
	} {
		w := sample()
		report(w, Observed{}, outcome(nil, d, nil), platform)
		if first == nil {
			first = w
		}
		if diff := cmp.Diff(first.Status.Conditions, w.Status.Conditions); diff != "" {
			t.Errorf("a step of the rollout changed a condition:\n%s", diff)
		}
	}
}

func TestReport_ImageIsTheServingOne(t *testing.T) {
	for name, tc := range map[string]struct {
		before     string
		deployment *appsv1.Deployment
		problem    error
		want       string
	}{
		"none at first":                      {"", liveDeployment(replicaCounts{total: 3, updated: 3}.set), nil, ""},
		"the spec's when all serve":          {"", liveDeployment(allAvailable(3)), nil, "nginx:1.23.1"},
		"the previous one during a rollout":  {"nginx:1.23.0", liveDeployment(replicaCounts{total: 4, updated: 2, ready: 3, available: 3}.set), nil, "nginx:1.23.0"},
		"the previous one before it is seen": {"nginx:1.23.0", liveDeployment(both(allAvailable(3), func(d *appsv1.Deployment) { d.Generation = 9 })), nil, "nginx:1.23.0"},
		"the new one after it":               {"nginx:1.23.0", liveDeployment(allAvailable(3)), nil, "nginx:1.23.1"},
		"the previous one without a child":   {"nginx:1.23.0", nil, errors.New("no answer"), "nginx:1.23.0"},
		"the new one though the Service has trouble": {
			"nginx:1.23.0", liveDeployment(allAvailable(3)), errors.New("no answer"), "nginx:1.23.1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Status.Image = tc.before
			report(w, Observed{}, outcome(tc.problem, tc.deployment, nil), platform)
			if w.Status.Image != tc.want {
				t.Errorf("got %q, want %q", w.Status.Image, tc.want)
			}
		})
	}
	t.Run("the last one while nothing serves", func(t *testing.T) {
		w := sample()
		w.Spec.Replicas, w.Status.Image = new(int32(0)), "nginx:1.23.0"
		report(w, Observed{}, outcome(nil, liveDeployment(func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(0)) }), nil), platform)
		if w.Status.Image != "nginx:1.23.0" {
			t.Errorf("got %q", w.Status.Image)
		}
	})
}

func TestReport_CountsAndSelector(t *testing.T) {
	w := sample()
	report(w, Observed{}, outcome(nil, liveDeployment(replicaCounts{total: 4, updated: 2, ready: 3, available: 3}.set), nil), platform)
	got := []int32{w.Status.Replicas, w.Status.UpdatedReplicas, w.Status.ReadyReplicas}
	if diff := cmp.Diff([]int32{4, 2, 3}, got); diff != "" {
		t.Errorf("replicas, updated, ready (-want +got):\n%s", diff)
	}
	// A HorizontalPodAutoscaler reads it through the scale subresource.
	if want := "app=webserver,webserver_cr=webserver-sample"; w.Status.Selector != want {
		t.Errorf("selector is %q, want %q", w.Status.Selector, want)
	}
	report(w, Observed{}, outcome(errors.New("no answer"), nil, nil), platform)
	if w.Status.Replicas != 4 {
		t.Errorf("got %d replicas after a reconcile without a Deployment, want the last observed 4", w.Status.Replicas)
	}
}

func TestReport_Service(t *testing.T) {
	known := &webserverv1.ServiceStatus{Name: "webserver-sample-service", Type: corev1.ServiceTypeNodePort, Port: 80, NodePort: 32222}
	for name, tc := range map[string]struct {
		live *corev1.Service
		want *webserverv1.ServiceStatus
	}{
		// It must get the same node port when it is created again.
		"no Service: the last status is kept": {nil, known},
		"as it is": {
			liveService(func(*corev1.Service) {}),
			&webserverv1.ServiceStatus{Name: "webserver-sample-service", Type: corev1.ServiceTypeNodePort, Port: 80, NodePort: 30010},
		},
		"without a node port": {
			liveService(func(s *corev1.Service) {
				s.Spec.Type, s.Spec.Ports = corev1.ServiceTypeClusterIP, []corev1.ServicePort{{Port: 8080}}
			}),
			&webserverv1.ServiceStatus{Name: "webserver-sample-service", Type: corev1.ServiceTypeClusterIP, Port: 8080},
		},
		"with https": {
			liveService(func(s *corev1.Service) {
				s.Spec.Ports[0].Name = "http"
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "https", Port: 443, NodePort: 32443})
			}),
			&webserverv1.ServiceStatus{Name: "webserver-sample-service", Type: corev1.ServiceTypeNodePort, Port: 80, NodePort: 30010, HTTPSNodePort: 32443},
		},
		"without ports": {
			liveService(func(s *corev1.Service) { s.Spec.Ports = nil }),
			&webserverv1.ServiceStatus{Name: "webserver-sample-service", Type: corev1.ServiceTypeNodePort},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Status.Service = known.DeepCopy()
			report(w, Observed{}, outcome(nil, nil, tc.live), platform)
			want := tc.want.DeepCopy()
			want.DefaultType = platform.WebServer.ServiceType // the spec sets none
			if diff := cmp.Diff(want, w.Status.Service); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReport_Addresses(t *testing.T) {
	inside := "Cluster http://webserver-sample-service.default.svc"
	for name, tc := range map[string]struct {
		live func(*corev1.Service)
		want []string
	}{
		"node port":    {func(*corev1.Service) {}, []string{"NodePort http://<node>:30010", inside}},
		"cluster only": {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }, []string{inside}},
		"another port": {
			func(s *corev1.Service) { s.Spec.Ports[0].Port = 8080 },
			[]string{"NodePort http://<node>:30010", inside + ":8080"},
		},
		"node port 80 needs no number": {func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 80 }, []string{"NodePort http://<node>", inside}},
		"load balancer, the widest reach, first": {
			func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}, {Hostname: "lb.example.com", IP: "192.0.2.2"}}
			},
			[]string{"LoadBalancer http://192.0.2.1", "LoadBalancer http://lb.example.com", "NodePort http://<node>:30010", inside},
		},
		"load balancer on another port": {
			func(s *corev1.Service) {
				s.Spec.Ports[0].Port = 8080
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
			},
			[]string{"LoadBalancer http://192.0.2.1:8080", "NodePort http://<node>:30010", inside + ":8080"},
		},
		"https before http": {
			func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Name: "https", Port: 443, NodePort: 32443}, {Name: "http", Port: 80, NodePort: 30010}}
			},
			[]string{
				"NodePort https://<node>:32443", "NodePort http://<node>:30010",
				"Cluster https://webserver-sample-service.default.svc", inside,
			},
		},
		"no more than the status holds": {
			func(s *corev1.Service) { s.Status.LoadBalancer.Ingress = make([]corev1.LoadBalancerIngress, 40) },
			slices.Repeat([]string{"LoadBalancer http://"}, 32),
		},
		"no ports, no addresses": {func(s *corev1.Service) { s.Spec.Ports = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			report(w, Observed{}, outcome(nil, nil, liveService(tc.live)), platform)
			var got []string
			for _, a := range w.Status.Addresses {
				got = append(got, string(a.Type)+" "+a.URL)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A rejected or failed write does not mean that the serving pods are unavailable.
func TestReport_FailedWriteKeepsAvailable(t *testing.T) {
	w := sample()
	serving := Observed{Observed: rollout.Observed{Deployment: liveDeployment(allAvailable(3))}, Service: liveService(func(*corev1.Service) {})}
	report(w, serving, outcome(errors.New("no answer"), nil, nil), platform)
	want := map[string]string{"Available": "True ReplicasAvailable", "Ready": "False Error", "Reconciling": "True Error"}
	if diff := cmp.Diff(want, brief(w)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
}

func TestReport_AddressOfAnIPv6LoadBalancer(t *testing.T) {
	for port, want := range map[int32]string{80: "http://[2001:db8::1]", 8080: "http://[2001:db8::1]:8080"} {
		s := liveService(func(s *corev1.Service) {
			s.Spec.Ports[0].Port = port
			s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "2001:db8::1"}}
		})
		if got := addresses(s)[0].URL; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// A type that was removed from the spec is not what the object got by default.
func TestReport_RecordsTheDefaultServiceType(t *testing.T) {
	w := sample()
	w.Generation, w.Status.ObservedGeneration = 2, 1
	w.Status.Service = &webserverv1.ServiceStatus{Type: corev1.ServiceTypeLoadBalancer}
	report(w, Observed{}, outcome(nil, nil, liveService(func(*corev1.Service) {})), platform)
	if got := w.Status.Service.DefaultType; got != corev1.ServiceTypeNodePort {
		t.Errorf("the default type is %s, want that of the platform configuration", got)
	}
}

func TestStatus_NamesACertificateThatCannotBeUsed(t *testing.T) {
	ready := conditions.State{Ready: conditions.Condition{Status: true}}
	waits := conditions.State{}
	for name, tc := range map[string]struct {
		state conditions.State
		tls   *webserverv1.TLS
		pair  string
		// left is how long the certificate is valid.
		left time.Duration
		want string
	}{
		"expired": {
			state: ready, tls: &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}, left: -time.Second,
			want: `The certificate and the key in Secret "pair" (spec.tls.secretRef) cannot be used: the certificate has expired. Correct the Secret: HTTPS fails until then.`,
		},
		"valid":          {state: ready, tls: &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}, left: time.Second},
		"a pair":         {state: ready, tls: &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}},
		"no TLS":         {state: ready, pair: "no match"},
		"not a pair":     {state: ready, tls: &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}, pair: "no match", want: `The certificate and the key in Secret "pair" (spec.tls.secretRef) cannot be used: no match. Correct the Secret: HTTPS fails until then.`},
		"another reason": {state: waits, tls: &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}, pair: "no match"},
	} {
		t.Run(name, func(t *testing.T) {
			w := sample()
			w.Spec.TLS = tc.tls
			pair := configsource.SecretDigest{Digest: "1", Pair: tc.pair}
			o := Observed{Now: time.Now(), Secrets: map[string]configsource.SecretDigest{"pair": pair}}
			if tc.left != 0 {
				pair.Expires = o.Now.Add(tc.left)
				o.Secrets["pair"] = pair
			}
			got := newObject(w, o, platform).State(tc.state, nil)
			if got.Stalled.Message != tc.want || got.Stalled.Status != (tc.want != "") {
				t.Errorf("got %+v, want %q", got.Stalled, tc.want)
			}
		})
	}
	if got := secretNames(&webserverv1.WebServer{Spec: webserverv1.WebServerSpec{TLS: &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "pair"}}}}); !slices.Equal(got, []string{"pair"}) {
		t.Errorf("Secrets that are read: %v", got)
	}
}
