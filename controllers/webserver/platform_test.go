package webserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Admission may be off, and the configuration may have become stricter since.
func TestDesired_DoesNotRouteDisallowedHosts(t *testing.T) {
	strict := platform
	strict.Gateways = []config.Gateway{{Namespace: "gateways", Name: "public"}}
	strict.Hosts = []config.Hosts{{Namespaces: []string{"default"}, Hosts: []string{"*.example.com"}}}
	for _, tc := range []struct{ gateway, host, want string }{
		{"public", "a.example.com", ""}, // the message if it is rejected
		{"public", "a.b", "spec.expose.hosts[0]: Forbidden: the platform configuration does not let"},
		{"ops", "a.example.com", "spec.expose.gateway.parentRef: Forbidden: the platform configuration does not let"},
	} {
		w := sample()
		w.Spec.Expose = &common.Expose{Type: common.ExposeGateway, Hosts: []string{tc.host}, Gateway: &common.ExposeGatewayOptions{
			ParentRef: common.GatewayReference{Namespace: "gateways", Name: tc.gateway},
		}}
		plan, err := desired(w, Observed{}, strict)
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.Contains(kinds(plan.Apply), "HTTPRoute"); got != (tc.want == "") {
			t.Errorf("%s by %s: got HTTPRoute created %v", tc.host, tc.gateway, got)
		}
		report(w, Observed{}, outcome(nil, liveDeployment(allAvailable(3)), liveService(func(*corev1.Service) {})), strict)
		c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionExposed)
		if c == nil || (c.Reason == common.ReasonNotAllowed) != (tc.want != "") || tc.want != "" && !strings.Contains(c.Message, tc.want) {
			t.Errorf("%s by %s: Exposed is %+v, want %q", tc.host, tc.gateway, c, tc.want)
		}
	}
}

func TestDesired_ServiceAccountNeedsThePlatformsPermission(t *testing.T) {
	granting := platform
	granting.ServiceAccounts = true
	w := sample()
	w.Spec.Pod = &common.Pod{ServiceAccountName: "robot"}
	o, _ := passOn(t, granting, w, Observed{}, rolledOut)
	pod := o.Deployment.Spec.Template.Spec
	if pod.ServiceAccountName != "robot" || pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		t.Fatalf("granted, the pods run as %q, token %v", pod.ServiceAccountName, pod.AutomountServiceAccountToken)
	}

	refused := func(t *testing.T, o Observed, runsAs string) {
		t.Helper()
		plan, err := desired(w, o, platform)
		if v := fault.Classify(err); v.Class != fault.Stall || v.Reason != common.ReasonNotAllowed ||
			!strings.HasPrefix(v.Message, `The platform configuration does not allow pods to run as service account "robot"`) {
			t.Errorf("got %v", err)
		}
		for _, in := range plan.Apply {
			if in.Kind != "Deployment" {
				continue
			}
			if got := sentDeployment(t, w, in).Spec.Template.Spec.ServiceAccountName; o.Deployment == nil || got != runsAs {
				t.Errorf("there is a Deployment: %v; one whose pods run as %q is written", o.Deployment != nil, got)
			}
		}
		if got := kinds(plan.Apply); slices.Contains(got, "Deployment") != (o.Deployment != nil) || len(plan.Prune) > 0 {
			t.Errorf("got %v written and %v deleted: a Deployment that serves must still be managed", got, plan.Prune)
		}
		report(w, o, outcome(err, o.Deployment, o.Service), platform)
		if c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionStalled); c == nil || c.Reason != common.ReasonNotAllowed {
			t.Errorf("conditions are %+v", w.Status.Conditions)
		}
	}
	t.Run("from the start", func(t *testing.T) { refused(t, Observed{}, "") })
	t.Run("after it was withdrawn", func(t *testing.T) { refused(t, o, "robot") })
	t.Run("after it was withdrawn, and the Deployment is lost", func(t *testing.T) {
		lost := o
		lost.Deployment = nil
		refused(t, lost, "")
	})
	t.Run("by an earlier revision", func(t *testing.T) {
		w.Spec.Pod = nil
		o, _ := passOn(t, granting, w, o, rolledOut)
		w.Spec.Rollout = &common.Rollout{PinnedRevision: new(int64(1))}
		refused(t, o, "")
	})
	t.Run("but not to go", func(t *testing.T) {
		w.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		if _, err := desired(w, o, platform); err != nil {
			t.Errorf("an object that is being deleted: %v", err)
		}
	})
}

// Other settings of the platform must not replace pods.
func TestDesired_NewSettingsWaitForTheNextRevision(t *testing.T) {
	w := sample()
	w.Spec.Monitoring = &common.Monitoring{Enabled: true}
	exporter := func(o Observed) string {
		for _, c := range o.Deployment.Spec.Template.Spec.Containers {
			if c.Name == exporterName {
				return c.Image
			}
		}
		return ""
	}
	o, _ := pass(t, w, Observed{}, rolledOut)
	before := exporter(o)
	if before != platform.WebServer.ExporterImage {
		t.Fatalf("the exporter is %q", before)
	}
	later := platform
	later.WebServer.ExporterImage = "registry.example/exporter:2"
	later.Pods.TolerationSeconds, later.Pods.UserNamespaces = 60, true
	o, _ = passOn(t, later, w, o, rolledOut)
	if got := exporter(o); got != before || w.Status.Revisions.Current != 1 {
		t.Errorf("the exporter is %q, revision %d: the pods were replaced", got, w.Status.Revisions.Current)
	}
	if diff := cmp.Diff([]string{"spec.containers[exporter].image would change", "spec.hostUsers would be added", "spec.tolerations would change"}, w.Status.PendingChanges); diff != "" {
		t.Errorf("what is pending (-want +got):\n%s", diff)
	}
	w.Spec.Image = "nginx:1.27.4"
	o, _ = passOn(t, later, w, o, rolledOut)
	if got := exporter(o); got != "registry.example/exporter:2" || len(w.Status.PendingChanges) > 0 {
		t.Errorf("after a change the exporter is %q, pending %v", got, w.Status.PendingChanges)
	}
	if got := *o.Deployment.Spec.Template.Spec.Tolerations[0].TolerationSeconds; got != 60 {
		t.Errorf("after a change lost nodes are tolerated for %d seconds", got)
	}
	if got := o.Deployment.Spec.Template.Spec.HostUsers; got == nil || *got {
		t.Error("after a change the pods are in the user namespace of the node")
	}
}
