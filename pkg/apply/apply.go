package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// onlyCreate is a resource version that no stored object has. An apply with it
// either creates the object or is answered with 409.
const onlyCreate = "1"

// Owner is the object whose children are applied.
type Owner struct {
	Object client.Object
	GVK    metav1.GroupVersionKind
	// Elapsed returns the time since the reconcile began, before its first read.
	// It limits how long a reconcile may write. If nil, there is no limit.
	Elapsed func() time.Duration
	// Suspect reports that children may have been deleted because the owner was:
	// a child disappeared, or the operator was started after the owner had been
	// reconciled. The cache may not have observed the deletion of the owner yet.
	// If nil, only children that the Applier remembers are suspected.
	Suspect func() bool
	// Foreground reports that the owner was deleted in the foreground. The garbage
	// collector then removes the reference to it from each child that its Namespace
	// owns, too, as in a deletion that orphans.
	Foreground bool
}

// maxAge is how long after its start a reconcile may still write. A leader that
// was paused must not act on data that it read before another leader took over.
// A lease can be taken over 15 s after its last renewal, and a leader steps
// down if it has not renewed its lease for 10 s, so a reconcile that began
// during leadership may continue for 5 s.
const maxAge = 5 * time.Second

// maxSends is how often a write is sent if status updates cause conflicts.
const maxSends = 3

// stillFresh returns an error if the reconcile began too long ago to write. The
// next reconcile begins with fresh reads, so each one makes progress as long as
// a single write is answered in time.
//
// Time while the process is stopped counts. Time while the machine is suspended
// does not, because Go's monotonic clock stops with the machine. Updates are
// also fenced by the resource version.
func (o Owner) stillFresh() error {
	if o.Elapsed == nil || o.Elapsed() <= maxAge {
		return nil
	}
	return &fault.Error{Class: fault.Quiet, Message: "the reconcile took too long to write what it decided"}
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
	// Lost is returned for a child that was being deleted before it could be
	// released. It is never counted, because nothing is written.
	Lost Action = "lost"
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
}

// Recorder counts writes. Its methods may be called concurrently.
type Recorder interface {
	// Wrote is called after each successful write of a child.
	Wrote(owner, child string, action Action)
	// Skipped is called for each child that matches already, and is therefore not
	// written.
	Skipped(owner, child string)
	// Contested is called when the API server's response lacks fields that were
	// just applied, because a webhook or another controller keeps changing them.
	Contested(owner, child string)
	// Repaired is called after each successful write that only repaired drift: the
	// desired state of the child had not changed.
	Repaired(owner, child string, drift Drift)
	// Failed is called for each child that could not be written.
	Failed(owner, child string, err error)
}

// Drift is how a child differed from its unchanged desired state.
type Drift string

// The kinds of drift.
const (
	DriftFields  Drift = "fields"
	DriftDeleted Drift = "deleted"
)

// NoRecorder is a Recorder that counts nothing.
type NoRecorder struct{}

// Wrote does nothing.
func (NoRecorder) Wrote(string, string, Action) {}

// Skipped does nothing.
func (NoRecorder) Skipped(string, string) {}

// Contested does nothing.
func (NoRecorder) Contested(string, string) {}

// Repaired does nothing.
func (NoRecorder) Repaired(string, string, Drift) {}

// Failed does nothing.
func (NoRecorder) Failed(string, string, error) {}

// Applier applies intents. It is safe for concurrent use by several
// controllers, as long as one owner is reconciled by one worker at a time.
type Applier struct {
	client  client.Client // cached reads, and writes
	live    client.Reader // uncached reads, for objects that the cache does not hold
	metrics Recorder
	compare comparer
	now     func() time.Time

	contended contended

	mu     sync.Mutex
	owners map[types.UID]*memory
}

// memory is the state that is remembered about an owner's children.
type memory struct {
	written  map[childKey]memo
	matched  []match
	refused  map[childKey]time.Time // since when a child with a fallback has been refused
	unowned  map[childKey]unowned
	disputes map[childKey]dispute
	// namespace is the UID of the Namespace that retains the children.
	namespace types.UID
}

