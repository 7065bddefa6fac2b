package apply

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// onlyCreate is a resource version that no stored object has. An apply with it
// either creates the object or is answered with 409.
const onlyCreate = "1"

// maxSends is how often a write is sent if status updates cause conflicts.
const maxSends = 3

// run sends the requests that make the child match the intent.
func (t *attempt) run(ctx context.Context) (_ Child, err error) {
	if t.completed, err = t.in.complete(t.owner); err != nil {
		return Child{}, err
	}
	live, err := t.observed(ctx)
	if err != nil {
		return Child{}, err
	}
	isCached, last := live != nil, t.recall().written
	switch {
	case !isCached:
		if child, err := t.create(ctx); !apierrors.IsConflict(err) {
			return child, err
		}
		// It is unowned, or it lacks the operator's label, or the cache has not observed
		// the operator's own write yet.
		if live, err = t.readLive(ctx); err != nil {
			return Child{}, err
		}
	case last.isNewerThan(live):
		return Child{}, &fault.Error{Class: fault.Quiet, Message: "the cache does not hold the last write of " + t.in.String() + " yet"}
	case last.fulfils(t, live):
		return Child{Live: live, Action: Unchanged}, nil
	}
	if err := t.evaluate(live); err != nil {
		return Child{}, err
	}
	left := Child{Live: live, Action: Unchanged}
	if t.drift == DriftFields {
		left.Dispute = t.dispute(promptRepairs, disputeInterval)
		left.Differs = left.Dispute != nil
	}
	if left.Differs || t.action == Unchanged {
		return left, nil
	}
	if live, err = t.takeOver(ctx, live, isCached); err != nil {
		return Child{}, err
	}
	return t.send(ctx, live)
}

// observed returns the child that the cache holds, or nil. It returns an error if another
// one was observed in this reconcile.
func (t *attempt) observed(ctx context.Context) (client.Object, error) {
	live, err := read(ctx, t.client, t.in)
	switch seen := t.in.ObservedUID; {
	case err != nil || seen == nil || live == nil && *seen == "" || live != nil && *seen == live.GetUID():
		return live, err
	case live != nil:
		err = checkOwnership(t.owner, t.in, live)
	}
	if err == nil {
		err = &fault.Error{Class: fault.Quiet, Message: t.in.String() + " is not the one that was observed"}
	}
	return nil, err
}

// maxAge is how long after its start a reconcile may still write. A leader that
// was paused must not act on data that it read before another leader took over.
// A lease can be taken over 15 s after its last renewal, and a leader steps
// down if it has not renewed its lease for 10 s, so a reconcile that began
// during leadership may continue for 5 s.
const maxAge = 5 * time.Second

// write sends a request, unless the reconcile began too long ago. The next reconcile begins
// with fresh reads, so each one makes progress as long as a single write is answered in time.
//
// Time while the process is stopped counts. Time while the machine is suspended
// does not, because Go's monotonic clock stops with the machine. Updates are
// also fenced by the resource version.
func (t *attempt) write(doing string, send func() error) error {
	if t.owner.Elapsed != nil && t.owner.Elapsed() > maxAge {
		return &fault.Error{Class: fault.Quiet, Message: "the reconcile took too long to write what it decided"}
	}
	if err := send(); err != nil {
		return fmt.Errorf("%s %s: %w", doing, t.in, err)
	}
	return nil
}

// apply sends the intent, and returns the child as answered.
func (t *attempt) apply(ctx context.Context, doing string) (client.Object, error) {
	sent := t.in.request()
	err := t.write(doing, func() error {
		return t.client.Apply(ctx, sent, client.ForceOwnership, client.FieldOwner(naming.FieldManager))
	})
	if err != nil {
		return nil, err
	}
	return sent.answer(), nil
}

