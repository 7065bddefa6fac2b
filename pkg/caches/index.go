package caches

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// AddIndexes adds the indexes by which children are found: ControllerRevisions,
// ConfigMaps and Jobs by the UID of their owner (naming.IndexOwner), children without a controller
// (naming.IndexDisowned), and unowned objects (naming.IndexUnowned). children are empty
// objects of the types that are cached.
func AddIndexes(ctx context.Context, to client.FieldIndexer, children []client.Object) error {
	owned := []client.Object{&appsv1.ControllerRevision{}, &corev1.ConfigMap{}, &batchv1.Job{}}
	return errors.Join(
		index(ctx, to, children, owned, naming.IndexOwner, ownerUID),
		index(ctx, to, children, children, naming.IndexDisowned, disownedBy),
		index(ctx, to, children, unownedTypes(), naming.IndexUnowned, isUnowned),
	)
}

// index adds an index for those of the types that are children of a kind.
func index(ctx context.Context, to client.FieldIndexer, children, types []client.Object, name string, values client.IndexerFunc) error {
	done := map[reflect.Type]bool{}
	for _, indexed := range types {
		t := reflect.TypeOf(indexed)
		if done[t] {
			continue
		}
		if done[t] = true; !slices.ContainsFunc(children, func(c client.Object) bool { return reflect.TypeOf(c) == t }) {
			continue
		}
		if err := to.IndexField(ctx, indexed, name, values); err != nil {
			return fmt.Errorf("indexing %T: %w", indexed, err)
		}
	}
	return nil
}

// ownerUID returns the value of naming.IndexOwner for an object.
func ownerUID(o client.Object) []string {
	if uid := naming.OwnerUID(o); uid != "" {
		return []string{string(uid)}
	}
	return nil
}

// disownedBy returns the value of naming.IndexDisowned for an object.
func disownedBy(o client.Object) []string {
	switch of := o.GetAnnotations()[naming.AnnotationOrphanOf]; {
	case !naming.IsDisowned(o):
		return nil
	case of != "":
		return []string{of}
	}
	return []string{naming.Disowned}
}

// unownedTypes returns the types whose unowned objects are also in the caches,
// because they affect the operator's objects. A namespace contains few of them,
// and they are small.
func unownedTypes() []client.Object { return []client.Object{&policyv1.PodDisruptionBudget{}} }

// isUnowned returns the value of naming.IndexUnowned for an object.
func isUnowned(o client.Object) []string {
	if naming.IsChild(o) {
		return nil
	}
	return []string{naming.Unowned}
}
