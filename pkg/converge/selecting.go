package converge

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// selecting enqueues, with fairqueue.PriorityEvent, the objects of a kind whose
// pods an unowned object selects, or has selected before it was changed.
// Events of encoded types have only metadata, so it remembers the selectors.
type selecting struct {
	objects client.Reader // a cache
	kind    AnyKind
	of      func() client.Object // returns an empty unowned object

	mu   sync.Mutex
	last map[client.ObjectKey]labels.Selector
}

func newSelecting(objects client.Reader, kind AnyKind, example client.Object) *selecting {
	return &selecting{
		objects: objects, kind: kind, last: map[client.ObjectKey]labels.Selector{},
		of: func() client.Object { return example.DeepCopyObject().(client.Object) },
	}
}

func (s *selecting) handler() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			after := s.selector(ctx, client.ObjectKeyFromObject(e.Object))
			before := s.replace(e.Object, after, labels.Nothing())
			// Every object of the kind is reconciled after the initial lists
			// anyway.
			if !e.IsInInitialList {
				s.enqueue(ctx, e.Object, q, before, after)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			after := s.selector(ctx, client.ObjectKeyFromObject(e.ObjectNew))
			s.enqueue(ctx, e.ObjectNew, q, s.replace(e.ObjectNew, after, labels.Everything()), after)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			s.enqueue(ctx, e.Object, q, s.replace(e.Object, nil, labels.Everything()), labels.Nothing())
		},
	}
}

// selector returns the selector of an unowned object in the cache.
func (s *selecting) selector(ctx context.Context, key client.ObjectKey) labels.Selector {
	o := s.of()
	switch err := s.objects.Get(ctx, key, o); {
	case apierrors.IsNotFound(err):
		return labels.Nothing()
	case err != nil:
		return labels.Everything()
	}
	selector, err := metav1.LabelSelectorAsSelector(s.kind.Selector(o))
	if err != nil {
		return labels.Nothing() // as Kubernetes does
	}
	return selector
}

// replace remembers the selector of an unowned object, unless it is nil, and
// returns the previous one, or unknown.
func (s *selecting) replace(o client.Object, now, unknown labels.Selector) labels.Selector {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	before, known := s.last[key]
	if !known {
		before = unknown
	}
	if now == nil {
		delete(s.last, key)
	} else {
		s.last[key] = now
	}
	return before
}

// enqueue adds the objects for which it matters that an unowned object selects
// other pods than before.
func (s *selecting) enqueue(ctx context.Context, o client.Object, q queue, before, after labels.Selector) {
	if before.String() == after.String() && before.Empty() == after.Empty() {
		return
	}
	l := s.kind.NewList().DeepCopyObject().(client.ObjectList)
	err := s.objects.List(ctx, l, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy)
	if err == nil {
		err = meta.EachListItem(l, func(item runtime.Object) error {
			obj := item.(Object)
			if s.affects(ctx, obj, before, after) {
				raised(q, 0).Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(obj)})
			}
			return nil
		})
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "Looking for the objects that a change matters to failed", "changed", client.ObjectKeyFromObject(o).String())
	}
}

// affects reports whether one of two selectors selects the pods of an object.
// It is true if the labels of the pods are not known, or may be about to change.
func (s *selecting) affects(ctx context.Context, obj Object, before, after labels.Selector) bool {
	if !isReconciled(obj) {
		return true
	}
	pods := labels.Set(s.kind.PodLabels(ctx, s.objects, obj))
	return len(pods) == 0 || before.Matches(pods) || after.Matches(pods)
}
