package apply

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

func (t *attempt) run(ctx context.Context) (Child, error) {
	live := t.in.newLive()
	err := t.client.Get(ctx, t.in.Key(), live)
	if client.IgnoreNotFound(err) != nil {
		return Child{}, fmt.Errorf("reading %s: %w", t.in, err)
	}
	if seen := t.in.ObservedUID; seen != nil && *seen != live.GetUID() { // "" if the child does not exist
		if err == nil {
			if taken := checkOwnership(t.owner, t.in, live); taken != nil {
				return Child{}, taken
			}
		}
		return Child{}, &fault.Error{Class: fault.Quiet, Message: t.in.String() + " is not the one that was observed"}
	}
	if err != nil { // the child is not in the cache
		return t.create(ctx)
	}
	last := t.recall(t.owner, t.in).written
	if last.isNewerThan(live) {
		return Child{}, &fault.Error{Class: fault.Quiet, Message: "the cache does not hold the last write of " + t.in.String() + " yet"}
	}
	if last.fulfils(t, live) {
		return Child{Live: live, Action: Unchanged}, nil
	}
	e, err := t.evaluate(live)
	if err != nil {
		return Child{}, err
	}
	if child, ok := t.leaves(live, e); ok {
		return child, nil
	}
	if e.claim != nil {
		if live, err = t.readLive(ctx); err != nil { // the cache lacks the managed fields
			return Child{}, err
		}
		return t.claimAndSend(ctx, live, e)
	}
	return t.send(ctx, live, e.action)
}

// handOverManager owns the fields that were handed over.
const handOverManager = naming.FieldManager + "-hand-over"

// handOver transfers the fields that are about to be removed from the intent to
// a separate field manager, so that the API server does not remove them. It
// returns the resulting resource version of the child.
func (t *attempt) handOver(ctx context.Context, live client.Object) (version string, err error) {
	version = live.GetResourceVersion()
	stays := t.in.releases(live)
	if stays == nil {
		return version, nil
	}
	// The values to keep were read earlier and must not undo a later change.
	meta := metaOf(stays)
	if meta == nil {
		return "", fmt.Errorf("handing over fields of %s: %T has no metadata", t.in, stays)
	}
	meta.WithResourceVersion(version)
	if err := t.owner.stillFresh(); err != nil {
		return "", err
	}
	// Do not wait for the cache: it may not hold the child before the apply that
	// follows adds the label.
	if err := t.client.Apply(ctx, stays, client.ForceOwnership, client.FieldOwner(handOverManager), client.DisableReadYourWritesConsistency); err != nil {
		return "", fmt.Errorf("handing over fields of %s: %w", t.in, err)
	}
	return ptr.Deref(metaOf(stays).ResourceVersion, ""), nil
}

