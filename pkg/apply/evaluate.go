package apply

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
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
func (a *Applier) begin(owner Owner, in Intent) (*attempt, error) {
	t := &attempt{Applier: a, owner: owner, in: in}
	return t, t.complete()
}

func (t *attempt) complete() error {
	var err error
	t.completed, err = t.in.complete(t.owner)
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
	// claim selects the fields that the apply has to remove although other managers own
	// them, so they must be claimed first. It may be nil.
	claim compare.Scope
	// fields are the paths of the fields that differ, without the operator's annotations.
	fields string
}

// evaluate compares a live child, which may come from the cache, with the
// intent. It writes nothing. The error says why the child may not be written.
func (t *attempt) evaluate(live client.Object) (evaluation, error) {
	if t.in.IfExists != nil {
		// Also for a child whose owner reference was removed: it exists, although it
		// is not observed as a child of the owner.
		t.in = t.in.instead(t.in.IfExists(live))
		if err := t.complete(); err != nil {
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
	if !slices.ContainsFunc(live.GetManagedFields(), compare.IsOurs) {
		return evaluation{action: TakenOver, claim: compare.LegacyOperators}, nil
	}
	differences := compare.Compare(live, t.fields, t.in.Exclusive)
	if len(differences) == 0 || t.isAnswered(differences) {
		return evaluation{action: Unchanged}, nil
	}
	if live.GetAnnotations()[naming.AnnotationApplied] == t.hash {
		t.drift, t.differs = DriftFields, pathsOf(differences)
	}
	e := evaluation{action: Changed, fields: pathsOf(withoutOwn(differences))}
	if slices.ContainsFunc(differences, Difference.IsExtra) {
		e.claim = compare.Extra(differences)
	}
	return e, nil
}

// Difference is a field that Apply would change.
type Difference = compare.Difference

// Preview describes what Apply would do to a child.
type Preview struct {
	// Action is Unchanged, Created, Changed or TakenOver.
	Action Action
	// Live is the live child, or nil if it does not exist.
	Live client.Object
	// Stated are the fields of the child that would be applied, if there are differences.
	Stated map[string]any
	// Differences lists the reasons, sorted by path. It is empty if the child
	// would be left unchanged or created.
	Differences []Difference
}

// Diff returns what Apply would do to a child, and which fields are the
// reason. It writes nothing. For an unowned child it returns the error that
// Apply would return. Unlike NeedsApply, it also reads children from the API
// server that the cache does not hold, because Apply would adopt them.
//
// Fields that would be removed are reported only if the reader returns complete
// managed fields, which the operator's own cache does not.
func (a *Applier) Diff(ctx context.Context, owner Owner, in Intent) (Preview, error) {
	t, err := a.begin(owner, in)
	if err != nil {
		return Preview{}, err
	}
	live, err := a.cached(ctx, in)
	if err != nil {
		return Preview{}, err
	}
	if live == nil { // or it lost the operator's label, without which the cache does not hold it
		live = in.newLive()
		if err := a.live.Get(ctx, in.Key(), live); err != nil {
			if apierrors.IsNotFound(err) {
				return Preview{Action: Created}, nil
			}
			return Preview{}, fmt.Errorf("reading %s: %w", in, err)
		}
	}
	e, err := t.evaluate(live)
	if err != nil {
		return Preview{Action: Changed, Live: live}, err
	}
	p := Preview{Action: e.action, Live: live}
	if e.action == Unchanged {
		return p, nil
	}
	p.Stated = t.fields
	p.Differences, err = t.changes(live, e.claim)
	return p, err
}

// changes returns what the requests of Apply would change. A difference of the hash of the
// last applied intent follows from the others, so it is returned only if it is the only one.
func (t *attempt) changes(live client.Object, claim compare.Scope) ([]Difference, error) {
	next := live.DeepCopyObject().(client.Object)
	claimed, err := compare.Claim(live, claim)
	if claimed != nil {
		next.SetManagedFields(claimed)
	}
	if stays := t.in.releases(next); stays != nil && err == nil {
		next, err = compare.Applied(t.client.Scheme(), next, stays, handOverManager)
	}
	if err == nil {
		next, err = compare.Applied(t.client.Scheme(), next, t.fields, naming.FieldManager)
	}
	if err != nil {
		return nil, err
	}
	all, err := compare.Changes(live, next)
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(d Difference) bool { return d.Path == "metadata.annotations."+naming.AnnotationApplied })
	}
	return all, err
}
