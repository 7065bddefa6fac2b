package model

import (
	"context"
	"fmt"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// history is every version of the Deployment of a chain, because some violations last
// only for an instant.
type history struct {
	stop func()

	mu          sync.Mutex
	deployments []*appsv1.Deployment
}

func watchHistory(ctx context.Context, c client.WithWatch, namespace string) (*history, error) {
	w, err := c.Watch(ctx, &appsv1.DeploymentList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("watching the Deployments: %w", err)
	}
	h := &history{stop: w.Stop}
	go func() {
		for ev := range w.ResultChan() {
			if d, ok := ev.Object.(*appsv1.Deployment); ok && ev.Type != watch.Deleted && d.DeletionTimestamp.IsZero() {
				h.mu.Lock()
				h.deployments = append(h.deployments, d)
				h.mu.Unlock()
			}
		}
	}()
	return h, nil
}

// since returns the versions of Deployments after the first n, and their total
// number.
func (h *history) since(n int) ([]*appsv1.Deployment, int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.deployments[n:], len(h.deployments)
}
