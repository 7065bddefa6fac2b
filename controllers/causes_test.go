package controllers

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// What keeps pods from serving has the same reason for every kind.
func TestReconcile_ReasonNamesTheCause(t *testing.T) {
	waits := func(reason, message string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	}
	pending := func(of corev1.PodConditionType, reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: of, Status: corev1.ConditionFalse, Reason: reason}}}
	}
	refused := func(why string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-1", errors.New(why))
	}
	const denied = `denied the request: it has no owner`
	causes := []struct {
		name string
		// Either a container of the pods is as container states, or the pods are as status
		// states, or they are refused.
		container *corev1.ContainerStatus
		injected  bool
		status    corev1.PodStatus
		refused   error
		want      string
	}{
		{name: "the image cannot be pulled", container: &corev1.ContainerStatus{State: waits("ImagePullBackOff", "not found")}, want: common.ReasonImagePull},
		{
			name:      "the command does not exist",
			container: &corev1.ContainerStatus{State: waits("RunContainerError", `exec: "nosuch": executable file not found in $PATH`)}, want: common.ReasonContainerNotCreated,
		},
		{
			name: "the container exits", container: &corev1.ContainerStatus{RestartCount: 1, State: waits("CrashLoopBackOff", ""), LastTerminationState: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"},
			}}, want: common.ReasonCrash,
		},
		{name: "a probe fails", container: &corev1.ContainerStatus{Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}, want: common.ReasonNotReady},
		{name: "a Secret is missing", container: &corev1.ContainerStatus{State: waits("CreateContainerConfigError", `secret "key" not found`)}, want: common.ReasonReferenceNotFound},
		{name: "the image of an injected container", container: &corev1.ContainerStatus{State: waits("ErrImagePull", "not found")}, injected: true, want: common.ReasonInjectedContainer},
		{name: "no node", status: pending(corev1.PodScheduled, corev1.PodReasonUnschedulable), want: common.ReasonUnschedulable},
		{
			name: "the node is lost", status: corev1.PodStatus{
				Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: "any", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			}, want: common.ReasonNodeLost,
		},
		{name: "a quota", refused: refused("exceeded quota: small, requested: pods=1"), want: common.ReasonQuotaExceeded},
		{name: "a quota that requires limits", refused: refused("failed quota: small: must specify limits.cpu for: web"), want: common.ReasonQuotaExceeded},
		{name: "Pod Security", refused: refused(`violates PodSecurity "restricted:latest": runAsNonRoot != true`), want: common.ReasonAdmissionRefused},
		{name: "a LimitRange", refused: refused("maximum memory usage per Container is 128Mi, but limit is 1Gi"), want: common.ReasonAdmissionRefused},
		{name: "a policy", refused: refused("ValidatingAdmissionPolicy 'owners' with binding 'owners' denied request: no owner"), want: common.ReasonAdmissionRefused},
		{name: "a webhook", refused: apierrors.NewInternalError(errors.New(`admission webhook "p.example.com" ` + denied)), want: common.ReasonAdmissionRefused},
		{name: "a webhook that is down", refused: apierrors.NewInternalError(errors.New(`failed calling webhook "p.example.com": connection refused`)), want: common.ReasonWebhookFailed},
	}
	for _, k := range Kinds(config.Default()) {
		t.Run(k.Log.Key, func(t *testing.T) {
			s, got, want := newScene(t, k), map[string]string{}, map[string]string{}
			for _, c := range causes {
				if c.refused != nil {
					s.refusePods(c.refused)
				} else {
					s.breakPods(c.container, c.injected, c.status)
				}
				got[c.name], want[c.name] = s.reason(), c.want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the reasons of Ready (-want +got):\n%s", diff)
			}
		})
	}
}

