//go:build envtest

package webserver

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Kubernetes does not evict a pod that two PodDisruptionBudgets select.
func TestWebServer_NoPodDisruptionBudgetIfAnotherSelectsThePods(t *testing.T) {
	t.Parallel()
	const (
		gone   = "delete poddisruptionbudgets 200"
		made   = "patch poddisruptionbudgets 201"
		status = "patch webservers/status 200"
	)
	l := env.NewSandbox(t, subject()).Start()
	w, ours := webServer(l.Namespace, "web"), &policyv1.PodDisruptionBudget{}
	l.Create(w)
	l.Ready(w, "web")
	l.Until("a budget", ours, "web", func() bool { return true })
	l.Requests()
	selecting := func(labels map[string]string) *policyv1.PodDisruptionBudget {
		return &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "unowned"},
			Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
		}
	}
	theirs := selecting(map[string]string{"app": "other"})
	l.Create(theirs)
	l.Expect("one of other pods")

	l.Edit(theirs, "unowned", func() { theirs.Spec.Selector.MatchLabels = map[string]string{"app": "webserver"} })
	l.Gone(ours, "web")
	l.Expect("the other selects the pods: the owned one is deleted", gone)
	before := theirs.DeepCopy()
	theirs.Status.ObservedGeneration, theirs.Status.DisruptionsAllowed = theirs.Generation, 1
	if err := l.Admin.Status().Patch(t.Context(), theirs, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.Expect("its status")
	l.Restart()
	l.Expect("restart")

	l.Edit(theirs, "unowned", func() { theirs.Spec.Selector.MatchLabels = map[string]string{"app": "other"} })
	l.Until("the owned PodDisruptionBudget again", ours, "web", func() bool { return true })
	// The object may have been deleted while no operator ran.
	l.Expect("it selects others now", "get webservers 200", made)

	if err := l.Admin.Delete(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	l.Create(selecting(map[string]string{}))
	l.Gone(ours, "web")
	l.Expect("one of all pods", gone)

	// A PodDisruptionBudget that the user asks for is created, and the consequence
	// is reported.
	l.Edit(w, "web", func() {
		w.Spec.PodDisruptionBudget = &common.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(2))}
	})
	l.Until("the PodDisruptionBudget of the spec", ours, "web", func() bool { return ours.Spec.MaxUnavailable.IntVal == 2 })
	told := func() bool {
		c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, `PodDisruptionBudget "unowned" selects the pods too`)
	}
	l.Until("that to be told", w, "web", told)
	l.Requests()
	l.Restart()
	l.Expect("restart with both")
	if err := l.Admin.Delete(t.Context(), selecting(nil)); err != nil {
		t.Fatal(err)
	}
	l.Until("nothing to be told", w, "web", func() bool { return !told() })
	l.Expect("the other is deleted, the owned one stays", status)
}

// A kept content costs one write of the Deployment more.
func TestWebServer_RequestBudgetOfKeptContent(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	w := webServer(l.Namespace, "web")
	publishing("v1")(&w.Spec)
	l.Create(w)
	l.Ready(w, "web")
	l.Requests()
	l.Edit(w, "web", func() { publishing("v2")(&w.Spec) })
	l.Ready(w, "web")
	written := map[string]int{}
	for _, r := range l.Requests() {
		if r.IsWrite() && r.Resource != "webservers/status" { // pods that are ready at once need one of it
			written[r.Resource]++
		}
	}
	if diff := cmp.Diff(map[string]int{"configmaps": 1, "controllerrevisions": 1, "deployments": 2}, written); diff != "" {
		t.Errorf("another content: writes (-want +got):\n%s", diff)
	}
	l.Restart()
	l.Expect("restart")
}

// The port http3 follows the node port of https, which Kubernetes allocates, and is no repair.
func TestWebServer_RequestBudgetOfHTTP3(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	w, s := webServer(l.Namespace, "web"), &corev1.Service{}
	w.Spec.Service = &webserverv1.ServiceSpec{Type: corev1.ServiceTypeNodePort}
	l.Create(w)
	l.Ready(w, "web")
	l.Requests()
	l.Edit(w, "web", func() {
		w.Spec.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "web-tls"}, HTTP3: true}
	})
	l.Until("one node port for both", s, "web-service", func() bool {
		return len(s.Spec.Ports) == 3 && s.Spec.Ports[1].NodePort != 0 && s.Spec.Ports[1].NodePort == s.Spec.Ports[2].NodePort
	})
	l.Ready(w, "web")
	written := map[string]int{}
	for _, r := range l.Requests() {
		if r.IsWrite() && r.Resource != "webservers/status" { // how many depends on the pods
			written[r.Resource]++
		}
	}
	if diff := cmp.Diff(map[string]int{"configmaps": 1, "controllerrevisions": 1, "deployments": 1, "services": 2}, written); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	l.Restart()
	l.Expect("restart")
}

// A canary costs one write of the Deployment more, and is held whatever happens to the
// operator.
func TestWebServer_RequestBudgetOfCanary(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	w, d := webServer(l.Namespace, "web"), &appsv1.Deployment{}
	w.Spec.Rollout = &common.Rollout{Canary: &common.Canary{Promote: common.PromoteManual}}
	l.Create(w)
	l.Ready(w, "web")
	wrote := func(what string, want map[string]int) {
		t.Helper()
		got := map[string]int{}
		for _, r := range l.Requests() {
			if r.IsWrite() && r.Code < 300 && r.Resource != "webservers/status" { // how many depends on the pods
				got[r.Resource]++
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", what, diff)
		}
	}
	held := func(image string) func() bool {
		return func() bool {
			s := d.Spec
			return s.Template.Spec.Containers[0].Image == image && s.MinReadySeconds == math.MaxInt32-1 &&
				d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == 1
		}
	}
	l.Requests()
	l.Edit(w, "web", func() { w.Spec.Image = "nginx:1.23.0" })
	l.Until("the hold", d, "web", held("nginx:1.23.0"))
	l.Settle()
	wrote("a canary", map[string]int{"controllerrevisions": 1, "deployments": 1})
	l.Restart()
	l.Expect("restart")
	l.Edit(d, "web", func() { d.Spec.MinReadySeconds, d.Spec.ProgressDeadlineSeconds = 0, new(int32(600)) })
	l.Until("the repair", d, "web", held("nginx:1.23.0"))
	l.Edit(w, "web", func() { w.Spec.Rollout.PromotedRevision = new(int64(2)) })
	l.Ready(w, "web")
	l.Until("the promotion", d, "web", func() bool { return d.Spec.MinReadySeconds == 0 && len(d.Annotations[naming.AnnotationCanary]) == 0 })
	wrote("repaired and promoted", map[string]int{"deployments": 2})
	l.Restart()
	l.Expect("restart after the promotion")
}
