package memcached

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// Observed is what desired and report need to know of the cluster. A child
// that does not stand, or is not ours, is nil.
type Observed struct {
	// Seen has all pods that carry the labels of this cache, at any time.
	rollout.Seen
	Service *corev1.Service
	Budget  *policyv1.PodDisruptionBudget
	Policy  *networkingv1.NetworkPolicy
	// Budgets are those of others in the namespace.
	Budgets []policyv1.PodDisruptionBudget
}

func observe(ctx context.Context, r converge.Reader, m *cachev1alpha1.Memcached) (Observed, error) {
	var o Observed
	var errs [5]error
	o.Seen, errs[0] = rollout.Observe(ctx, r, m, m.Name, labels(m))
	o.Service, errs[1] = converge.Ours(ctx, r, m, m.Name, &corev1.Service{})
	o.Budget, errs[2] = converge.Ours(ctx, r, m, m.Name, &policyv1.PodDisruptionBudget{})
	o.Policy, errs[3] = converge.Ours(ctx, r, m, m.Name, &networkingv1.NetworkPolicy{})
	o.Budgets, errs[4] = workload.Budgets(ctx, r, m)
	if err := errors.Join(errs[:]...); err != nil || o.Pods != nil {
		return o, err
	}
	// The status lists the pods that serve, also when nothing is rolled out.
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(m.Namespace), client.MatchingLabels(labels(m))); err != nil {
		return o, fmt.Errorf("listing the pods of %q: %w", m.Name, err)
	}
	o.Pods = pods.Items
	return o, nil
}