// unowned is an object with the name of a child that the owner does not own.
type unowned struct {
	err fault.Error
	at  time.Time
}

// retryUnowned is how long a child is not requested again after the API server
// holds an unowned object with its name. Nothing in the cache reports that such an
// object exists, and an object may be reconciled many times a second, because of
// its pods.
const retryUnowned = 5 * time.Second

type childKey struct {
	kind string
	client.ObjectKey
}

// memo remembers the last write of a child. Correctness does not depend on it,
// so a restart may lose it: it avoids a second write because of a stale cache.
// It does not hold the object, because there is one memo for every child of
// every owner.
type memo struct {
	hash      string
	uid       types.UID
	version   string // the resource version
	contested string // how the response differed from the intent, see attempt.deviation
}

// NewApplier returns an Applier that reads from the cache of c, and from live
// the objects that the cache does not hold because they lack the operator's
// label.
func NewApplier(c client.Client, live client.Reader, metrics Recorder) *Applier {
	return &Applier{
		client: c, live: live, metrics: metrics, now: time.Now, owners: map[types.UID]*memory{},
		contended: contended{refused: map[string]refusal{}},
	}
}

// Forget drops the state that is remembered about a deleted owner.
func (a *Applier) Forget(owner types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.owners, owner)
}

// ForgetOthers drops the state that is remembered about children of the owner
// that are not wanted. Revisions and snapshots have a new name for every
// content, and may be deleted by the garbage collector or by a user, so only
// the plan shows which names still matter.
func (a *Applier) ForgetOthers(owner Owner, wanted []Intent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.owners[owner.Object.GetUID()]
	if m == nil {
		return
	}
	isWanted := func(key childKey) bool {
		return slices.ContainsFunc(wanted, func(in Intent) bool { return keyOf(in) == key })
	}
	maps.DeleteFunc(m.written, func(key childKey, _ memo) bool { return !isWanted(key) })
	m.matched = slices.DeleteFunc(m.matched, func(one match) bool { return !isWanted(one.child) })
	maps.DeleteFunc(m.refused, func(key childKey, _ time.Time) bool { return !isWanted(key) })
	maps.DeleteFunc(m.unowned, func(key childKey, _ unowned) bool { return !isWanted(key) })
	maps.DeleteFunc(m.disputes, func(key childKey, _ dispute) bool { return !isWanted(key) })
}

// Remembered returns the number of an owner's children of a kind whose last
// write is held in memory.
func (a *Applier) Remembered(owner types.UID, kind string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	if m := a.owners[owner]; m != nil {
		for key := range m.written {
			if key.kind == kind {
				n++
			}
		}
	}
	return n
}

// of returns the memory for an owner, and creates it if necessary. The caller
// holds mu.
func (a *Applier) of(owner Owner) *memory {
	uid := owner.Object.GetUID()
	m := a.owners[uid]
	if m == nil {
		m = &memory{written: map[childKey]memo{}, refused: map[childKey]time.Time{}, unowned: map[childKey]unowned{}}
		a.owners[uid] = m
	}
	return m
}

// forgetChild drops the state that is remembered about a child that was deleted
// or released.
func (a *Applier) forgetChild(owner Owner, kind string, key client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.owners[owner.Object.GetUID()]
	if m == nil {
		return
	}
	delete(m.written, childKey{kind, key})
	m.forgetMatch(childKey{kind, key})
	delete(m.refused, childKey{kind, key})
	delete(m.unowned, childKey{kind, key})
	delete(m.disputes, childKey{kind, key})
	if len(m.written) == 0 && len(m.matched) == 0 && len(m.refused) == 0 && len(m.unowned) == 0 && len(m.disputes) == 0 {
		delete(a.owners, owner.Object.GetUID())
	}
}

