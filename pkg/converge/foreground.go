package converge

import (
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// foregroundDeletions are the objects that are being deleted in the foreground. The
// finalizer that shows this is removed by the garbage collector, possibly before the
// deletion is reconciled. But each version of an object causes an event, so it is
// recorded from the events. The zero value is ready for use.
type foregroundDeletions struct {
	mu   sync.Mutex
	uids map[types.UID]bool
}

// observe records how an object is being deleted. It may be deleted again, in another
// way, while its finalizers keep it.
func (d *foregroundDeletions) observe(o client.Object) {
	switch f := o.GetFinalizers(); {
	case o.GetDeletionTimestamp().IsZero():
	case slices.Contains(f, metav1.FinalizerOrphanDependents):
		d.forget(o)
	case slices.Contains(f, metav1.FinalizerDeleteDependents):
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.uids == nil {
			d.uids = map[types.UID]bool{}
		}
		d.uids[o.GetUID()] = true
	}
}

// includes reports whether an object is being deleted in the foreground.
func (d *foregroundDeletions) includes(o client.Object) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.uids[o.GetUID()] || slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents)
}

func (d *foregroundDeletions) forget(o client.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.uids, o.GetUID())
}
