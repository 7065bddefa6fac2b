package converge

import (
	"context"
	"errors"
	"fmt"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// ForEachChild calls do for the children of a plan in order, except for those
// that must not be written because of the result of another child, and returns
// all errors, joined. A failed child blocks only the children that depend on
// it, except that no child is written after the deletion of the owner was found.
// owned is Applier.Owned for the owner of the plan.
func ForEachChild(ctx context.Context, plan Plan, owned func(context.Context, apply.Intent) (exists bool, err error), do func(apply.Intent) error) error {
	d := dependencies{owned: owned, planned: map[apply.Ref]apply.Intent{}, results: map[apply.Ref]error{}, blocked: map[apply.Ref]bool{}}
	for _, in := range plan.Apply {
		d.planned[in.Ref()] = in
	}
	var errs []error
	for _, in := range plan.Apply {
		resolved, blocked, err := d.resolve(ctx, in)
		switch {
		case err != nil:
			errs = append(errs, err)
		case blocked == nil:
			err = do(resolved)
			errs = append(errs, err)
		default:
			err, d.blocked[in.Ref()] = blocked, true
			if isConflict(blocked) { // so that all conflicts are reported at once
				if _, own := d.owned(ctx, in); isConflict(own) {
					errs = append(errs, own)
				}
			}
		}
		if errors.Is(err, apply.ErrOwnerDeleted) {
			break
		}
		d.results[in.Ref()] = err
	}
	return errors.Join(errs...)
}

// dependencies holds the results of the children that were handled so far.
type dependencies struct {
	owned   func(context.Context, apply.Intent) (bool, error)
	planned map[apply.Ref]apply.Intent
	results map[apply.Ref]error
	// blocked are the children that were not attempted because of another child.
	// Their result is the result of that child.
	blocked map[apply.Ref]bool
}

// resolve returns the intent to apply for a child, which is the intent itself
// or its alternative. blocked is the error of the child that prevents this one
// from being written; ForEachChild has already reported it.
func (d dependencies) resolve(ctx context.Context, in apply.Intent) (resolved apply.Intent, blocked, err error) {
	if blocked := d.refused(ctx, in); blocked != nil {
		return in, blocked, nil
	}
	missing, err := d.failure(in, in.Requires)
	if err != nil {
		return in, nil, err
	}
	late, err := d.failure(in, in.StartAfter)
	if err != nil || missing == nil && late == nil {
		return in, nil, err
	}
	exists, err := d.owned(ctx, in)
	switch {
	case exists && err != nil:
		return in, nil, nil //nolint:nilerr // do reports why it may not be written
	case err != nil:
		return in, nil, err
	case late != nil && (!exists || in.Starts):
		return in, late, nil
	}
	if missing != nil && in.Otherwise != nil {
		if other, ok := in.Otherwise(); ok {
			return other, nil, nil
		}
	}
	return in, missing, nil
}

// refused returns why no child may be written that accompanies what in accompanies, or nil.
// A child that does not exist is not created while one that it accompanies does not exist and
// was not attempted, or was not written because of another client: both may be unowned.
func (d dependencies) refused(ctx context.Context, in apply.Intent) error {
	for _, ref := range in.Accompanies {
		err := d.ownership(ctx, ref)
		if isConflict(err) {
			return err
		}
		if d.blocked[ref] {
			if exists, _ := d.owned(ctx, d.planned[ref]); !exists {
				err = d.results[ref]
			}
		} else if !fault.Classify(err).LostRace {
			continue
		}
		if exists, unread := d.owned(ctx, in); unread == nil && !exists && err != nil {
			return err
		}
	}
	return nil
}

// ownership returns why a child could not be written. For a child that was not
// attempted, or comes later in the plan, it reads the cache: that another child
// belongs to another owner says nothing about the owner of this one.
func (d dependencies) ownership(ctx context.Context, ref apply.Ref) error {
	if err, done := d.results[ref]; done && !d.blocked[ref] {
		return err
	}
	in, ok := d.planned[ref]
	if !ok {
		return nil
	}
	_, err := d.owned(ctx, in)
	return err
}

// failure returns the first error of the children that in depends on.
func (d dependencies) failure(in apply.Intent, refs []apply.Ref) (failure, err error) {
	for _, ref := range refs {
		if _, ok := d.planned[ref]; !ok {
			continue
		}
		result, done := d.results[ref]
		switch {
		case !done:
			return nil, fmt.Errorf("%s depends on %s %q, which comes later in the plan", in, ref.Kind, ref.Name)
		case result != nil:
			return result, nil
		}
	}
	return nil, nil
}

func isConflict(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	return ok && f.Reason == common.ReasonConflict
}