// Apply creates or updates one child so that it matches the intent. It sends no
// request if the child matches already. The returned child is the live object
// afterwards.
func (a *Applier) Apply(ctx context.Context, owner Owner, in Intent) (Child, error) {
	child, err := a.apply(ctx, owner, in)
	if err == nil && child.Dispute == nil {
		child.Dispute = a.ongoingDispute(owner, in)
	}
	switch {
	case err != nil:
		a.metrics.Failed(owner.GVK.Kind, in.Kind, err)
	case child.Action == Unchanged:
		a.metrics.Skipped(owner.GVK.Kind, in.Kind)
	}
	return child, err
}

func (a *Applier) apply(ctx context.Context, owner Owner, in Intent) (Child, error) {
	if refused := a.contended.recall(in.Contended, a.now()); refused != nil && in.Fallback != nil {
		if other, ok := in.Fallback(refused); ok {
			return a.attempt(ctx, owner, in.instead(other))
		}
	}
	child, err := a.attempt(ctx, owner, in)
	if err == nil || in.Fallback == nil {
		a.calm(owner, in)
		return child, err
	}
	other, ok := in.Fallback(err)
	if !ok {
		return child, err
	}
	refused := a.refusedFor(owner, in)
	if left := in.FallbackAfter - refused; left > 0 {
		return child, &fault.Error{
			Class: fault.Wait, Reason: msgFallback.Reason(), Err: err,
			Message: msgFallback.With(in), After: min(left, max(retryRefused, refused)),
		}
	}
	log.FromContext(ctx).Info("The API server refused a child; applying its fallback", "child", in.String(), "refusal", err.Error())
	a.contended.remember(in.Contended, err, a.now())
	a.calm(owner, in)
	return a.attempt(ctx, owner, in.instead(other))
}

// retryRefused is the first interval after which an intent that was refused,
// perhaps only temporarily, is retried. The next intervals double the time.
const retryRefused = 250 * time.Millisecond

// refusedFor returns how long a child has been refused. The time begins with
// the first call.
func (a *Applier) refusedFor(owner Owner, in Intent) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	refused, k := a.of(owner).refused, keyOf(in)
	if refused[k].IsZero() {
		refused[k] = a.now()
	}
	return a.now().Sub(refused[k])
}

func (a *Applier) calm(owner Owner, in Intent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.owners[owner.Object.GetUID()]; m != nil {
		delete(m.refused, keyOf(in))
	}
}

// NeedsApply returns the live child, or nil if it does not exist, and whether Apply
// would write it. It reads only the cache, and writes nothing.
func (a *Applier) NeedsApply(ctx context.Context, owner Owner, in Intent) (live client.Object, differs bool, err error) {
	if live, ok := a.matches(ctx, owner, in); ok {
		return live, false, nil
	}
	t, err := a.begin(ctx, owner, in)
	if err != nil {
		return nil, false, err
	}
	live = in.newLive()
	if err := a.client.Get(ctx, in.Key(), live); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, true, nil
		}
		return nil, false, fmt.Errorf("reading %s: %w", in, err)
	}
	e, err := t.evaluate(ctx, live)
	if err != nil {
		return nil, true, err
	}
	return live, e.action != Unchanged, nil
}

func (a *Applier) attempt(ctx context.Context, owner Owner, in Intent) (Child, error) {
	if live, ok := a.matches(ctx, owner, in); ok {
		return Child{Live: live, Action: Unchanged}, nil
	}
	t, err := a.begin(ctx, owner, in)
	if err != nil {
		return Child{}, err
	}
	return t.run(ctx)
}

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
	last, known := t.recall()
	if known && last.isNewerThan(live) {
		return Child{}, &fault.Error{Class: fault.Quiet, Message: "the cache does not hold the last write of " + t.in.String() + " yet"}
	}
	if known && last.fulfils(t, live) {
		return Child{Live: live, Action: Unchanged}, nil
	}
	e, err := t.evaluate(ctx, live)
	if err != nil {
		return Child{}, err
	}
	if child, ok := t.leaves(live, e); ok {
		return child, nil
	}
	if e.claim {
		if live, err = t.readLive(ctx); err != nil { // the cache lacks the managed fields
			return Child{}, err
		}
		return t.claimAndSend(ctx, live, e.action)
	}
	return t.send(ctx, live, e.action)
}

