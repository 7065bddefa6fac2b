package model

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/resources"
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
		if moved, err := c.reportMetrics(ctx, h); moved || err != nil || c.dead {
			return moved, err
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

// reportMetrics sets the condition of an autoscaler that reports whether it gets metrics.
func (c *Cluster) reportMetrics(ctx context.Context, h *autoscalingv2.HorizontalPodAutoscaler) (bool, error) {
	active := autoscalingv2.HorizontalPodAutoscalerCondition{Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue, Reason: "ValidMetricFound"}
	if c.dead {
		active.Status, active.Reason, active.Message = corev1.ConditionFalse, "FailedGetResourceMetric", "the metrics are not available"
	}
	if was := h.Status.Conditions; len(was) > 0 && was[0].Status == active.Status {
		return false, nil
	}
	active.LastTransitionTime = metav1.NewTime(time.Now().Add(-resources.ScalingStarts)) // which no chain waits for
	h.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{active}
	if err := c.client.Status().Update(ctx, h); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return false, fmt.Errorf("writing the status of an autoscaler: %w", err)
	}
	return true, nil
}