// create applies a child that the cache does not hold. If it exists
// nevertheless, it is unowned, or it lacks the operator's label, or the cache
// has not observed the operator's own write yet.
func (t *attempt) create(ctx context.Context) (Child, error) {
	last := t.recall(t.owner, t.in).written
	if (t.owner.Reconciled || last.version != "") && !t.in.NeverCreated {
		if err := t.ownerExists(ctx, t.owner); err != nil {
			return Child{}, err
		}
	}
	if err := t.owner.stillFresh(); err != nil {
		return Child{}, err
	}
	if err := t.decode(); err != nil {
		return Child{}, err
	}
	t.in.meta.WithResourceVersion(onlyCreate)
	sent := t.in.request()
	err := t.client.Apply(ctx, sent, client.ForceOwnership, client.FieldOwner(naming.FieldManager))
	if err == nil {
		log.FromContext(ctx).Info("Creating a new "+t.in.Kind, t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
		if last.hash == t.hash {
			t.drift = DriftDeleted
		}
		return t.wrote(Created, nil, sent.answer()), nil
	}
	if !apierrors.IsConflict(err) {
		return Child{}, fmt.Errorf("creating %s: %w", t.in, err)
	}
	return t.adopt(ctx)
}

// adopt applies an intent to a child that exists but is not in the cache.
func (t *attempt) adopt(ctx context.Context) (Child, error) {
	live, err := t.readLive(ctx)
	if err != nil {
		return Child{}, err
	}
	e, err := t.evaluate(live)
	if err != nil {
		return Child{}, err
	}
	if child, ok := t.leaves(live, e); ok {
		return child, nil
	}
	return t.claimAndSend(ctx, live, e)
}

// leaves returns the child if it is not written now, because it matches the intent or
// because its repair is postponed.
func (t *attempt) leaves(live client.Object, e evaluation) (_ Child, ok bool) {
	dispute := t.postponesRepair()
	return Child{Live: live, Action: Unchanged, Dispute: dispute, Differs: dispute != nil}, e.action == Unchanged || dispute != nil
}

// ErrOwnerDeleted is returned by Apply if it wrote nothing because the owner of the
// child is being deleted or no longer exists. The event of the deletion arrives
// soon, so that it is not reported.
var ErrOwnerDeleted error = &fault.Error{Class: fault.Quiet, Message: "the owner no longer exists", After: time.Second}

// ownerExists returns an error unless the API server confirms that the owner
// exists and is not being deleted. The garbage collector deletes the children
// of a deleted owner, and their events may arrive before the owner's: recreated
// children would only be deleted again, or kept for ever if the policy is Orphan.
func (a *Applier) ownerExists(ctx context.Context, owner Owner) error {
	now := owner.Object.DeepCopyObject().(client.Object)
	err := a.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the owner: %w", err)
	}
	if err != nil || now.GetUID() != owner.Object.GetUID() || !now.GetDeletionTimestamp().IsZero() {
		return ErrOwnerDeleted
	}
	return nil
}

// readLive reads the child from the API server, with complete managed fields.
// It returns an error if the child must not be written.
func (t *attempt) readLive(ctx context.Context) (client.Object, error) {
	live := t.in.newLive()
	if err := t.live.Get(ctx, t.in.Key(), live); err != nil {
		if apierrors.IsNotFound(err) { // deleted between the two requests: retry soon
			return nil, &fault.Error{Class: fault.Quiet, Message: "reading " + t.in.String(), Err: err}
		}
		return nil, fmt.Errorf("reading %s: %w", t.in, err)
	}
	return live, checkOwnership(t.owner, t.in, live)
}