// As long as pods are refused, the Deployment changes once a minute.
func TestReconcile_HasRefusedPodsTriedAgain(t *testing.T) {
	for _, k := range Kinds(config.Default()) {
		t.Run(k.Log.Key, func(t *testing.T) {
			s := newScene(t, k)
			// retried reconciles after some time, and returns when the pods were tried again last.
			retried := func(after time.Duration) string {
				s.clock = s.clock.Add(after - time.Minute)
				s.reason()
				at := ""
				s.editDeployment(func(d *appsv1.Deployment) { at = d.Annotations[naming.AnnotationRetriedAt] })
				return at
			}
			s.refusePods(errors.New("exceeded quota: small"))
			at := func(after time.Duration) string { return s.clock.Add(after).UTC().Format(time.RFC3339) }
			first, second := at(61*time.Second), at(121*time.Second)
			if k.Log.Key == "ImmortalContainer" {
				first, second = "", "" // the operator itself creates its pod
			}
			got := []string{retried(59 * time.Second), retried(2 * time.Second), retried(59 * time.Second), retried(time.Second)}
			s.editDeployment(func(d *appsv1.Deployment) { d.Status.Conditions = nil })
			got = append(got, retried(time.Minute))
			if diff := cmp.Diff([]string{"", first, first, second, ""}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", naming.AnnotationRetriedAt, diff)
			}
		})
	}
}

// reason reconciles a minute later, and returns the reason of Ready.
func (s *scene) reason() string {
	s.Helper()
	s.clock = s.clock.Add(time.Minute)
	s.refresh()
	_, _ = s.Reconcile(s.Context(), reconcile.Request{NamespacedName: s.key}) // errors are in the status
	obj := s.kind.New()
	if err := s.api.Get(s.Context(), s.key, obj); err != nil {
		s.Fatal(err)
	}
	if c := meta.FindStatusCondition(obj.GetStatus().Conditions, common.ConditionReady); c != nil && c.Status != "True" {
		return c.Reason
	}
	return "Ready"
}

// breakPods gives the pods that status, or one of their containers the status c.
func (s *scene) breakPods(c *corev1.ContainerStatus, injected bool, status corev1.PodStatus) {
	s.Helper()
	s.editDeployment(func(d *appsv1.Deployment) { d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0 })
	var pods corev1.PodList
	if err := s.api.List(s.Context(), &pods); err != nil {
		s.Fatal(err)
	}
	for _, p := range pods.Items {
		if c != nil {
			broken := *c
			status = corev1.PodStatus{
				Phase:      corev1.PodPending,
				Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady"}},
			}
			for _, own := range p.Spec.Containers {
				status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
					Name: own.Name, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				})
			}
			if broken.Name = p.Spec.Containers[0].Name; injected {
				broken.Name = "sidecar"
				status.ContainerStatuses = append(status.ContainerStatuses, broken)
			} else {
				status.ContainerStatuses[0] = broken
			}
		}
		p.Status = status
		if err := s.api.Status().Update(s.Context(), &p); err != nil {
			s.Fatal(err)
		}
	}
}

// refusePods deletes the pods, and lets the API server refuse others.
func (s *scene) refusePods(err error) {
	s.Helper()
	s.editDeployment(func(d *appsv1.Deployment) {
		d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0, 0, 0
		d.Status.Conditions = []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: err.Error(), LastTransitionTime: metav1.NewTime(s.clock),
		}}
	})
	s.refused = err
	var pods corev1.PodList
	if err := s.api.List(s.Context(), &pods); err != nil {
		s.Fatal(err)
	}
	for _, p := range pods.Items {
		if err := errors.Join(s.api.Delete(s.Context(), &p), s.cache.types[reflect.TypeFor[*corev1.Pod]()].Delete(&p)); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *scene) editDeployment(edit func(*appsv1.Deployment)) {
	s.Helper()
	var all appsv1.DeploymentList
	if err := s.api.List(s.Context(), &all); err != nil {
		s.Fatal(err)
	}
	for _, d := range all.Items {
		edit(&d)
		if err := s.api.Status().Update(s.Context(), &d); err != nil {
			s.Fatal(err)
		}
	}
}
