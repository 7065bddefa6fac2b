package testkit

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Rollouts plays the Deployment controller and the kubelets: every Deployment
// is rolled out and available at once. It returns when ctx ends.
func (e *Env) Rollouts(ctx context.Context) error {
	w, err := e.Admin.Watch(ctx, &appsv1.DeploymentList{})
	if err != nil {
		return fmt.Errorf("watching Deployments: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, open := <-w.ResultChan():
			if !open {
				if ctx.Err() != nil {
					return nil
				}
				return e.Rollouts(ctx) // the server closed the watch
			}
			if d, ok := ev.Object.(*appsv1.Deployment); ok && ev.Type != watch.Deleted {
				// No pod is ready in the instant that its Deployment changes.
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
				if err := e.Rollout(ctx, d); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	}
}

// Rollout writes the status of a Deployment that is rolled out.
func (e *Env) Rollout(ctx context.Context, d *appsv1.Deployment) error {
	if d.Status.ObservedGeneration == d.Generation || !d.DeletionTimestamp.IsZero() {
		return nil
	}
	n := int32(1)
	if d.Spec.Replicas != nil {
		n = *d.Spec.Replicas
	}
	before := d.DeepCopy()
	now := metav1.Now()
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", LastUpdateTime: now, LastTransitionTime: now},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastUpdateTime: now, LastTransitionTime: now},
		},
	}
	err := e.Admin.Status().Patch(ctx, d, client.MergeFrom(before))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("rolling out Deployment %s: %w", client.ObjectKeyFromObject(d), err)
	}
	return nil
}

// Kubelet plays the scheduler and the kubelets for pods that are ready to be
// scheduled: each runs and is ready at once. It returns when ctx ends.
func (e *Env) Kubelet(ctx context.Context) error {
	w, err := e.Admin.Watch(ctx, &corev1.PodList{})
	if err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case ev, open := <-w.ResultChan():
			if !open {
				if ctx.Err() != nil {
					return nil
				}
				return e.Kubelet(ctx)
			}
			if p, ok := ev.Object.(*corev1.Pod); ok && ev.Type != watch.Deleted {
				if err := e.runPod(ctx, p); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
	}
}

func (e *Env) runPod(ctx context.Context, p *corev1.Pod) error {
	ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	if len(p.Spec.SchedulingGates) > 0 || ended || p.Status.ObservedGeneration == p.Generation || !p.DeletionTimestamp.IsZero() {
		return nil
	}
	before, now := p.DeepCopy(), metav1.Now()
	p.Status.ObservedGeneration = p.Generation
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	err := e.Admin.Status().Patch(ctx, p, client.MergeFrom(before))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("running pod %s: %w", client.ObjectKeyFromObject(p), err)
	}
	return nil
}
