package model

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// autoscale is one sync of the HorizontalPodAutoscaler. In a cluster it happens
// every 15 seconds, so it is called only when nothing else moves. Load is the
// number of pods that the metrics require; 0 means the current number.
func (c *Cluster) autoscale(ctx context.Context) (bool, error) {
	var all autoscalingv2.HorizontalPodAutoscalerList
	if err := c.client.List(ctx, &all, client.InNamespace(c.namespace)); err != nil {
		return false, fmt.Errorf("listing the autoscalers: %w", err)
	}
	for i := range all.Items {
		h := &all.Items[i]
		var d appsv1.Deployment
		err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: h.Spec.ScaleTargetRef.Name}, &d)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("reading the target of an autoscaler: %w", err)
		}
		if err != nil || !h.DeletionTimestamp.IsZero() || desiredReplicas(&d) == 0 {
			continue
		}
		want := desiredReplicas(&d)
		if c.Load > 0 {
			want = c.Load
		}
		least := int32(1)
		if h.Spec.MinReplicas != nil {
			least = *h.Spec.MinReplicas
		}
		want = min(max(want, least), h.Spec.MaxReplicas)
		if want == desiredReplicas(&d) {
			continue
		}
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: want}}
		err = c.client.SubResource("scale").Update(ctx, &d, client.WithSubResourceBody(scale), client.FieldOwner("kube-controller-manager"))
		if err != nil {
			return false, fmt.Errorf("scaling Deployment %s: %w", d.Name, err)
		}
		return true, nil
	}
	return false, nil
}