// create applies a child that the cache does not hold. The error is a conflict if it exists
// nevertheless.
func (t *attempt) create(ctx context.Context) (_ Child, err error) {
	last := t.recall().written
	if (t.owner.Reconciled || last.version != "") && !t.in.NeverCreated {
		if err := t.ownerExists(ctx); err != nil {
			return Child{}, err
		}
	}
	if t.fields, err = t.stated(); err != nil {
		return Child{}, err
	}
	t.in.meta.WithResourceVersion(onlyCreate)
	answer, err := t.apply(ctx, "creating")
	if err != nil {
		return Child{}, err
	}
	t.log(ctx, "Creating a new "+t.in.Kind)
	t.action = Created
	if last.hash == t.hash {
		t.drift = DriftDeleted
	}
	return t.wrote(nil, answer), nil
}

// log logs a message about the child.
func (t *attempt) log(ctx context.Context, message string) {
	log.FromContext(ctx).Info(message, t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
}

// ErrOwnerDeleted is returned by Apply if it wrote nothing because the owner of the
// child is being deleted or no longer exists. The event of the deletion arrives
// soon, so that it is not reported.
var ErrOwnerDeleted error = &fault.Error{Class: fault.Quiet, Message: "the owner no longer exists", After: time.Second}

// ownerExists returns an error unless the API server confirms that the owner
// exists and is not being deleted. The garbage collector deletes the children
// of a deleted owner, and their events may arrive before the owner's: recreated
// children would only be deleted again, or kept for ever if the policy is Orphan.
func (t *attempt) ownerExists(ctx context.Context) error {
	now := t.owner.Object.DeepCopyObject().(client.Object)
	err := t.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the owner: %w", err)
	}
	if err != nil || now.GetUID() != t.owner.Object.GetUID() || !now.GetDeletionTimestamp().IsZero() {
		return ErrOwnerDeleted
	}
	return nil
}

// readLive reads the child from the API server, with complete managed fields.
// It returns an error if the child must not be written.
func (t *attempt) readLive(ctx context.Context) (client.Object, error) {
	live, err := read(ctx, t.live, t.in)
	if err == nil && live == nil {
		err = &fault.Error{Class: fault.Quiet, Message: t.in.String() + " was deleted between two requests"}
	}
	if err != nil {
		return nil, err
	}
	return live, checkOwnership(t.owner, t.in, live)
}

// read returns the child that a reader finds, or nil.
func read(ctx context.Context, r client.Reader, in Intent) (client.Object, error) {
	live := in.newLive()
	err := r.Get(ctx, in.Key(), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", in, err)
	}
	return live, nil
}

// takeOver claims the fields that the apply has to remove, and returns the child as it is then.
func (t *attempt) takeOver(ctx context.Context, live client.Object, isCached bool) (_ client.Object, err error) {
	if t.claim != nil && isCached { // the cache lacks the managed fields
		if live, err = t.readLive(ctx); err != nil {
			return nil, err
		}
		t.claim = t.claims(live) // it may have other additions
	}
	if t.action == TakenOver {
		t.log(ctx, "Taking over a "+t.in.Kind+" that is already there")
	}
	claimed, err := compare.Claim(live, t.claim)
	if claimed == nil || err != nil {
		return live, err
	}
	before := live.DeepCopyObject().(client.Object)
	live.SetManagedFields(claimed)
	return live, t.write("claiming fields of", func() error {
		// Do not wait for the cache: without the operator's label it would not
		// observe this write. The apply that follows adds the label.
		return t.client.Patch(ctx, live, IfUnchanged(before), client.FieldOwner(naming.FieldManager), client.DisableReadYourWritesConsistency)
	})
}

// IfUnchanged returns a merge patch from before that fails if another client has changed the object since.
func IfUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// send applies an intent to an existing child. The write is fenced by the UID
// and by the resource version, so that it does not undo what happened since the
// child was read, such as the garbage collector's removal of the owner
// reference of an orphan. If only the status has changed since then, the write
// is repeated.
func (t *attempt) send(ctx context.Context, live client.Object) (Child, error) {
	if t.in.isBound(t.owner.Object) && !metav1.IsControlledBy(live, t.owner.Object) {
		// The garbage collector may have removed the owner reference to orphan the
		// child. Restoring the reference would delete the child with its owner.
		if err := t.ownerExists(ctx); err != nil {
			return Child{}, err
		}
	}
	for _, c := range t.in.Changes {
		log.FromContext(ctx).Info(c.Message, c.KeysAndValues...)
	}
	for sent := 1; ; sent++ {
		answer, err := t.sendOnce(ctx, live)
		switch {
		case err == nil:
			return t.wrote(live, answer), nil
		case t.in.Replace != nil && t.in.Replace(err):
			return Child{}, t.replace(ctx, live)
		case !apierrors.IsConflict(err) || sent == maxSends:
			return Child{}, err
		}
		now, unread := t.readLive(ctx)
		if unread != nil {
			return Child{}, unread
		}
		if !onlyStatusDiffers(live, now) {
			return Child{}, err
		}
		live = now
	}
}

