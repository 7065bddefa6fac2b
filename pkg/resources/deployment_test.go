package resources

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

func deployment(want, replicas, updated, available int32, conditions ...appsv1.DeploymentCondition) *appsv1.Deployment {
	d := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(want)}}
	d.Generation, d.Status.ObservedGeneration = 2, 2
	d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.AvailableReplicas = replicas, updated, available
	d.Status.Conditions = conditions
	return d
}

func cond(t appsv1.DeploymentConditionType, v corev1.ConditionStatus, message string) appsv1.DeploymentCondition {
	return appsv1.DeploymentCondition{Type: t, Status: v, Message: message}
}

func TestDeploymentState(t *testing.T) {
	available := cond(appsv1.DeploymentAvailable, corev1.ConditionTrue, "")
	unavailable := cond(appsv1.DeploymentAvailable, corev1.ConditionFalse, "")
	failing := cond(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "no")
	late := cond(appsv1.DeploymentProgressing, corev1.ConditionFalse, "")
	type reasons struct{ Available, Ready, Stalled string } // "+" before the reason if the condition is True

	for name, tc := range map[string]struct {
		d    *appsv1.Deployment
		want int32
		is   reasons
	}{
		"none":             {nil, 3, reasons{"NoReplicasAvailable", "Progressing", ""}},
		"new":              {deployment(3, 0, 0, 0), 3, reasons{"NoReplicasAvailable", "Progressing", ""}},
		"complete":         {deployment(3, 3, 3, 3, available), 3, reasons{"+ReplicasAvailable", "+Serving", ""}},
		"an old pod more":  {deployment(3, 4, 3, 4, available), 3, reasons{"+ReplicasAvailable", "Progressing", ""}},
		"not all updated":  {deployment(3, 3, 2, 3, available), 3, reasons{"+ReplicasAvailable", "Progressing", ""}},
		"others scaled it": {deployment(5, 5, 5, 5, available), 3, reasons{"+ReplicasAvailable", "Progressing", ""}},
		"zero":             {deployment(0, 0, 0, 0, available), 0, reasons{"ScaledToZero", "+ScaledToZero", ""}},
		"to zero":          {deployment(0, 1, 1, 1, available), 0, reasons{"+ReplicasAvailable", "Progressing", ""}},
		// Kubernetes reports Available=False while fewer than 75 % are available.
		"scaled up":        {deployment(4, 4, 4, 2, unavailable), 4, reasons{"+ReplicasAvailable", "Progressing", ""}},
		"a node is lost":   {deployment(3, 3, 3, 1, unavailable), 3, reasons{"+ReplicasAvailable", "Progressing", ""}},
		"all are lost":     {deployment(3, 3, 3, 0, unavailable), 3, reasons{"NoReplicasAvailable", "Progressing", ""}},
		"none must be":     {deployment(3, 3, 3, 0, available), 3, reasons{"NoReplicasAvailable", "Progressing", ""}}, // maxUnavailable is 100%
		"unknown":          {deployment(3, 3, 3, 2, cond(appsv1.DeploymentAvailable, corev1.ConditionUnknown, "")), 3, reasons{"+ReplicasAvailable", "Progressing", ""}},
		"failing":          {deployment(3, 1, 1, 1, unavailable, failing), 3, reasons{"+ReplicasAvailable", "", "+ReplicaFailure"}},
		"late":             {deployment(3, 3, 3, 0, unavailable, late), 3, reasons{"NoReplicasAvailable", "", "+RolloutFailed"}},
		"late and failing": {deployment(3, 1, 1, 1, unavailable, late, failing), 3, reasons{"+ReplicasAvailable", "", "+ReplicaFailure"}},
		"complete though once late": {
			deployment(3, 3, 3, 3, available, late, failing), 3, reasons{"+ReplicasAvailable", "+Serving", ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := DeploymentState(tc.d, tc.want)
			mark := func(holds bool, reason string) string {
				if holds {
					return "+" + reason
				}
				return reason
			}
			got := reasons{mark(s.Available.Status, s.Available.Reason), mark(s.Ready.Status, s.Ready.Reason), mark(s.Stalled.Status, s.Stalled.Reason)}
			if diff := cmp.Diff(tc.is, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeploymentState_IsProgressingUntilObserved(t *testing.T) {
	d := deployment(3, 3, 3, 3, cond(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "old"))
	d.Generation = 3
	s := DeploymentState(d, 3)
	if s.Ready.Status || s.Stalled.Status || s.Ready.Reason != common.ReasonProgressing {
		t.Errorf("got %+v", s)
	}
}

func TestComplete(t *testing.T) {
	unset := deployment(0, 1, 1, 1)
	unset.Spec.Replicas = nil // the default is one
	for name, tc := range map[string]struct {
		d    *appsv1.Deployment
		want bool
	}{
		"none":           {nil, false},
		"all":            {deployment(2, 2, 2, 2), true},
		"not yet":        {deployment(2, 2, 2, 1), false},
		"replicas unset": {unset, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Complete(tc.d); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestReplicaFailure_Message(t *testing.T) {
	for name, tc := range map[string]struct{ message, want string }{
		"generated name":    {`pods "web-7d4b9c6f5-abcde" is forbidden: exceeded quota: q`, `pod is forbidden: exceeded quota: q`},
		"singular":          {`pod "web-7d4b9c6f5-abcde" is forbidden`, `pod is forbidden`},
		"without a name":    {`admission webhook "x" denied the request`, `admission webhook "x" denied the request`},
		"names of no pods":  {`serviceaccount "default" not found`, `serviceaccount "default" not found`},
		"longer than usual": {strings.Repeat("x", 5000), strings.Repeat("x", 1024)},
	} {
		t.Run(name, func(t *testing.T) {
			s := DeploymentState(deployment(3, 0, 0, 0, cond(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, tc.message)), 3)
			if got := strings.TrimPrefix(s.Stalled.Message, "Pods cannot be created: "); got != tc.want+"." {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestDeploymentState_MessagesUseSingularAndPlural(t *testing.T) {
	for n, want := range map[int32]string{1: "1 replica is up to date and available.", 2: "2 replicas are up to date and available."} {
		if got := DeploymentState(deployment(n, n, n, n), n).Ready.Message; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// The API server replaces half a character by another one, so the status would
// differ in every reconcile.
func TestDeploymentState_CutsLongMessagesBetweenCharacters(t *testing.T) {
	m := strings.Repeat("€", 1000)
	s := DeploymentState(deployment(3, 0, 0, 0, cond(appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, m)), 3)
	if !utf8.ValidString(s.Stalled.Message) {
		t.Errorf("ends in %q", s.Stalled.Message[len(s.Stalled.Message)-4:])
	}
}

// A paused Deployment does not roll out anything, not even the revision of a
// rollback, and its deadline is never exceeded, so the failure would not be
// reported.
func TestDeployment_StatesThatItIsNotPaused(t *testing.T) {
	in := Deployment(Rolling{Name: "web", Namespace: "ns", Replicas: new(int32(3)), Selector: selector})
	if sent := sentAs(t, in); !strings.Contains(sent, `"paused":false`) {
		t.Errorf("spec.paused is not stated, so kubectl rollout pause is not undone: %s", sent)
	}
}

// sentAs returns the child as it would be sent.
func sentAs(t *testing.T, in apply.Intent) string {
	t.Helper()
	raw, err := in.Object(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1"}}, metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestDeployment_StartsAnAutoscaledOneOnlyIfItIsCreated(t *testing.T) {
	r := Rolling{Name: "web", Namespace: "ns", Replicas: new(int32(20)), Initial: true, Selector: selector}
	created := Deployment(r)
	if created.ReleaseFields != nil || !strings.Contains(sentAs(t, created), `"replicas":20`) {
		t.Error("it is not created with the given number")
	}
	if created.IfExists == nil {
		t.Fatal("one that exists is brought to the number that a new one starts with")
	}
	exists := created.IfExists(nil)
	if exists.ReleaseFields == nil || strings.Contains(sentAs(t, exists), "replicas") {
		t.Error("one that exists does not keep its number")
	}
	if diff := cmp.Diff(created.Exclusive, exists.Exclusive); diff != "" {
		t.Errorf("exclusive paths (-created +exists):\n%s", diff)
	}
	if r.Initial = false; Deployment(r).IfExists != nil {
		t.Error("replicas of the spec are those of a Deployment that exists, too")
	}
}
