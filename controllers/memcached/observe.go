package memcached

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Observed is what desired and report need to know of the cluster.
type Observed struct {
	// Service is nil where none stands or it is not ours.
	Service *corev1.Service
	// Pods are those that carry the labels of this cache.
	Pods []corev1.Pod
}

func observe(ctx context.Context, r client.Reader, m *cachev1alpha1.Memcached) (Observed, error) {
	var o Observed
	var err error
	if o.Service, err = converge.Ours(ctx, r, m, m.Name, &corev1.Service{}); err != nil {
		return o, err
	}
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(m.Namespace), client.MatchingLabels(labels(m))); err != nil {
		return o, fmt.Errorf("listing the pods of %q: %w", m.Name, err)
	}
	o.Pods = pods.Items
	return o, nil
}
