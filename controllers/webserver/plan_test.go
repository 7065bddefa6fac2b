package webserver

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/testkit/plans"
)

// Every prefix of the writes is a valid state, and a child that cannot be written
// does not affect the others.
func TestDesired_OrdersWhatDependsOnEachOther(t *testing.T) {
	full := func() *webserverv1.WebServer {
		w := sample()
		w.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
		w.Spec.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 4}
		w.Spec.Replicas = nil
		return w
	}
	type kinds = []string
	for name, tc := range map[string]struct {
		refused string
		runs    bool // revision 1 serves, and the spec asks for the next
		rests   bool // it was scaled to zero before that
		want    kinds
		image   string
	}{
		"nothing is refused": {
			"", false, false, kinds{"ConfigMap", "ControllerRevision", "NetworkPolicy", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}, "nginx:2",
		},
		"no pod is created before its NetworkPolicy": {
			"NetworkPolicy", false, false, kinds{"ConfigMap", "ControllerRevision"}, "",
		},
		"running pods are still managed": {
			"NetworkPolicy", true, false, kinds{"ConfigMap", "ControllerRevision", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}, "nginx:2",
		},
		"no pod is started before its NetworkPolicy": {
			"NetworkPolicy", true, true, kinds{"ConfigMap", "ControllerRevision", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}, "",
		},
		"no pod is created of a revision that is not recorded": {
			"ControllerRevision", false, false, kinds{"ConfigMap", "NetworkPolicy"}, "",
		},
		"what serves is kept until the revision is recorded": {
			"ControllerRevision", true, false, kinds{"ConfigMap", "NetworkPolicy", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}, "nginx:1",
		},
		"what serves is kept until the snapshots exist": {
			"ConfigMap", true, false, kinds{"ControllerRevision", "NetworkPolicy", "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget"}, "nginx:1",
		},
		"an unowned Service does not keep pods from being isolated": {
			"Service", false, false, kinds{"ConfigMap", "ControllerRevision", "NetworkPolicy", "Deployment", "HorizontalPodAutoscaler", "PodDisruptionBudget"}, "nginx:2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, o := full(), Observed{}
			if tc.runs {
				w.Spec.Image = "nginx:1"
				o, _ = pass(t, w, o, rolledOut)
			}
			if tc.rests {
				o.Deployment.Spec.Replicas, o.Deployment.Status.Replicas = new(int32(0)), 0
			}
			w.Spec.Image = "nginx:2"
			plan, err := desired(w, o, platform)
			if err != nil {
				t.Fatal(err)
			}
			written := plans.Written(plan, tc.refused, func(in apply.Intent) bool { return tc.runs && in.Kind != "ControllerRevision" })
			if diff := cmp.Diff(tc.want, plans.Kinds(written)); diff != "" {
				t.Errorf("written (-want +got):\n%s", diff)
			}
			image := ""
			for _, in := range written {
				if in.Kind == "Deployment" {
					image = sentDeployment(t, w, in).Spec.Template.Spec.Containers[0].Image
				}
			}
			if image != tc.image {
				t.Errorf("the Deployment has image %q, want %q", image, tc.image)
			}
		})
	}
}

func sentDeployment(t *testing.T, w *webserverv1.WebServer, in apply.Intent) *appsv1.Deployment {
	t.Helper()
	raw, err := in.Object(w, ownerKind)
	if err != nil {
		t.Fatal(err)
	}
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(raw, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// Everything except the template is still reconciled while the template cannot be
// determined.
func TestDesired_KeepsServingWhileSomethingIsMissing(t *testing.T) {
	for name, remove := range map[string]func(*webserverv1.WebServer, *Observed){
		"a ConfigMap": func(_ *webserverv1.WebServer, o *Observed) { o.Sources = nil },
		"the pinned revision": func(w *webserverv1.WebServer, _ *Observed) {
			w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(7))}
		},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(name+map[bool]string{true: " and the Deployment"}[lost], func(t *testing.T) {
				w := referring("cfg", "", "")
				o, _ := pass(t, w, sourced("return 200;"), rolledOut)
				before := o.Deployment.Spec.Template
				remove(w, &o)
				w.Spec.Replicas = new(int32(10))
				if lost {
					o.Deployment = nil
				}
				plan, err := desired(w, o, platform)
				if v := fault.Classify(err); v.Class != fault.Stall {
					t.Errorf("what is missing is not reported: %v", err)
				}
				found := false
				for _, in := range plan.Apply {
					if in.Kind != "Deployment" {
						continue
					}
					found = true
					d := sentDeployment(t, w, in)
					if *d.Spec.Replicas != 10 {
						t.Errorf("%d replicas, want 10", *d.Spec.Replicas)
					}
					if diff := cmp.Diff(before, d.Spec.Template); diff != "" {
						t.Errorf("template (-before +after):\n%s", diff)
					}
				}
				if !found {
					t.Errorf("the Deployment is neither scaled nor created again: %v", kinds(plan.Apply))
				}
				if len(plan.Prune) != 0 {
					t.Errorf("%v are deleted", plan.Prune)
				}
			})
		}
	}
}
