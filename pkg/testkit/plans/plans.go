// Package plans determines which part of a plan a reconcile writes if a child
// cannot be written.
package plans

import (
	"context"
	"errors"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Written returns the children that a reconcile writes, in order, if those of one
// kind are rejected. exists reports whether a child exists.
func Written(plan converge.Plan, refused string, exists func(apply.Intent) bool) []apply.Intent {
	var written []apply.Intent
	owned := func(_ context.Context, in apply.Intent) (bool, error) { return exists(in), nil }
	_ = converge.ForEachChild(context.Background(), plan, owned, func(in apply.Intent) error {
		if in.Kind == refused {
			return errors.New("refused")
		}
		written = append(written, in)
		return nil
	}) // the error is that of the rejected children
	return written
}

// Kinds returns the kinds of children, in order.
func Kinds(children []apply.Intent) []string {
	var kinds []string
	for _, in := range children {
		kinds = append(kinds, in.Kind)
	}
	return kinds
}
