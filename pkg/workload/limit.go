package workload

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/rolloutlimit"
)

// limiter limits the rollouts that shared ConfigMaps and Secrets start.
type limiter struct{ *rolloutlimit.Limiter }

// Run enables the limit.
func (l limiter) Run(ctx context.Context, cache client.Reader, kind string, wake func(types.NamespacedName)) {
	l.Limiter.Run(func(namespace string) ([]string, error) {
		all := &appsv1.DeploymentList{}
		if err := cache.List(ctx, all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing %T: %w", all, err)
		}
		var names []string
		for i := range all.Items {
			if owner := metav1.GetControllerOf(&all.Items[i]); owner != nil && owner.Kind == kind && rollout.IsShared(&all.Items[i]) {
				names = append(names, owner.Name)
			}
		}
		return names, nil
	}, wake)
}

// Limit makes the model keep the revision that was decided last if the rollout
// that it starts has to wait. A change of the pods in the spec of the object never
// waits; scaling is no such change. If the model could not decide what the spec asks
// for, the object keeps its slot.
func (l limiter) Limit(obj converge.Object, model converge.Model) {
	m := model.(*Model)
	next := m.before.revision
	if m.Err != nil && next == nil {
		return
	}
	key, d, live := client.ObjectKeyFromObject(obj), &m.Decision, m.observed.Deployment
	rolling, failed := d.SharedRollout(live)
	asks := m.asks()
	edited := obj.GetStatus().ObservedGeneration != obj.GetGeneration() && l.Asked(key) != asks
	defer l.Asks(key, asks)
	switch {
	case next != nil: // its rollout starts when the command has succeeded
		if edited {
			l.Edited(key, next.Hash())
		}
		if job := m.before.job; job != nil && !l.IsEdit(key, next.Hash()) {
			job.Annotate(naming.AnnotationSharedRollout, next.Hash())
		}
	case d.Unsettled() && edited || d.StartsRollout(live) && (edited || m.before.edited || l.IsEdit(key, d.Desired.Hash())):
		l.Edited(key, d.Desired.Hash())
	case d.Unsettled(): // its rollout starts when earlier pods have started
	case d.StartsRollout(live):
		l.request(key, m)
	case rolling:
		l.Rolling(key, failed)
	default:
		l.Release(key)
	}
}

// request starts the rollout of a model, or makes it wait.
func (l limiter) request(key client.ObjectKey, m *Model) {
	switch decision, err := l.Request(key, m.Decision.Desired.Hash()); {
	case err != nil:
		m.hold(err)
	case decision == rolloutlimit.Wait:
		m.hold(fault.Waiting(0, msgRolloutWaits))
	case decision == rolloutlimit.Hold:
		m.hold(fault.Waiting(0, msgRolloutHeld))
	default:
		m.Decision.MarkShared()
	}
}

// asks identifies what the object itself asks for, in this process only: other than a hash
// that is stored, it needs no canonical JSON, which costs several copies of the content.
func (m *Model) asks() string {
	asks := m.inputs
	if of, ok := asks.(Inputs); ok {
		asks = of.WithoutContent()
	}
	raw, err := json.Marshal(asks)
	if err != nil {
		return "" // the inputs have been encoded before
	}
	return hash.Bytes(m.spec.Kind, raw)
}

// hold keeps the revision that was decided last, for the given reason.
func (m *Model) hold(why error) {
	m.Decision, m.current, m.Err = m.Decision.Hold(m.observed.Observed, why)
	m.auxiliary.Pods = m.Decision.PodLabels(m.observed.Deployment)
}
