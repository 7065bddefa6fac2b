package converge

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// deletions are the objects that are being deleted, and how. The finalizer of a
// foreground deletion is removed by the garbage collector, possibly before the
// deletion is reconciled. But each version of an object causes an event, so it is
// recorded from the events. The zero value is ready for use.
type deletions struct {
	mu sync.Mutex
	of map[types.UID]deletion
}

type deletion struct {
	version    string // of the last event
	foreground bool
}

// observe records how an object is being deleted. It may be deleted again, in another
// way, while its finalizers keep it.
func (d *deletions) observe(o client.Object) {
	if o.GetDeletionTimestamp().IsZero() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	was := d.of[o.GetUID()]
	is := deletion{version: o.GetResourceVersion(), foreground: was.foreground}
	switch f := o.GetFinalizers(); {
	case slices.Contains(f, metav1.FinalizerOrphanDependents):
		is.foreground = false
	case slices.Contains(f, metav1.FinalizerDeleteDependents):
		is.foreground = true
	}
	if d.of == nil {
		d.of = map[types.UID]deletion{}
	}
	d.of[o.GetUID()] = is
}

// inForeground reports whether an object is being deleted in the foreground. known is
// false until the event of this version has been observed, because the cache holds a
// version before the handlers get its event and those of earlier ones.
func (d *deletions) inForeground(o client.Object) (foreground, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is := d.of[o.GetUID()]
	return is.foreground, is.version == o.GetResourceVersion()
}

func (d *deletions) forget(o client.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, o.GetUID())
}
