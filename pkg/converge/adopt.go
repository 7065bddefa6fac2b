package converge

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// adopt adopts the children of an earlier object of the same kind and name
// (docs/decisions/0023-estranged-children.md). This comes before everything else: the history
// of the object and the template that serves are among them, and a plan without
// them would replace the pods. So an error is also returned if children were adopted.
func (c *reconciliation) adopt(ctx context.Context) error {
	if c.kind.Labels == nil {
		return nil
	}
	labels := c.kind.Labels(c.obj)
	var errs []error
	for _, t := range c.kind.Children {
		kind := kindOf(t)
		disowned, err := c.listDisowned(ctx, t)
		if err != nil {
			return err
		}
		// As with the deletion policy, a revision or a Job is useless without the object.
		bound := !apply.Orphans(c.obj) || kind == "ControllerRevision" || kind == "Job"
		for _, o := range disowned {
			adopted, err := c.applier.Adopt(ctx, c.owner, kind, o, labels, bound)
			if adopted {
				err = &fault.Error{Class: fault.Quiet, Message: "children were adopted, which were not observed"}
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// listDisowned returns the metadata of the children of a type in the namespace that have no
// controller, and name this object or none. Usually there are none.
func (c *reconciliation) listDisowned(ctx context.Context, t client.Object) (all []client.Object, err error) {
	for _, of := range []string{naming.Disowned, apply.OrphanOf(c.owner)} {
		found, err := listLike(ctx, c.client, c.client.Scheme(), t, client.InNamespace(c.obj.GetNamespace()),
			client.MatchingFields{naming.IndexDisowned: of}, client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}
