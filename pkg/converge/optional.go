package converge

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
)

// unavailable contains the child types that the controllers cannot use until they start
// again, by kind: the API server did not serve or list them when the controllers started.
type unavailable map[string]unavailableType

type unavailableType struct {
	gvk schema.GroupVersionKind
	why *message.Message
}

// has reports whether children of a kind can be read and written.
func (u unavailable) has(kind string) bool {
	_, lacks := u[kind]
	return !lacks
}

// check returns the reason why children of a kind cannot be read and written, or nil.
func (u unavailable) check(kind string) error {
	t, lacks := u[kind]
	if !lacks {
		return nil
	}
	return fault.Stalled(t.why, fmt.Sprintf("%s (%s)", kind, t.gvk.GroupVersion()))
}

// splitOptional splits the optional types of a kind into those that can be watched and
// the others. A controller that waits for a list at its start would end if
// the list is refused, and with it the reconciles of all objects.
func splitOptional(mgr manager.Manager, types []client.Object, listable func(schema.GroupVersionKind) error) (known []client.Object, u unavailable, err error) {
	u = unavailable{}
	for _, t := range types {
		gvk, err := apiutil.GVKForObject(t, mgr.GetScheme())
		if err != nil {
			return nil, nil, fmt.Errorf("looking up %T: %w", t, err)
		}
		why, err := examine(mgr.GetRESTMapper(), gvk, listable)
		switch {
		case why == msgNotListed:
			mgr.GetLogger().Error(err, "A type cannot be listed, and is used when it can be", "type", gvk.String())
		case err != nil:
			return nil, nil, err
		}
		if why != nil {
			u[gvk.Kind] = unavailableType{gvk, why}
			continue
		}
		known = append(known, t)
	}
	return known, u, nil
}

// examine returns why a type is not available, or nil if it is.
func examine(m meta.RESTMapper, gvk schema.GroupVersionKind, listable func(schema.GroupVersionKind) error) (why *message.Message, err error) {
	switch _, err := m.RESTMapping(gvk.GroupKind(), gvk.Version); {
	case meta.IsNoMatchError(err):
		return msgNotAvailable, nil
	case err != nil:
		return nil, fmt.Errorf("looking up whether the cluster serves %s: %w", gvk, err)
	}
	if err := listable(gvk); err != nil {
		return msgNotListed, err
	}
	return nil, nil
}

// listTimeout is how long the list of a type may take.
const listTimeout = 10 * time.Second

// checkList returns why a type cannot be listed in one of the watched namespaces, or
// nil. No namespaces are all of them. A namespace in which the objects of the kind cannot be
// listed either is skipped, as by the caches.
func checkList(r client.Reader, namespaces []string, kind, of schema.GroupVersionKind) error {
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	list := func(gvk schema.GroupVersionKind, namespace string) error {
		l := &metav1.PartialObjectMetadataList{}
		l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		return r.List(ctx, l, client.InNamespace(namespace), client.Limit(1))
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	for _, n := range namespaces {
		err := list(of, n)
		if err == nil || apierrors.IsForbidden(err) && apierrors.IsForbidden(list(kind, n)) {
			continue
		}
		return fmt.Errorf("listing %s: %w", of.Kind, err)
	}
	return nil
}

// available reports whether one of the types has become available. It returns no error: an
// API server that does not answer is asked again.
func (u unavailable) available(m meta.RESTMapper, listable func(schema.GroupVersionKind) error) bool {
	for _, t := range u {
		if why, err := examine(m, t.gvk, listable); why == nil && err == nil {
			return true
		}
	}
	return false
}
