package converge

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// arrival is how long after its definition a type is looked for: the API
// server takes a moment to serve it.
const arrival = 2 * time.Second

// optional are the types that a kind makes and that the cluster does not know
// yet.
type optional struct {
	mapper  meta.RESTMapper
	cache   cache.Cache
	control controller.Controller
	handler handler.EventHandler

	mu      sync.Mutex
	missing map[string]missing // by kind
}

// missing is a type that the cluster does not know.
type missing struct {
	empty client.Object
	gvk   schema.GroupVersionKind
}

// newOptional sorts the types into those that the cluster knows, and the rest.
func newOptional(mgr manager.Manager, types []client.Object) (known []client.Object, o *optional, err error) {
	o = &optional{mapper: mgr.GetRESTMapper(), cache: mgr.GetCache(), missing: map[string]missing{}}
	for _, t := range types {
		gvk, err := apiutil.GVKForObject(t, mgr.GetScheme())
		if err != nil {
			return nil, nil, fmt.Errorf("looking up %T: %w", t, err)
		}
		switch _, err := o.mapper.RESTMapping(gvk.GroupKind(), gvk.Version); {
		case meta.IsNoMatchError(err):
			o.missing[gvk.Kind] = missing{t, gvk}
		case err != nil:
			return nil, nil, fmt.Errorf("asking whether the cluster knows %s: %w", gvk, err)
		default:
			known = append(known, t)
		}
	}
	return known, o, nil
}

// watch looks out for the definitions of what is missing. objects lists the
// kind's objects: each gets a pass when a type has arrived.
func (o *optional) watch(objects func(context.Context) ([]reconcile.Request, error)) error {
	if len(o.missing) == 0 {
		return nil
	}
	var wanted []string
	for _, m := range o.missing {
		plural, _ := meta.UnsafeGuessKindToResource(m.gvk)
		wanted = append(wanted, plural.Resource+"."+m.gvk.Group)
	}
	come := func(ctx context.Context, d client.Object, q queue) {
		if !slices.Contains(wanted, d.GetName()) {
			return
		}
		all, err := objects(ctx)
		if err != nil {
			log.FromContext(ctx).Error(err, "Listing what may need a type that has arrived", "definition", d.GetName())
		}
		for _, r := range all {
			q.AddAfter(r, arrival)
		}
	}
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	err := o.control.Watch(source.Kind[client.Object](o.cache, definition, handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { come(ctx, e.Object, q) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { come(ctx, e.ObjectNew, q) },
	}))
	if err != nil {
		return fmt.Errorf("watching definitions: %w", err)
	}
	return nil
}

// lacks tells whether o is of a type that the cluster did not know when it was
// last asked for. It asks nobody.
func (o *optional) lacks(child client.Object) bool {
	if o == nil {
		return false
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.missing {
		if reflect.TypeOf(m.empty) == reflect.TypeOf(child) {
			return true
		}
	}
	return false
}

// ensure makes sure that children of a kind can be read and written. The error
// says that the cluster does not know it.
func (o *optional) ensure(ctx context.Context, kind string) error {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	m, isMissing := o.missing[kind]
	if !isMissing {
		return nil
	}
	if _, err := o.mapper.RESTMapping(m.gvk.GroupKind(), m.gvk.Version); err != nil {
		if !meta.IsNoMatchError(err) {
			return fmt.Errorf("asking whether the cluster knows %s: %w", m.gvk.Kind, err)
		}
		return fault.Stalled(common.ReasonFeatureUnavailable,
			"this cluster does not know %s of %s, or a feature gate keeps the operator from it; it is made as soon as its definition is installed", m.gvk.Kind, m.gvk.GroupVersion())
	}
	if _, err := o.cache.GetInformer(ctx, m.empty); err != nil {
		return fmt.Errorf("reading %s: %w", m.gvk.Kind, err)
	}
	if err := o.control.Watch(source.Kind(o.cache, m.empty, o.handler)); err != nil {
		return fmt.Errorf("watching %s: %w", m.gvk.Kind, err)
	}
	delete(o.missing, kind)
	log.FromContext(ctx).Info("The cluster has come to know a type", "kind", m.gvk.Kind)
	return nil
}
