package converge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// reconciliation is one reconcile of an object that is not being deleted.
type reconciliation struct {
	*Reconciler
	obj   Object
	owner apply.Owner
	// observed are the objects that Observe read one by one, and empty ones for those that were
	// not found. The cache changes during a reconcile: an observed child may have been deleted or
	// replaced before its intent is applied.
	observed map[apply.ChildKey]client.Object
	out      Outcome
}

// apply applies the model's plan.
func (c *reconciliation) apply(ctx context.Context, model Model) error {
	plan, err := model.Plan()
	unwritten := c.write(ctx, plan)
	// A plan that comes with an error may lack children. For those, the memory saves
	// at most one request, but revisions would accumulate in it as long as the error
	// persists.
	c.applier.ForgetOthers(c.owner, plan.Apply)
	return errors.Join(err, unwritten)
}

// write applies a plan. A child that cannot be written blocks only those that
// depend on it.
func (c *reconciliation) write(ctx context.Context, plan Plan) error {
	if c.kind.Paused(c.obj) {
		return errors.Join(c.look(ctx, plan), c.setOwners(ctx, plan))
	}
	var disputes []error
	errs := []error{c.forEachChild(ctx, plan, func(in apply.Intent) error {
		k := in.ChildKey()
		if o, ok := c.observed[k]; ok {
			in.ObservedUID = new(o.GetUID())
		}
		child, err := c.applier.Apply(ctx, c.owner, in)
		if err == nil {
			c.out.children[k] = child
			disputes = append(disputes, child.Dispute)
			if child.Restored != "" {
				c.event(c.obj, child.Live, "Normal", msgRestored.Reason(), "Apply", msgRestored.With(in, child.Restored))
			}
		}
		return err
	})}
	errs = append(errs, disputes...)
	for _, p := range plan.Prune {
		errs = append(errs, c.applier.Delete(ctx, c.owner, kindOf(p), p))
	}
	errs = append(errs, c.setOwners(ctx, plan))
	return errors.Join(errs...)
}

// setOwners makes the owner references of all children follow the deletion policy: those
// that were applied, those that could not be, and those that were observed but whose desired
// state could not be decided.
func (c *reconciliation) setOwners(ctx context.Context, plan Plan) error {
	done := map[apply.ChildKey]bool{}
	var errs []error
	set := func(k apply.ChildKey, live client.Object, bound bool) {
		if !done[k] && live.GetResourceVersion() != "" { // it exists
			errs = append(errs, c.applier.SetOwner(ctx, c.owner, k.Kind, live, bound || !apply.Orphans(c.obj)))
		}
		done[k] = true
	}
	for _, in := range plan.Apply {
		k := in.ChildKey()
		if child, ok := c.out.children[k]; ok {
			set(k, child.Live, in.DeleteOnOrphan)
		} else if c.unavailable.has(in.Kind) {
			errs = append(errs, c.applier.SetOwnerOf(ctx, c.owner, in))
		}
		done[k] = true
	}
	for _, p := range plan.Prune {
		k := apply.ChildKey{Kind: kindOf(p), ObjectKey: client.ObjectKeyFromObject(p)}
		if c.kind.Paused(c.obj) && c.staysUnwanted(c.obj, p) {
			set(k, p, false)
		}
		done[k] = true // deleted, or together with the owner
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.observed), func(a, b apply.ChildKey) int { return cmp.Compare(a.Kind, b.Kind) }) {
		set(k, c.observed[k], false)
	}
	return errors.Join(errs...)
}

// forEachChild calls do for the children of a plan whose types are available,
// in the order of the plan and as permitted by their dependencies.
func (c *reconciliation) forEachChild(ctx context.Context, plan Plan, do func(apply.Intent) error) error {
	owned := func(ctx context.Context, in apply.Intent) (bool, error) { return c.applier.Owned(ctx, c.owner, in) }
	return ForEachChild(ctx, plan, owned, func(in apply.Intent) error {
		if err := c.unavailable.check(in.Kind); err != nil {
			if in.Optional {
				return nil
			}
			return err
		}
		return do(in)
	})
}

// mostHeld is the maximum length in bytes of the children and fields that are listed.
const mostHeld = 400

// look returns the problems of all children, and an error that lists those that would be
// written if the object were not paused. It writes nothing.
func (c *reconciliation) look(ctx context.Context, plan Plan) error {
	var changed, created, deleted []string
	errs := []error{c.forEachChild(ctx, plan, func(in apply.Intent) error {
		would, err := c.applier.Diff(ctx, c.owner, in, false)
		if err == nil && would.Live != nil {
			c.out.children[in.ChildKey()] = apply.Child{Live: would.Live, Differs: would.Action != apply.Unchanged}
		}
		switch {
		case err != nil || would.Action == apply.Unchanged:
		case would.Live == nil:
			created = append(created, in.String()+" (to be created)")
		case would.Fields == "":
			changed = append(changed, in.String())
		default:
			changed = append(changed, fmt.Sprintf("%s (%s)", in, would.Fields))
		}
		return err
	})}
	for _, p := range plan.Prune {
		if p.GetDeletionTimestamp().IsZero() {
			deleted = append(deleted, fmt.Sprintf("%s %q (to be deleted)", kindOf(p), p.GetName()))
		}
	}
	if held := slices.Concat(changed, created, deleted); len(held) > 0 {
		what := fault.Clip(strings.Join(held, "; "), mostHeld)
		errs = append(errs, &fault.Error{Class: fault.Wait, Reason: msgPaused.Reason(), Message: msgPaused.Quoting(what)})
	}
	return errors.Join(errs...)
}