// handOver transfers the fields that are about to be removed from the intent to
// a separate field manager, so that the API server does not remove them. It
// returns the resulting resource version of the child.
func (t *attempt) handOver(ctx context.Context, live client.Object) (version string, err error) {
	version = live.GetResourceVersion()
	if t.in.ReleaseFields == nil {
		return version, nil
	}
	stays := t.in.ReleaseFields(live)
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
	if err := t.client.Apply(ctx, stays, client.ForceOwnership, client.FieldOwner(naming.FieldManager+"-hand-over"), client.DisableReadYourWritesConsistency); err != nil {
		return "", fmt.Errorf("handing over fields of %s: %w", t.in, err)
	}
	return deref(metaOf(stays).ResourceVersion), nil
}

// create applies a child that the cache does not hold. If it exists
// nevertheless, it is unowned, or it lacks the operator's label, or the cache
// has not observed the operator's own write yet.
func (t *attempt) create(ctx context.Context) (Child, error) {
	if err := t.recallUnowned(); err != nil {
		return Child{}, err
	}
	if t.in.Exists {
		return t.adopt(ctx)
	}
	// A child that this process remembers was deleted, even if the event of that has
	// not been handled: the cache changes before.
	if (t.existed() || t.owner.Suspect != nil && t.owner.Suspect()) && !t.in.NeverCreated {
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
	t.in.withRV(onlyCreate)
	sent := t.in.request()
	err := t.client.Apply(ctx, sent, client.ForceOwnership, client.FieldOwner(naming.FieldManager))
	if err == nil {
		log.FromContext(ctx).Info("Creating a new "+t.in.Kind, t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
		if last, known := t.recall(); known && last.hash == t.hash {
			t.drift = DriftDeleted
		}
		return t.wrote(ctx, Created, sent.answer()), nil
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
		t.rememberUnowned(err)
		return Child{}, err
	}
	e, err := t.evaluate(ctx, live)
	if err != nil {
		return Child{}, err
	}
	if child, ok := t.leaves(live, e); ok {
		return child, nil
	}
	return t.claimAndSend(ctx, live, e.action)
}

// leaves returns the child if it is not written now, because it matches the intent or
// because its repair is postponed.
func (t *attempt) leaves(live client.Object, e evaluation) (_ Child, ok bool) {
	dispute := t.postponesRepair()
	return Child{Live: live, Action: Unchanged, Dispute: dispute, Differs: dispute != nil}, e.action == Unchanged || dispute != nil
}

// rememberUnowned remembers the error of a child if it is unowned.
func (t *attempt) rememberUnowned(err error) {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok || f.Class != fault.Stall {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.of(t.owner).unowned[keyOf(t.in)] = unowned{*f, t.now()}
}

// recallUnowned returns the error of a child that was unowned a moment ago, with the
// time after which it is requested again, or nil.
func (t *attempt) recallUnowned() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.owners[t.owner.Object.GetUID()]
	if m == nil {
		return nil
	}
	known, ok := m.unowned[keyOf(t.in)]
	left := retryUnowned - t.now().Sub(known.at)
	if !ok || left <= 0 {
		delete(m.unowned, keyOf(t.in))
		return nil
	}
	f := known.err
	f.After = left
	return &f
}

// ErrOwnerDeleted is returned by Apply if it wrote nothing because the owner of the
// child is being deleted or no longer exists. The event of the deletion arrives
// soon, so that it is not reported.
var ErrOwnerDeleted error = &fault.Error{Class: fault.Quiet, Message: "the owner no longer exists", After: time.Second}

// ownerExists returns an error unless the API server confirms that the owner
// exists and is not being deleted. The garbage collector deletes the children
// of a deleted owner, and their events may arrive before the owner's: recreated
// children would only be deleted again. The check costs one read for a child
// that was deleted, and none for a new one.
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
func (t *attempt) claimAndSend(ctx context.Context, live client.Object, act Action) (Child, error) {
	patch, err := claim(live, t.claims(act))
	if err != nil {
		return Child{}, fmt.Errorf("claiming fields of %s: %w", t.in, err)
	}
	if act == TakenOver {
		log.FromContext(ctx).Info("Taking over a "+t.in.Kind+" that is already there", t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
	}
	if patch != nil {
		if err := t.owner.stillFresh(); err != nil {
			return Child{}, err
		}
		// Do not wait for the cache: without the operator's label it would not
		// observe this write. The apply that follows adds the label.
		if err := t.client.Patch(ctx, live, patch, client.FieldOwner(naming.FieldManager), client.DisableReadYourWritesConsistency); err != nil {
			return Child{}, fmt.Errorf("claiming fields of %s: %w", t.in, err)
		}
	}
	return t.send(ctx, live, act)
}

// send applies an intent to an existing child. The write is fenced by the UID
// and by the resource version, so that it does not undo what happened since the
// child was read, such as the garbage collector's removal of the owner
// reference of an orphan. If only the status has changed since then, the write
// is repeated.
func (t *attempt) send(ctx context.Context, live client.Object, act Action) (Child, error) {
	if !metav1.IsControlledBy(live, t.owner.Object) {
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
		return t.wrote(ctx, act, answer), nil
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
	t.in.withUID(live.GetUID())
	t.in.withRV(version)
	sent := t.in.request()
	if err := t.client.Apply(ctx, sent, client.ForceOwnership, client.FieldOwner(naming.FieldManager)); err != nil {
		return nil, fmt.Errorf("applying %s: %w", t.in, err)
	}
	return sent.answer(), nil
}

// onlyStatusDiffers reports whether two versions of an object differ only in
// the status and in metadata that the API server maintains.
func onlyStatusDiffers(a, b client.Object) bool {
	var specs [2]any
	for i, o := range []client.Object{a, b} {
		m, err := asJSON(o)
		if err != nil {
			return false
		}
		delete(m, "status")
		if meta, ok := m["metadata"].(map[string]any); ok {
			delete(meta, "resourceVersion")
			delete(meta, "managedFields")
		}
		delete(m, "kind") // set either by the cache or by the API server, depending on the source
		delete(m, "apiVersion")
		specs[i] = m
	}
	return reflect.DeepEqual(specs[0], specs[1])
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
	t.metrics.Wrote(t.owner.GVK.Kind, t.in.Kind, Deleted)
	// A child that never had the operator's label triggers no event when it is
	// deleted. So the client must not wait for the cache, above, and the next
	// reconcile is requested explicitly.
	return fault.Waiting(2*time.Second, msgReplaced, t.in)
}

// wrote counts a successful write, compares the API server's response with the
// intent, and remembers the result.
func (t *attempt) wrote(ctx context.Context, act Action, answer client.Object) Child {
	t.metrics.Wrote(t.owner.GVK.Kind, t.in.Kind, act)
	if t.drift != "" {
		t.metrics.Repaired(t.owner.GVK.Kind, t.in.Kind, t.drift)
	}
	var contested string
	if r := t.compare.compare(answer, t.fields, t.in.Exclusive); r.lacks || r.extra {
		contested = t.deviation(answer)
		t.metrics.Contested(t.owner.GVK.Kind, t.in.Kind)
	}
	answer, contested = t.note(ctx, answer, contested)
	t.mu.Lock()
	m := t.of(t.owner)
	m.written[keyOf(t.in)] = memo{t.hash, answer.GetUID(), answer.GetResourceVersion(), contested}
	if t.drift == DriftFields {
		m.repaired(keyOf(t.in), t.differs, t.now())
	}
	t.mu.Unlock()
	t.keepMatch(answer, contested == "")
	return Child{Live: answer, Action: act}
}

func (t *attempt) recall() (memo, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	children := t.owners[t.owner.Object.GetUID()]
	if children == nil {
		return memo{}, false
	}
	m, known := children.written[keyOf(t.in)]
	return m, known
}

// existed reports whether this process has written the child, or found that it matches
// the intent, and has not deleted it since.
func (t *attempt) existed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.owners[t.owner.Object.GetUID()]
	if m == nil {
		return false
	}
	_, written := m.written[keyOf(t.in)]
	return written || m.lastMatch(keyOf(t.in)) != match{}
}

func keyOf(in Intent) childKey { return childKey{in.Kind, in.Key()} }

// Delete deletes an owned child that is no longer wanted, provided that it is
// still in the observed version: if it has changed since, it may be unowned, or
// wanted by a later leader. A child that is unowned or already being deleted is
// not changed.
func (a *Applier) Delete(ctx context.Context, owner Owner, kind string, live client.Object) error {
	a.forgetChild(owner, kind, client.ObjectKeyFromObject(live))
	if !Owns(owner.Object, live) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if !metav1.IsControlledBy(live, owner.Object) && owner.Object.GetDeletionTimestamp().IsZero() {
		// The garbage collector may have removed the owner reference to orphan the
		// child.
		if err := a.ownerExists(ctx, owner); err != nil {
			return err
		}
	}
	if err := owner.stillFresh(); err != nil {
		return err
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	options := []client.DeleteOption{client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if !naming.IsLabelled(live) {
		options = append(options, client.DisableReadYourWritesConsistency) // the cache does not hold it
	}
	err := a.client.Delete(ctx, live, options...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, live.GetName(), err)
	}
	a.metrics.Wrote(owner.GVK.Kind, kind, Deleted)
	return nil
}

// Release removes the owner references and all labels and annotations of the
// operator from a child, so that it is kept when the owner is deleted. An
// unowned child is not changed.
//
// The pod template keeps its annotations, because changing it would replace the
// pods.
func (a *Applier) Release(ctx context.Context, owner Owner, in Intent) (Action, error) {
	live, err := a.readAnywhere(ctx, in)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return Unchanged, nil
		}
		return "", fmt.Errorf("reading %s: %w", in, err)
	}
	uid := owner.Object.GetUID()
	if !metav1.IsControlledBy(live, owner.Object) && !handedOver(live, uid) && !retainedByNobody(live) {
		return Unchanged, nil
	}
	if !live.GetDeletionTimestamp().IsZero() {
		log.FromContext(ctx).Info("A child was deleted before it could be released", "child", in.String())
		return Lost, nil
	}
	before := live.DeepCopyObject().(client.Object)
	live.SetOwnerReferences(slices.DeleteFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == uid || naming.IsNamespace(r, live.GetNamespace())
	}))
	live.SetLabels(withoutMarks(live.GetLabels()))
	live.SetAnnotations(withoutMarks(live.GetAnnotations()))
	if in.OnRelease != nil {
		in.OnRelease(live)
	}
	// The cache selects by the label that is removed, so it never holds this
	// version.
	err = a.client.Patch(ctx, live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}),
		client.FieldOwner(naming.FieldManager), client.DisableReadYourWritesConsistency)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("releasing %s: %w", in, err)
	}
	a.forgetChild(owner, in.Kind, in.Key())
	a.metrics.Wrote(owner.GVK.Kind, in.Kind, Released)
	return Released, nil
}

