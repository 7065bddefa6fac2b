package apply

import (
	"context"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// attempt is the application of one intent. Apply executes it, Diff only evaluates it.
type attempt struct {
	*Applier
	owner Owner
	in    Intent
	completed
	// fields are the fields that the completed intent states, once they are needed: most
	// intents are fulfilled, and need only the hash.
	fields map[string]any
	// action is what has to be done: Unchanged, Created, Changed or TakenOver.
	action Action
	// differences are the fields that differ, of a child that is Changed.
	differences []Difference
	// claim selects the fields that the apply has to remove although other managers own
	// them, so they must be claimed first. It may be nil.
	claim compare.Scope
	// drift is how the child differs, if its desired state has not changed since it
	// was last applied.
	drift Drift
	// handedOver reports that fields were handed over already. This is not
	// repeated if only the status has changed since then.
	handedOver bool
}

func (a *Applier) begin(owner Owner, in Intent) *attempt {
	return &attempt{Applier: a, owner: owner, in: in}
}

// evaluate compares a live child, which may come from the cache, with the
// intent. It writes nothing. The error says why the child may not be written.
func (t *attempt) evaluate(live client.Object) (err error) {
	if t.in.IfExists != nil {
		// Also for a child whose owner reference was removed: it exists, although it
		// is not observed as a child of the owner.
		t.in = t.in.instead(t.in.IfExists(live))
		if t.completed, err = t.in.complete(t.owner); err != nil {
			return err
		}
	}
	if err := checkOwnership(t.owner, t.in, live); err != nil {
		return err
	}
	if t.fields, err = t.stated(); err != nil {
		return err
	}
	// The managed fields in the cache are reduced to the names of the managers.
	// If the operator is not among them, the child was created by another
	// operator.
	if !slices.ContainsFunc(live.GetManagedFields(), compare.IsOurs) {
		t.action = TakenOver
		t.claim = t.claims(live)
		return nil
	}
	differences := compare.Compare(live, t.fields, t.in.Exclusive)
	if len(differences) == 0 || t.isAnswered(differences) {
		t.action = Unchanged
		return nil
	}
	t.action, t.differences = Changed, differences
	if live.GetAnnotations()[naming.AnnotationApplied] == t.hash {
		t.drift = DriftFields
	}
	if slices.ContainsFunc(differences, Difference.IsExtra) {
		t.claim = t.claims(live)
	}
	return nil
}

// claims selects additions in exclusive paths and, of a child that is taken over, what
// legacy operators wrote.
func (t *attempt) claims(live client.Object) compare.Scope {
	extra, takesOver := compare.Extra(compare.Compare(live, t.fields, t.in.Exclusive)), t.action == TakenOver
	return func(e metav1.ManagedFieldsEntry, path string) bool {
		return extra(e, path) || takesOver && compare.LegacyOperators(e, path)
	}
}

// Difference is a field that Apply would change.
type Difference = compare.Difference

// Preview describes what Apply would do to a child.
type Preview struct {
	// Action is Unchanged, Created, Changed or TakenOver.
	Action Action
	// Live is the live child, or nil if it does not exist.
	Live client.Object
	// Fields are the paths of the fields that differ, as far as the cache shows them, without
	// the operator's annotations.
	Fields string
	// Stated are the fields of the child that would be applied, if there are differences.
	Stated map[string]any
	// Differences lists the reasons, sorted by path. It is empty if the child
	// would be left unchanged or created.
	Differences []Difference
}

// Diff returns what Apply would do to a child. It writes nothing. For an unowned child it
// returns the error that Apply would return.
//
// If complete is true, it also reads children from the API server that the cache does not
// hold, because Apply would adopt them, and returns all differences, with the fields that
// would be removed. That needs complete managed fields, which the operator's own cache does
// not have.
func (a *Applier) Diff(ctx context.Context, owner Owner, in Intent, complete bool) (_ Preview, err error) {
	t := a.begin(owner, in)
	if t.completed, err = in.complete(owner); err != nil {
		return Preview{}, err
	}
	live, err := read(ctx, a.client, in)
	if err == nil && live == nil && complete { // or it lost the operator's label, without which the cache does not hold it
		live, err = read(ctx, a.live, in)
	}
	if err != nil || live == nil {
		return Preview{Action: Created}, err
	}
	err = t.evaluate(live)
	p := Preview{Action: t.action, Live: live, Fields: pathsOf(t.differences, false)}
	if err == nil && complete && t.action != Unchanged {
		p.Stated = t.fields
		p.Differences, err = t.changes(live)
	}
	return p, err
}

// changes returns what the requests of Apply would change. A difference of the hash of the
// last applied intent follows from the others, so it is returned only if it is the only one.
func (t *attempt) changes(live client.Object) ([]Difference, error) {
	next := live.DeepCopyObject().(client.Object)
	claimed, err := compare.Claim(live, t.claim)
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
