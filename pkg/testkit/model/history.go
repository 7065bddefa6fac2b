package model

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is every version of the Deployment and the pods of a chain, because some
// violations last only for an instant.
type history struct {
	stop func()

	mu          sync.Mutex
	deployments []*appsv1.Deployment
	released    map[types.UID]bool // pods without a scheduling gate
}

func watchHistory(ctx context.Context, c client.WithWatch, namespace string) (*history, error) {
	deployments, err := c.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("watching the Deployments: %w", err)
	}
	pods, err := c.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("watching the pods: %w", err)
	}
	h := &history{released: map[types.UID]bool{}, stop: func() { deployments.Stop(); pods.Stop() }}
	go h.follow(deployments)
	go h.follow(pods)
	return h, nil
}

func (h *history) follow(w watch.Interface) {
	for ev := range w.ResultChan() {
		h.mu.Lock()
		switch o := ev.Object.(type) {
		case *appsv1.Deployment:
			if ev.Type != watch.Deleted && o.DeletionTimestamp.IsZero() {
				h.deployments = append(h.deployments, o)
			}
		case *corev1.Pod:
			if len(o.Spec.SchedulingGates) == 0 {
				h.released[o.UID] = true
			}
		}
		h.mu.Unlock()
	}
}

// since returns the versions of Deployments after the first n, and their total
// number.
func (h *history) since(n int) ([]*appsv1.Deployment, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deployments[n:], len(h.deployments)
}

// releasedPods returns how many pods have been allowed to run.
func (h *history) releasedPods() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.released)
}