// sendOnce applies the intent, and returns the child as answered.
func (t *attempt) sendOnce(ctx context.Context, live client.Object) (client.Object, error) {
	if stays := t.in.releases(live); stays != nil && !t.handedOver {
		if err := t.handOver(ctx, live, stays); err != nil {
			return nil, err
		}
	}
	t.in.meta.WithUID(live.GetUID()).WithResourceVersion(live.GetResourceVersion())
	return t.apply(ctx, "applying")
}

// handOverManager owns the fields that were handed over.
const handOverManager = naming.FieldManager + "-hand-over"

// handOver transfers the fields that are about to be removed from the intent to
// a separate field manager, so that the API server does not remove them. live gets the
// resulting resource version.
func (t *attempt) handOver(ctx context.Context, live client.Object, stays runtime.ApplyConfiguration) error {
	// The values to keep were read earlier and must not undo a later change.
	metaOf(stays).WithResourceVersion(live.GetResourceVersion())
	err := t.write("handing over fields of", func() error {
		// Do not wait for the cache: it may not hold the child before the apply that
		// follows adds the label.
		return t.client.Apply(ctx, stays, client.ForceOwnership, client.FieldOwner(handOverManager), client.DisableReadYourWritesConsistency)
	})
	if err != nil {
		return err
	}
	live.SetResourceVersion(ptr.Deref(metaOf(stays).ResourceVersion, ""))
	t.handedOver = true
	return nil
}

// onlyStatusDiffers reports whether two versions of an object have the same spec and the same
// metadata, apart from that which the API server maintains. Types without a generation have
// no status of which this matters.
func onlyStatusDiffers(a, b client.Object) bool {
	return a.GetGeneration() > 0 && a.GetGeneration() == b.GetGeneration() &&
		maps.Equal(a.GetLabels(), b.GetLabels()) && maps.Equal(a.GetAnnotations(), b.GetAnnotations()) &&
		reflect.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences())
}

// replace deletes the live object, so that the child can be created again once
// the deletion is complete.
func (t *attempt) replace(ctx context.Context, live client.Object) error {
	t.log(ctx, "Replacing a "+t.in.Kind+" that cannot be changed")
	err := t.write("replacing", func() error {
		return t.client.Delete(ctx, live, client.Preconditions{UID: new(live.GetUID())}, client.DisableReadYourWritesConsistency)
	})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	t.remember(facts{})
	t.count(Event{Action: Deleted})
	// A child that never had the operator's label triggers no event when it is
	// deleted. So the client must not wait for the cache, above, and the next
	// reconcile is requested explicitly.
	return fault.Waiting(2*time.Second, msgReplaced, t.in)
}

// wrote counts a successful write, compares the API server's response with the
// intent, and remembers the result. before is nil if the child did not exist.
func (t *attempt) wrote(before, answer client.Object) Child {
	how := compare.Fingerprint(compare.Compare(answer, t.fields, t.in.Exclusive))
	t.count(Event{Action: t.action, Drift: t.drift, Contested: how != ""})
	known := t.recall()
	known.written = memo{hash: t.hash, uid: answer.GetUID(), version: answer.GetResourceVersion(), answer: how}
	if t.in.KeepsPods != nil && before != nil && t.in.KeepsPods(before, answer) {
		known.written.from, known.written.to = before.GetGeneration(), answer.GetGeneration()
	}
	child := Child{Live: answer, Action: t.action}
	if t.drift == DriftFields {
		child.Restored = pathsOf(t.differences, true)
		known.repairs = &repairs{known.repairs.recent(t.now()).count + 1, t.now(), child.Restored}
	}
	t.remember(known)
	return child
}