// claimAndSend claims the fields that the apply has to remove, and applies the
// intent. live has complete managed fields.
func (t *attempt) claimAndSend(ctx context.Context, live client.Object, e evaluation) (Child, error) {
	if e.action == TakenOver {
		log.FromContext(ctx).Info("Taking over a "+t.in.Kind+" that is already there", t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
	}
	claimed, err := compare.Claim(live, e.claim)
	if err != nil {
		return Child{}, err
	}
	if claimed == nil {
		return t.send(ctx, live, e.action)
	}
	if err := t.owner.stillFresh(); err != nil {
		return Child{}, err
	}
	before := live.DeepCopyObject().(client.Object)
	live.SetManagedFields(claimed)
	// Do not wait for the cache: without the operator's label it would not
	// observe this write. The apply that follows adds the label.
	if err := t.client.Patch(ctx, live, ifUnchanged(before), client.FieldOwner(naming.FieldManager), client.DisableReadYourWritesConsistency); err != nil {
		return Child{}, fmt.Errorf("claiming fields of %s: %w", t.in, err)
	}
	return t.send(ctx, live, e.action)
}

// ifUnchanged returns a patch that fails if another client has changed the object since.
func ifUnchanged(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// send applies an intent to an existing child. The write is fenced by the UID
// and by the resource version, so that it does not undo what happened since the
// child was read, such as the garbage collector's removal of the owner
// reference of an orphan. If only the status has changed since then, the write
// is repeated.
func (t *attempt) send(ctx context.Context, live client.Object, act Action) (Child, error) {
	if t.in.isBound(t.owner.Object) && !metav1.IsControlledBy(live, t.owner.Object) {
		// The garbage collector may have removed the owner reference to orphan the
		// child. Restoring the reference would delete the child with its owner.
		if err := t.ownerExists(ctx, t.owner); err != nil {
			return Child{}, err
		}
	}
	for _, c := range t.in.Changes {
		log.FromContext(ctx).Info(c.Message, c.KeysAndValues...)
	}
	answer, err := t.sendOnce(ctx, live)
	for sent := 1; sent < maxSends && apierrors.IsConflict(err); sent++ {
		now, unread := t.readLive(ctx)
		if unread != nil {
			return Child{}, unread
		}
		if !onlyStatusDiffers(live, now) {
			break
		}
		live = now
		answer, err = t.sendOnce(ctx, live)
	}
	if err == nil {
		return t.wrote(act, live, answer), nil
	}
	if t.in.Replace != nil && t.in.Replace(err) {
		return Child{}, t.replace(ctx, live.GetUID())
	}
	return Child{}, err
}

// sendOnce applies the intent, and returns the child as answered.
func (t *attempt) sendOnce(ctx context.Context, live client.Object) (client.Object, error) {
	version := live.GetResourceVersion()
	if !t.handedOver {
		var err error
		if version, err = t.handOver(ctx, live); err != nil {
			return nil, err
		}
		t.handedOver = true
	}
	if err := t.owner.stillFresh(); err != nil {
		return nil, err
	}
	t.in.meta.WithUID(live.GetUID())
	t.in.meta.WithResourceVersion(version)
	sent := t.in.request()
	if err := t.client.Apply(ctx, sent, client.ForceOwnership, client.FieldOwner(naming.FieldManager)); err != nil {
		return nil, fmt.Errorf("applying %s: %w", t.in, err)
	}
	return sent.answer(), nil
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
func (t *attempt) replace(ctx context.Context, uid types.UID) error {
	if err := t.owner.stillFresh(); err != nil {
		return err
	}
	old := t.in.newLive()
	old.SetNamespace(t.in.Namespace)
	old.SetName(t.in.Name)
	log.FromContext(ctx).Info("Replacing a "+t.in.Kind+" that cannot be changed", t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
	if err := t.client.Delete(ctx, old, client.Preconditions{UID: &uid}, client.DisableReadYourWritesConsistency); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("replacing %s: %w", t.in, err)
	}
	t.forgetChild(t.owner, t.in.Kind, t.in.Key())
	t.count(t.owner, t.in.Kind, Event{Action: Deleted})
	// A child that never had the operator's label triggers no event when it is
	// deleted. So the client must not wait for the cache, above, and the next
	// reconcile is requested explicitly.
	return fault.Waiting(2*time.Second, msgReplaced, t.in)
}

// wrote counts a successful write, compares the API server's response with the
// intent, and remembers the result. before is nil if the child did not exist.
func (t *attempt) wrote(act Action, before, answer client.Object) Child {
	how := compare.Fingerprint(compare.Compare(answer, t.fields, t.in.Exclusive))
	t.count(t.owner, t.in.Kind, Event{Action: act, Drift: t.drift, Contested: how != ""})
	known := t.recall(t.owner, t.in)
	known.written = memo{hash: t.hash, uid: answer.GetUID(), version: answer.GetResourceVersion(), answer: how}
	if t.in.KeepsPods != nil && before != nil && t.in.KeepsPods(before, answer) {
		known.written.from, known.written.to = before.GetGeneration(), answer.GetGeneration()
	}
	if t.drift == DriftFields {
		known.repairs = &repairs{known.repairs.recent(t.now()).count + 1, t.now(), t.differs}
	}
	t.remember(t.owner, t.in, known)
	return Child{Live: answer, Action: act, Restored: t.differs}
}
