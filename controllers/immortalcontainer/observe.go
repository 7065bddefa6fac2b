package immortalcontainer

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Observed is what desired needs to know of the cluster. A child that does not
// stand, or is not ours, is nil.
type Observed struct {
	Pod    *corev1.Pod
	Policy *networkingv1.NetworkPolicy
	Now    time.Time
}

func observer(now func() time.Time) func(context.Context, converge.Reader, *immortalv1alpha1.ImmortalContainer) (Observed, error) {
	return func(ctx context.Context, r converge.Reader, i *immortalv1alpha1.ImmortalContainer) (Observed, error) {
		pod, err := converge.Ours(ctx, r, i, podName(i), &corev1.Pod{})
		policy, policyErr := converge.Ours(ctx, r, i, podName(i), &networkingv1.NetworkPolicy{})
		return Observed{Pod: pod, Policy: policy, Now: now()}, errors.Join(err, policyErr)
	}
}