// readAnywhere reads a child from the cache, or else from the API server: the
// cache does not hold a child that lost the operator's label or was just
// created.
func (a *Applier) readAnywhere(ctx context.Context, in Intent) (client.Object, error) {
	live := in.newLive()
	err := a.client.Get(ctx, in.Key(), live)
	if apierrors.IsNotFound(err) {
		live = in.newLive()
		err = a.live.Get(ctx, in.Key(), live)
	}
	return live, err
}

// withoutMarks removes the operator's labels or annotations. The
// app.kubernetes.io/managed-by label is kept if it has the value of another
// tool.
func withoutMarks(m map[string]string) map[string]string {
	maps.DeleteFunc(m, func(k, v string) bool {
		return strings.HasPrefix(k, naming.Domain+"/") || k == naming.LabelManagedBy && v == naming.ManagedBy
	})
	return m
}

// checkOwnership returns nil if the child is controlled by the owner or was handed
// over to it, and is not being deleted. Otherwise it returns the error to
// report. A child of another object is a conflict even while it is being deleted:
// yet another object may create the next one.
func checkOwnership(owner Owner, in Intent, live client.Object) error {
	ours, deleting := metav1.IsControlledBy(live, owner.Object), !live.GetDeletionTimestamp().IsZero()
	if ours && !deleting {
		return nil
	}
	uid, holder, tool := owner.Object.GetUID(), metav1.GetControllerOf(live), managedElsewhere(live)
	earlier := holder != nil && holder.Kind == owner.GVK.Kind && holder.Name == owner.Object.GetName() && sameGroup(holder.APIVersion, owner.GVK.Group)
	switch {
	case holder != nil && !ours && !earlier:
		return fault.Stalled(msgOtherOwner, in, holder.Kind, holder.Name)
	case deleting:
		return fault.Waiting(fault.Probe, msgChildDeleted, in)
	case tool == "" && handedOver(live, uid):
		return nil
	case earlier:
		return fault.Waiting(fault.Probe, msgEarlier, in, holder.Kind)
	case tool != "":
		return fault.Stalled(msgUnowned, in, "is managed by "+tool, naming.AnnotationOwner, uid)
	default:
		return fault.Stalled(msgUnowned, in, "has no owner", naming.AnnotationOwner, uid)
	}
}

