package apply

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Owner is the object whose children are applied.
type Owner struct {
	Object client.Object
	GVK    metav1.GroupVersionKind
	// Elapsed returns the time since the reconcile began, before its first read.
	// It limits how long a reconcile may write. If nil, there is no limit.
	Elapsed func() time.Duration
	// Reconciled reports that the owner was reconciled before. A child that does not
	// exist may then have been deleted because the owner was, which the cache may not
	// have observed yet.
	Reconciled bool
}

// Action is what a reconcile did to a child.
type Action string

// The actions of a reconcile. Unchanged costs no request.
const (
	Unchanged Action = "unchanged"
	Created   Action = "created"
	Changed   Action = "changed"
	TakenOver Action = "taken-over"
	Deleted   Action = "deleted"
	Released  Action = "released"
)

// Child is a child after the reconcile: the live object as held by the cache or
// returned by the API server.
type Child struct {
	Live   client.Object
	Action Action
	// Dispute is an error to report if another client keeps changing the child. It
	// holds nothing back. Differs reports that the repair is postponed.
	Dispute error
	Differs bool
	// Restored are the fields that another client changed and that were restored.
	Restored string
	// KeptSince is the generation since which no change concerned the child's pods
	// (Intent.KeepsPods), or 0 if the last one did, or if that is not known.
	KeptSince int64
}

// Recorder counts what is done to the children of a kind. It may be called concurrently, and
// may be nil.
type Recorder func(owner, child string, e Event)

// Event is a write of a child, or an attempt.
type Event struct {
	// Action is what was done. If it is Unchanged, the child matches already, and is
	// therefore not written. It is "" if Err is not nil.
	Action Action
	// Err is why the child could not be written.
	Err error
	// Drift is not empty if the write only repaired drift: the desired state of the child
	// had not changed.
	Drift Drift
	// Contested reports that the API server's response lacks fields that were just
	// applied, because a webhook or another controller keeps changing them.
	Contested bool
}

// Drift is how a child differed from its unchanged desired state.
type Drift string

// The kinds of drift.
const (
	DriftFields  Drift = "fields"
	DriftDeleted Drift = "deleted"
)

// Applier applies intents. It is safe for concurrent use by several
// controllers, as long as one owner is reconciled by one worker at a time.
type Applier struct {
	client client.Client // cached reads, and writes
	live   client.Reader // uncached reads, for objects that the cache does not hold
	record Recorder
	now    func() time.Time

	mu     sync.Mutex
	owners map[types.UID]children
}

// NewApplier returns an Applier that reads from the cache of c, and from live
// the objects that the cache does not hold because they lack the operator's
// label.
func NewApplier(c client.Client, live client.Reader, record Recorder) *Applier {
	return &Applier{client: c, live: live, record: record, now: time.Now, owners: map[types.UID]children{}}
}

func (t *attempt) count(e Event) {
	if t.record != nil {
		t.record(t.owner.GVK.Kind, t.in.Kind, e)
	}
}

// Apply creates or updates one child so that it matches the intent. It sends no
// request if the child matches already. The returned child is the live object
// afterwards.
func (a *Applier) Apply(ctx context.Context, owner Owner, in Intent) (Child, error) {
	t := a.begin(owner, in)
	child, err := t.runOrFallBack(ctx)
	if err != nil {
		t.count(Event{Err: err})
		return child, err
	}
	if child.Dispute == nil { // it was changed again after all prompt repairs
		child.Dispute = t.dispute(promptRepairs+1, disputeEnds)
	}
	if child.Action == Unchanged {
		t.count(Event{Action: Unchanged})
	}
	child.KeptSince = t.recall().written.keptSince(child.Live)
	return child, nil
}

// retryRefused is the first interval after which an intent that was refused,
// perhaps only temporarily, is retried. The next intervals double the time.
const retryRefused = 250 * time.Millisecond

// runOrFallBack applies the intent, or its fallback once it has been refused for long enough.
func (t *attempt) runOrFallBack(ctx context.Context) (Child, error) {
	in := t.in // run may replace it
	child, err := t.run(ctx)
	if err == nil || in.Fallback == nil {
		t.refusedSince(time.Time{})
		return child, err
	}
	other, ok := in.Fallback(err)
	if !ok {
		return child, err
	}
	since, now := t.recall().refused, t.now()
	if since.IsZero() {
		since = now
	}
	if left := in.FallbackAfter - now.Sub(since); left > 0 {
		t.refusedSince(since)
		return child, &fault.Error{
			Class: fault.Wait, Reason: msgFallback.Reason(), Err: err,
			Message: msgFallback.With(in), After: min(left, max(retryRefused, now.Sub(since))),
		}
	}
	log.FromContext(ctx).Info("The API server refused a child; applying its fallback", "child", in.String(), "refusal", err.Error())
	t.refusedSince(time.Time{})
	return t.begin(t.owner, in.instead(other)).run(ctx)
}

func (t *attempt) refusedSince(begin time.Time) {
	if known := t.recall(); known.refused != begin {
		known.refused = begin
		t.remember(known)
	}
}

// Delete deletes an owned child that is no longer wanted, provided that it is
// still in the observed version: if it has changed since, it may be unowned, or
// wanted by a later leader. A child that is unowned or already being deleted is
// not changed.
func (a *Applier) Delete(ctx context.Context, owner Owner, kind string, live client.Object) error {
	t := a.begin(owner, Named(kind, live))
	t.remember(facts{})
	if !Owns(owner.Object, live) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if !metav1.IsControlledBy(live, owner.Object) && live.GetAnnotations()[naming.AnnotationOrphanOf] == "" && owner.Object.GetDeletionTimestamp().IsZero() {
		// The garbage collector may have removed the owner reference to orphan the
		// child.
		if err := t.ownerExists(ctx); err != nil {
			return err
		}
	}
	observed := client.Preconditions{UID: new(live.GetUID()), ResourceVersion: new(live.GetResourceVersion())}
	err := t.write("deleting", func() error {
		return a.client.Delete(ctx, live, observed, client.PropagationPolicy(metav1.DeletePropagationBackground))
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	t.count(Event{Action: Deleted})
	return nil
}
