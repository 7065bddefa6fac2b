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

// Observed is the part of the cluster state that the plan and the status depend on.
// A child that does not exist or is not owned is nil.
type Observed struct {
	// Seen contains all pods with the labels of this cache, even if no rollout is
	// in progress.
	rollout.Seen
	Service *corev1.Service
	Budget  *policyv1.PodDisruptionBudget
	Policy  *networkingv1.NetworkPolicy
	// Budgets are the PodDisruptionBudgets in the namespace that this object does
	// not own.
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
	// The status lists the serving pods even if no rollout is in progress.
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(m.Namespace), client.MatchingLabels(labels(m))); err != nil {
		return o, fmt.Errorf("listing the pods of %q: %w", m.Name, err)
	}
	o.Pods = pods.Items
	return o, nil
}
