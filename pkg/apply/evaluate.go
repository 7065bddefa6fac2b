package apply

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// attempt is the application of one intent. Apply executes it, NeedsApply and
// Diff only evaluate it.
type attempt struct {
	*Applier
	owner Owner
	in    Intent
	completed
	// fields are the fields that the completed intent states, once they are needed.
	fields map[string]any
	// handedOver reports that fields were handed over already. This is not
	// repeated if only the status has changed since then.
	handedOver bool
	// drift is how the child differs, if its desired state has not changed since it
	// was last applied.
	drift Drift
	// differs are the fields that differ, if drift is DriftFields.
	differs string
}

// begin completes an intent.
func (a *Applier) begin(ctx context.Context, owner Owner, in Intent) (*attempt, error) {
	t := &attempt{Applier: a, owner: owner, in: in}
	return t, t.complete(ctx)
}

func (t *attempt) complete(ctx context.Context) error {
	namespace, err := t.namespaceUID(ctx, t.owner, t.in)
	if err != nil {
		return err
	}
	t.completed, err = t.in.complete(t.owner.Object, t.owner.GVK, namespace)
	t.fields = nil
	return err
}

// decode sets fields. Most intents are fulfilled, and need only the hash.
func (t *attempt) decode() (err error) {
	if t.fields == nil {
		t.fields, err = t.stated()
	}
	return err
}

// evaluation is what has to be done about a child that exists.
type evaluation struct {
	// action is Unchanged, Changed or TakenOver.
	action Action
	// claim reports that other managers own fields that the apply has to remove,
	// so they must be claimed first.
	claim bool
}

// evaluate compares a live child, which may come from the cache, with the
// intent. It writes nothing. The error says why the child may not be written.
func (t *attempt) evaluate(ctx context.Context, live client.Object) (evaluation, error) {
	if t.in.IfExists != nil {
		// Also for a child whose owner reference was removed: it exists, although it
		// is not observed as a child of the owner.
		t.in = t.in.instead(t.in.IfExists(live))
		if err := t.complete(ctx); err != nil {
			return evaluation{}, err
		}
	}
	if err := checkOwnership(t.owner, t.in, live); err != nil {
		return evaluation{}, err
	}
	if err := t.decode(); err != nil {
		return evaluation{}, err
	}
	// The managed fields in the cache are reduced to the names of the managers.
	// If the operator is not among them, the child was created by another
	// operator.
	if !slices.ContainsFunc(live.GetManagedFields(), isOurs) {
		return evaluation{action: TakenOver, claim: true}, nil
	}
	r := t.compare.compare(live, t.fields, t.in.Exclusive)
	bound := !retained(t.owner, t.in) && retainedByPatch(live) // although it must not be
	applied := live.GetAnnotations()[naming.AnnotationApplied] == t.hash
	switch {
	case applied && !r.lacks && !r.extra && !bound:
		t.keepMatch(live, true)
		return evaluation{action: Unchanged}, nil
	case !bound && t.isContested(live):
		return evaluation{action: Unchanged}, nil
	case applied:
		t.drift, t.differs = DriftFields, t.differing(live, bound)
	}
	return evaluation{action: Changed, claim: r.extra || bound}, nil
}

// claims selects the fields that an action claims from other managers: all that
// a legacy operator wrote, or those that a child may hold only if the intent
// states them.
func (t *attempt) claims(act Action) scope {
	if act == TakenOver {
		return everythingOfLegacyOperators
	}
	exclusive := within(t.in.Exclusive, t.fields)
	return func(e metav1.ManagedFieldsEntry, path string) bool {
		return exclusive(e, path) || ownersByPatch(e, path)
	}
}