// handedOver reports whether an object without a controller is meant for the
// given owner and has no other owner. Either its owner reference was removed,
// or a user handed it over by setting the annotation.
func handedOver(live client.Object, owner types.UID) bool {
	return metav1.GetControllerOf(live) == nil && live.GetAnnotations()[naming.AnnotationOwner] == string(owner) && !naming.HasOtherOwner(live, owner)
}

// retainedByNobody reports whether a child that its Namespace retains names no
// owner: the garbage collector removed the owner reference, and another client
// the annotation. Only the operator writes that reference together with its
// label. No object can use such a child, so the one whose plan names it releases
// it.
func retainedByNobody(live client.Object) bool {
	return naming.IsLabelled(live) && len(live.GetOwnerReferences()) > 0 &&
		live.GetAnnotations()[naming.AnnotationOwner] == "" && !naming.HasOtherOwner(live, "")
}

// managedElsewhere returns the name or the label of the tool that manages an
// unowned object, or "". Such a tool would revert the operator's changes.
func managedElsewhere(live client.Object) string {
	if by := live.GetLabels()[naming.LabelManagedBy]; by != "" && by != naming.ManagedBy {
		return by
	}
	for _, k := range []string{"argocd.argoproj.io/instance", "argocd.argoproj.io/tracking-id", "kustomize.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/name", "meta.helm.sh/release-name"} {
		if live.GetLabels()[k] != "" || live.GetAnnotations()[k] != "" {
			return k
		}
	}
	return ""
}

func sameGroup(apiVersion, group string) bool {
	gv, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && gv.Group == group
}

// isNewerThan reports whether the remembered write is later than the child in the
// cache. That may be an earlier object of this name, with another UID: it was deleted
// before the write.
func (m memo) isNewerThan(live client.Object) bool {
	c, err := resourceversion.CompareResourceVersion(m.version, live.GetResourceVersion())
	return err == nil && c > 0
}

// fulfils reports whether the object is what the remembered write of the same
// intent resulted in. Then it need not be compared with the intent again. The
// hash does not cover what an intent leaves out of it, or decides once it sees
// the object.
func (m memo) fulfils(t *attempt, live client.Object) bool {
	return m.hash == t.hash && m.contested == "" && m.uid == live.GetUID() && m.version == live.GetResourceVersion() &&
		t.in.HashIntent == nil && t.in.IfExists == nil
}
