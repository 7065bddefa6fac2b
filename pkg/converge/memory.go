package converge

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/pkg/fault"
)

// memory is what is known of an object between reconciles. It is lost when the process ends.
type memory struct {
	// uid is that of the object. If it is lost, so is all that belongs to it.
	uid types.UID
	// postponed is the status that was decided, and not written yet. If it is lost, the
	// status is written earlier, and an event may be missing or sent twice.
	postponed postponed
	// races is how many reconciles in a row ended with a write conflict. If it is lost,
	// conflicts that last are reported up to two seconds later.
	races int
	// shared is the reason that the object stalled for, if others do in the same way. If it
	// is lost, the object is reconciled a minute later.
	shared string
	// finalized is the version of which the finalizer was removed. If it is lost, that may be
	// tried again before the cache has observed it.
	finalized string
}

// postponed is a status that was decided, but not written yet.
type postponed struct {
	since time.Time // since when a changed status has not been written
	// from has the status in the API server, and to the one that was decided.
	// Both have no spec.
	from, to Object
}

// fewRaces is how many consecutive reconciles of an object may end with a write
// conflict before it is treated as an error. At the retry interval of
// conflicts, they take two seconds.
const fewRaces = 20

// classify classifies an error. A write conflict is reported, and retried with
// back-off, once there have been more than fewRaces in a row.
func (r *Reconciler) classify(key types.NamespacedName, err error) fault.Verdict {
	v := fault.Classify(err)
	v.Result.RequeueAfter = r.share(key, v)
	if !v.LostRace {
		return v
	}
	r.change(key, func(m *memory) { m.races++ })
	if r.recall(key).races > fewRaces {
		return fault.ClassifyLasting(err)
	}
	return v
}

// failed returns the result of a reconcile that ends with an error, which may be nil.
func (r *Reconciler) failed(key types.NamespacedName, err error) (reconcile.Result, error) {
	v := r.classify(key, err)
	return v.Result, v.Err
}

// sharedProbe is how often objects that stalled for the same shared reason are reconciled,
// at most, and longestProbe how long each of them waits.
const (
	sharedProbe  = 100 * time.Millisecond
	longestProbe = 10 * time.Minute
)

// share records whether the object stalled for a reason that it shares with others, and
// returns when it is reconciled again: the more there are, the later.
func (r *Reconciler) share(key types.NamespacedName, v fault.Verdict) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, alike := r.objects[key], 0
	m.shared = ""
	if v.Shared {
		m.shared = v.Reason
	}
	r.objects[key] = m
	if m.shared == "" {
		return v.Result.RequeueAfter
	}
	for _, other := range r.objects {
		if other.shared == m.shared {
			alike++
		}
	}
	all := min(time.Duration(alike)*sharedProbe, longestProbe)
	return max(v.Result.RequeueAfter, time.Duration(float64(v.Result.RequeueAfter)*all.Seconds()/fault.Probe.Seconds()))
}

// remember forgets what is known of an earlier object of the name.
func (r *Reconciler) remember(key types.NamespacedName, obj Object) {
	if r.recall(key).uid != obj.GetUID() {
		r.forget(key)
		r.change(key, func(m *memory) { m.uid = obj.GetUID() })
	}
}

// recall returns what is remembered about an object.
func (r *Reconciler) recall(key types.NamespacedName) memory {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.objects[key]
}

// change changes what is remembered about an object that is being reconciled.
func (r *Reconciler) change(key types.NamespacedName, do func(*memory)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.objects[key]
	do(&m)
	r.objects[key] = m
}

// forget removes the state of an object, and reports whether there was any.
func (r *Reconciler) forget(key types.NamespacedName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, known := r.objects[key]
	r.applier.Forget(m.uid)
	r.refs.Forget(m.uid)
	delete(r.objects, key)
	return known
}
