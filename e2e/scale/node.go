package main

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const nodeName = "simulated"

// own are the conditions that the node sets on each pod; the others are readiness gates.
var own = []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized}

// node is a simulated node of endless capacity: pods that the scheduler binds to it
// become Ready at once, and pods that are being deleted are removed. No container runs.
type node struct {
	client client.Client
	pods   atomic.Uint32 // for their addresses
}

// simulateNode adds the node, and its controller to the manager.
func simulateNode(ctx context.Context, mgr manager.Manager) error {
	capacity := corev1.ResourceList{}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods} {
		capacity[name] = resource.MustParse("1P")
	}
	now := metav1.Now()
	condition := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated", LastHeartbeatTime: now, LastTransitionTime: now}
	n := &node{client: mgr.GetClient()}
	if err := n.client.Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux"}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity, Conditions: []corev1.NodeCondition{condition}},
	}); err != nil {
		return fmt.Errorf("creating the node: %w", err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: nodeName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: new(nodeName), LeaseDurationSeconds: new(int32(40)), RenewTime: &metav1.MicroTime{Time: now.Time}},
	}
	if err := n.client.Create(ctx, lease); err != nil {
		return fmt.Errorf("creating the Lease of the node: %w", err)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		for ; sleep(ctx, 10*time.Second) == nil; lease.Spec.RenewTime = new(metav1.NowMicro()) {
			_ = n.client.Update(ctx, lease) // the node becomes NotReady after four failures
		}
		return nil
	})); err != nil {
		return fmt.Errorf("renewing the Lease of the node: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).Named("node").For(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 16}).Complete(n)
}

// Reconcile sends the one request that the pod needs, if any.
func (n *node) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	pod := &corev1.Pod{}
	err := n.client.Get(ctx, request.NamespacedName, pod)
	switch {
	case err != nil || pod.Spec.NodeName == "":
	case pod.DeletionTimestamp != nil:
		err = n.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	default:
		before := pod.DeepCopy()
		if n.run(pod) {
			err = n.client.Status().Patch(ctx, pod, client.StrategicMergeFrom(before, client.MergeFromWithOptimisticLock{}))
		}
	}
	if apierrors.IsConflict(err) { // the watch will report what has changed
		err = nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(err)
}

// run sets the status of a pod whose containers run, and reports whether that changed
// it. Like on a real node, the pod is Ready once its readiness gates are True.
func (n *node) run(pod *corev1.Pod) bool {
	ready := corev1.ConditionTrue
	for _, gate := range pod.Spec.ReadinessGates {
		if conditionOf(pod, gate.ConditionType) != corev1.ConditionTrue {
			ready = corev1.ConditionFalse
		}
	}
	if pod.Status.Phase == corev1.PodRunning && conditionOf(pod, corev1.PodReady) == ready {
		return false
	}
	now, s := metav1.Now(), &pod.Status
	if s.Phase, s.StartTime, s.HostIP = corev1.PodRunning, &now, "10.10.10.1"; s.PodIP == "" {
		i := n.pods.Add(1)
		s.PodIP = fmt.Sprintf("10.%d.%d.%d", 128+i>>16&0x7f, i>>8&0xff, i&0xff)
		s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	}
	s.Conditions = slices.DeleteFunc(s.Conditions, func(c corev1.PodCondition) bool { return slices.Contains(own, c.Type) })
	for _, c := range own {
		status := corev1.ConditionTrue
		if c == corev1.PodReady {
			status = ready
		}
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: c, Status: status, LastTransitionTime: now})
	}
	s.ContainerStatuses = nil
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "simulated://" + c.Name, Ready: true, Started: new(true),
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return true
}

func conditionOf(pod *corev1.Pod, t corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range pod.Status.Conditions {
		if c.Type == t {
			return c.Status
		}
	}
	return ""
}
