package immortalcontainer

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Observed is what desired needs to know of the cluster.
type Observed struct {
	// Pod is nil where none stands that is ours.
	Pod *corev1.Pod
	Now time.Time
}

func observer(now func() time.Time) func(context.Context, client.Reader, *immortalv1alpha1.ImmortalContainer) (Observed, error) {
	return func(ctx context.Context, r client.Reader, i *immortalv1alpha1.ImmortalContainer) (Observed, error) {
		pod, err := converge.Ours(ctx, r, i, podName(i), &corev1.Pod{})
		return Observed{Pod: pod, Now: now()}, err
	}
}
