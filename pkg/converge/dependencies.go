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
	d := dependencies{owned: owned, main: plan.Main, planned: map[apply.Ref]apply.Intent{}, results: map[apply.Ref]error{}}
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
			err = blocked
			if in.Ref() == d.main {
				d.held = blocked
			}
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
	main    apply.Ref // that of the plan
	planned map[apply.Ref]apply.Intent
	results map[apply.Ref]error
	// held is the error of another child because of which the main child was not attempted.
	held error
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

// refused returns why a child may not be written because of the main child (Plan.Main), or nil. A
// child that does not exist is not created while the main child does not exist and was not
// attempted, or was not written because of another client: both may be unowned.
func (d dependencies) refused(ctx context.Context, in apply.Intent) error {
	main, planned := d.planned[d.main]
	if !planned || in.Ref() == d.main {
		return nil
	}
	err, exists := d.results[d.main], false
	if _, done := d.results[d.main]; !done || d.held != nil {
		// That another child belongs to another owner says nothing about the owner of this one.
		exists, err = d.owned(ctx, main)
	}
	switch {
	case isConflict(err):
		return err
	case d.held != nil && !exists:
		err = d.held
	case !fault.Classify(err).LostRace:
		return nil
	}
	if exists, unread := d.owned(ctx, in); unread == nil && !exists {
		return err
	}
	return nil
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
