package apply

import (
	"context"
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

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// onlyCreate as a resource version makes an apply create or answer 409: no
// stored object ever has it.
const onlyCreate = "1"

// Owner is whose children are applied.
type Owner struct {
	Object client.Object
	GVK    metav1.GroupVersionKind
	// Elapsed returns how long ago the reconcile began, before anything was
	// read. It bounds for how long a reconcile may write; nil does not.
	Elapsed func() time.Duration
	// Settled says that the owner's children have all been there before: one
	// that is missing was deleted, perhaps because the owner is gone and the
	// cache does not know it yet.
	Settled bool
}

// maxAge is how long after its begin a reconcile may still write. A leader that
// was paused must not act on what it read before another took over. A lease can
// be taken over 15 s after its last renewal, and a leader steps down if it has
// not renewed its lease for 10 s: what began while it led may go on for 5 s.
const maxAge = 5 * time.Second

// maxSends is how often a write is sent that status changes make fail.
const maxSends = 3

// stillFresh returns an error if the reconcile began too long ago to write.
// The next one begins with fresh reads, so each makes progress as long as a
// single write is answered in time.
//
// Stopping the process counts, suspending its machine does not: Go's monotonic
// clock pauses with the machine. Updates are fenced by the resource version, too.
func (o Owner) stillFresh() error {
	if o.Elapsed == nil || o.Elapsed() <= maxAge {
		return nil
	}
	return &fault.Error{Class: fault.Quiet, Message: "the reconcile took too long to write what it decided"}
}

// Action is what a pass did to a child.
type Action string

// The actions. Unchanged costs no request.
const (
	Unchanged Action = "unchanged"
	Created   Action = "created"
	Changed   Action = "changed"
	TakenOver Action = "taken-over"
	Deleted   Action = "deleted"
	Released  Action = "released"
	// Lost is the answer for a child that was being deleted before it could be
	// released. It is never counted: nothing is written.
	Lost Action = "lost"
)

// Child is a child after the pass: what stands in the cluster, as the cache or
// the server's answer has it.
type Child struct {
	Live   client.Object
	Action Action
}

// Recorder counts what is written. Its methods may be called concurrently.
type Recorder interface {
	// Wrote is called after each successful write of a child.
	Wrote(owner, child string, action Action)
	// Contested is called when the server's answer lacks what was just applied,
	// because something else keeps changing it.
	Contested(owner, child string)
}

// Applier applies intents. It is safe for concurrent use by several
// controllers, as long as one owner is reconciled by one worker at a time.
type Applier struct {
	client  client.Client // cached reads, writes
	live    client.Reader // uncached reads, for what the cache cannot see
	metrics Recorder
	compare comparer

	mu     sync.Mutex
	owners map[types.UID]*memory
}

// memory is what is remembered of an owner's children.
type memory struct {
	written map[childKey]memo
	refused map[childKey]time.Time // since when a child with a fallback is refused
	// namespace is the UID of the Namespace that retains the children.
	namespace types.UID
}

type childKey struct {
	kind string
	client.ObjectKey
}

// memo remembers the last write of a child. It decides nothing that a restart
// could lose: it keeps a stale cache from causing a second write, and it stops
// a quarrel with whoever changes our fields back. It holds no object, because
// there is one for every child of every owner.
type memo struct {
	hash       string
	uid        types.UID
	version    string // the resource version
	generation int64
	contested  bool // the answer lacked part of the intent
}

// NewApplier returns an applier that reads from c's cache, and from live what the
// cache, which sees only our own children, does not hold.
func NewApplier(c client.Client, live client.Reader, metrics Recorder) *Applier {
	return &Applier{client: c, live: live, metrics: metrics, owners: map[types.UID]*memory{}}
}

// Forget drops what is remembered about an owner that is gone.
func (a *Applier) Forget(owner types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.owners, owner)
}

// ForgetOthers drops what is remembered of an owner's children that are not among the
// wanted ones. Revisions and snapshots have a new name for every content, and
// others may delete them, so that only the plan shows which names still matter.
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
	maps.DeleteFunc(m.refused, func(key childKey, _ time.Time) bool { return !isWanted(key) })
}

// Remembered returns the number of an owner's children of a kind that occupy
// memory.
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

// of returns what is remembered of an owner's children. The caller holds mu.
func (a *Applier) of(owner Owner) *memory {
	uid := owner.Object.GetUID()
	m := a.owners[uid]
	if m == nil {
		m = &memory{written: map[childKey]memo{}, refused: map[childKey]time.Time{}}
		a.owners[uid] = m
	}
	return m
}

// forgetChild drops what is remembered of a child that was deleted or released.
func (a *Applier) forgetChild(owner Owner, kind string, key client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.owners[owner.Object.GetUID()]
	if m == nil {
		return
	}
	delete(m.written, childKey{kind, key})
	delete(m.refused, childKey{kind, key})
	if len(m.written) == 0 && len(m.refused) == 0 {
		delete(a.owners, owner.Object.GetUID())
	}
}

// Apply makes one child as the intent says, with no request when it already is.
// The child in the answer is what stands in the cluster afterwards.
func (a *Applier) Apply(ctx context.Context, owner Owner, in Intent) (Child, error) {
	child, err := a.attempt(ctx, owner, in)
	if err == nil || in.Fallback == nil {
		a.calm(owner, in)
		return child, err
	}
	other, ok := in.Fallback(err)
	if !ok {
		return child, err
	}
	if left := in.Patience - a.refusedFor(owner, in); left > 0 {
		return child, &fault.Error{
			Class: fault.Wait, Reason: common.ReasonWaiting, Err: err,
			Message: fmt.Sprintf("%s cannot be as it was yet; it is tried again", in), After: min(left, retryRefused),
		}
	}
	log.FromContext(ctx).Info("The API server refused a child; applying its fallback", "child", in.String(), "refusal", err.Error())
	a.calm(owner, in)
	return a.attempt(ctx, owner, in.instead(other))
}

// retryRefused is how often a refusal that may pass is tried again.
const retryRefused = 250 * time.Millisecond

// refusedFor returns for how long a child has been refused.
func (a *Applier) refusedFor(owner Owner, in Intent) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	refused, k := a.of(owner).refused, keyOf(in)
	if refused[k].IsZero() {
		refused[k] = time.Now()
	}
	return time.Since(refused[k])
}

func (a *Applier) calm(owner Owner, in Intent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if m := a.owners[owner.Object.GetUID()]; m != nil {
		delete(m.refused, keyOf(in))
	}
}

// Look returns a child as it stands, nil where none does, and whether Apply
// would write it. It writes nothing.
func (a *Applier) Look(ctx context.Context, owner Owner, in Intent) (live client.Object, differs bool, err error) {
	stated, err := a.state(ctx, owner, in)
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
	if err := mayWrite(owner, in, live); err != nil {
		return nil, true, err
	}
	r := a.compare.compare(live, stated, in.Exclusive)
	return live, r.lacks || r.extra || live.GetAnnotations()[naming.AnnotationApplied] != hashOf(stated), nil
}

// state completes an intent and returns what it states.
func (a *Applier) state(ctx context.Context, owner Owner, in Intent) (map[string]any, error) {
	namespace, err := a.namespaceUID(ctx, owner, in)
	if err != nil {
		return nil, err
	}
	return in.complete(owner.Object, owner.GVK, namespace)
}

func (a *Applier) attempt(ctx context.Context, owner Owner, in Intent) (Child, error) {
	stated, err := a.state(ctx, owner, in)
	if err != nil {
		return Child{}, err
	}
	t := attempt{Applier: a, owner: owner, in: in, stated: stated, hash: hashOf(stated)}
	return t.run(ctx)
}

// attempt is one intent on its way to the server.
type attempt struct {
	*Applier
	owner  Owner
	in     Intent
	stated map[string]any
	hash   string
	// handedOver reports that fields were handed over, which need not be done
	// again if only the status has changed since.
	handedOver bool
}

func (t *attempt) run(ctx context.Context) (Child, error) {
	live := t.in.newLive()
	err := t.client.Get(ctx, t.in.Key(), live)
	if client.IgnoreNotFound(err) != nil {
		return Child{}, fmt.Errorf("reading %s: %w", t.in, err)
	}
	if seen := t.in.Seen; seen != nil && *seen != live.GetUID() { // of nothing it is ""
		return Child{}, &fault.Error{Class: fault.Quiet, Message: t.in.String() + " is not the one that was observed"}
	}
	if err != nil { // there is none
		return t.create(ctx)
	}
	if err := t.exists(ctx, live); err != nil {
		return Child{}, err
	}
	last, known := t.recall()
	if known && last.isNewerThan(live) {
		return Child{}, &fault.Error{Class: fault.Quiet, Message: "the cache does not hold the last write of " + t.in.String() + " yet"}
	}
	if err := mayWrite(t.owner, t.in, live); err != nil {
		return Child{}, err
	}
	// The cache keeps of the managed fields only who wrote; where we never
	// did, an older operator made it.
	if !slices.ContainsFunc(live.GetManagedFields(), isOurs) {
		return t.takeOver(ctx)
	}
	r := t.compare.compare(live, t.stated, t.in.Exclusive)
	r.extra = r.extra || !retained(t.owner, t.in) && retainedByPatch(live)
	switch {
	case !r.lacks && !r.extra && live.GetAnnotations()[naming.AnnotationApplied] == t.hash:
		return Child{Live: live, Action: Unchanged}, nil
	case known && last.contested && last.hash == t.hash && last.isOfVersion(live):
		return Child{Live: live, Action: Unchanged}, nil // asked for once already; a quarrel helps nobody
	case r.extra:
		return t.reclaim(ctx)
	default:
		return t.send(ctx, live, Changed)
	}
}

// handOver gives the fields that are about to be unstated a manager of their
// own, so that the API server does not remove them. It returns the resource
// version that the child has then.
func (t *attempt) handOver(ctx context.Context, live client.Object) (version string, err error) {
	version = live.GetResourceVersion()
	if t.in.HandOver == nil {
		return version, nil
	}
	stays := t.in.HandOver(live)
	if stays == nil {
		return version, nil
	}
	// What stays is stated as it was seen, and must not undo a later change.
	meta := metaOf(stays)
	if meta == nil {
		return "", fmt.Errorf("handing over fields of %s: %T has no metadata", t.in, stays)
	}
	meta.WithResourceVersion(version)
	if err := t.owner.stillFresh(); err != nil {
		return "", err
	}
	// The cache need not hold the child yet; the apply that follows brings the label.
	if err := t.client.Apply(ctx, stays, client.ForceOwnership, client.FieldOwner(naming.FieldManager+"-hand-over"), client.DisableReadYourWritesConsistency); err != nil {
		return "", fmt.Errorf("handing over fields of %s: %w", t.in, err)
	}
	return deref(metaOf(stays).ResourceVersion), nil
}

// create applies a child that the cache does not hold. What stands there all
// the same is not ours, or was made before our label existed, or is our own
// write that the cache has not seen.
func (t *attempt) create(ctx context.Context) (Child, error) {
	if t.in.Exists {
		return t.adopt(ctx)
	}
	if t.owner.Settled && !t.in.Unmade {
		if err := t.ownerLives(ctx, t.owner); err != nil {
			return Child{}, err
		}
	}
	if err := t.owner.stillFresh(); err != nil {
		return Child{}, err
	}
	t.in.withRV(onlyCreate)
	err := t.client.Apply(ctx, t.in.config, client.ForceOwnership, client.FieldOwner(naming.FieldManager))
	if err == nil {
		log.FromContext(ctx).Info("Creating a new "+t.in.Kind, t.in.Kind+".Namespace", t.in.Namespace, t.in.Kind+".Name", t.in.Name)
		return t.wrote(Created)
	}
	if !apierrors.IsConflict(err) {
		return Child{}, fmt.Errorf("creating %s: %w", t.in, err)
	}
	return t.adopt(ctx)
}

// adopt applies over a child that exists and that the cache does not hold.
func (t *attempt) adopt(ctx context.Context) (Child, error) {
	live, err := t.readLive(ctx)
	if err != nil {
		return Child{}, err
	}
	if err := t.exists(ctx, live); err != nil {
		return Child{}, err
	}
	if !slices.ContainsFunc(live.GetManagedFields(), isOurs) {
		return t.claimAndSend(ctx, live, everythingOfSeeds, TakenOver)
	}
	if r := t.compare.compare(live, t.stated, t.in.Exclusive); !r.lacks && !r.extra && live.GetAnnotations()[naming.AnnotationApplied] == t.hash {
		return Child{Live: live, Action: Unchanged}, nil
	}
	return t.claimAndSend(ctx, live, t.claims(), Changed)
}

// exists turns the intent into the one for a child that exists. A child whose
// owner reference was removed is not observed as the owner's, and exists.
func (t *attempt) exists(ctx context.Context, live client.Object) error {
	if t.in.IfExists == nil {
		return nil
	}
	t.in = t.in.instead(t.in.IfExists(live))
	stated, err := t.state(ctx, t.owner, t.in)
	if err != nil {
		return err
	}
	t.stated, t.hash = stated, hashOf(stated)
	return nil
}

// ownerLives asks the API server whether the owner is still there. Garbage
// collection deletes the children of a deleted owner, and those events may
// overtake the owner's: to make the children again would start a chase. It
// costs one read for a child that was lost, none for one that is new.
func (a *Applier) ownerLives(ctx context.Context, owner Owner) error {
	now := owner.Object.DeepCopyObject().(client.Object)
	err := a.live.Get(ctx, client.ObjectKeyFromObject(now), now)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the owner: %w", err)
	}
	if err != nil || now.GetUID() != owner.Object.GetUID() || !now.GetDeletionTimestamp().IsZero() {
		return &fault.Error{Class: fault.Quiet, Message: "the owner is gone", After: time.Second}
	}
	return nil
}

// takeOver takes over a child that an older operator made.
func (t *attempt) takeOver(ctx context.Context) (Child, error) {
	live, err := t.readLive(ctx)
	if err != nil {
		return Child{}, err
	}
	return t.claimAndSend(ctx, live, everythingOfSeeds, TakenOver)
}

// reclaim removes what others put where only we may write.
func (t *attempt) reclaim(ctx context.Context) (Child, error) {
	live, err := t.readLive(ctx)
	if err != nil {
		return Child{}, err
	}
	return t.claimAndSend(ctx, live, t.claims(), Changed)
}

// claims is what a child may hold only if it is stated.
func (t *attempt) claims() scope {
	exclusive := within(t.in.Exclusive, t.stated)
	return func(e metav1.ManagedFieldsEntry, path string) bool {
		return exclusive(e, path) || ownersByPatch(e, path)
	}
}

// readLive reads the child past the cache, with its managed fields whole, and
// refuses what we may not write.
func (t *attempt) readLive(ctx context.Context) (client.Object, error) {
	live := t.in.newLive()
	if err := t.live.Get(ctx, t.in.Key(), live); err != nil {
		if apierrors.IsNotFound(err) { // gone between the two requests: look again soon
			return nil, &fault.Error{Class: fault.Quiet, Message: "reading " + t.in.String(), Err: err}
		}
		return nil, fmt.Errorf("reading %s: %w", t.in, err)
	}
	return live, mayWrite(t.owner, t.in, live)
}

func (t *attempt) claimAndSend(ctx context.Context, live client.Object, s scope, act Action) (Child, error) {
	patch, err := claim(live, s)
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
		// Without our label the cache would not see this write, and a later
		// read would wait for it; the apply that follows brings the label.
		if err := t.client.Patch(ctx, live, patch, client.FieldOwner(naming.FieldManager), client.DisableReadYourWritesConsistency); err != nil {
			return Child{}, fmt.Errorf("claiming fields of %s: %w", t.in, err)
		}
	}
	return t.send(ctx, live, act)
}

// send applies over an existing child. The write is fenced by the UID and by
// the resource version: it must not undo what happened since the child was
// read, such as the garbage collector's removing the owner of an orphan. If
// nothing but the status has changed since, it is sent again.
func (t *attempt) send(ctx context.Context, live client.Object, act Action) (Child, error) {
	if !metav1.IsControlledBy(live, t.owner.Object) {
		// The garbage collector may have removed the owner reference, to orphan
		// the child. If it was restored, the child would be deleted with the owner.
		if err := t.ownerLives(ctx, t.owner); err != nil {
			return Child{}, err
		}
	}
	for _, c := range t.in.Changes {
		log.FromContext(ctx).Info(c.Message, c.KeysAndValues...)
	}
	err := t.sendOnce(ctx, live)
	for sent := 1; sent < maxSends && apierrors.IsConflict(err); sent++ {
		now, unread := t.readLive(ctx)
		if unread != nil {
			return Child{}, unread
		}
		if !onlyStatusDiffers(live, now) {
			break
		}
		live = now
		err = t.sendOnce(ctx, live)
	}
	if err == nil {
		return t.wrote(act)
	}
	if t.in.Replace != nil && t.in.Replace(err) {
		return Child{}, t.replace(ctx, live.GetUID())
	}
	return Child{}, err
}

func (t *attempt) sendOnce(ctx context.Context, live client.Object) error {
	version := live.GetResourceVersion()
	if !t.handedOver {
		var err error
		if version, err = t.handOver(ctx, live); err != nil {
			return err
		}
		t.handedOver = true
	}
	if err := t.owner.stillFresh(); err != nil {
		return err
	}
	t.in.withUID(live.GetUID())
	t.in.withRV(version)
	if err := t.client.Apply(ctx, t.in.config, client.ForceOwnership, client.FieldOwner(naming.FieldManager)); err != nil {
		return fmt.Errorf("applying %s: %w", t.in, err)
	}
	return nil
}

// onlyStatusDiffers reports whether two versions of an object differ in nothing
// but the status and the bookkeeping of the API server.
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
		delete(m, "kind") // which only one of cache and API server may fill in
		delete(m, "apiVersion")
		specs[i] = m
	}
	return reflect.DeepEqual(specs[0], specs[1])
}

// replace deletes what stands, so that it can be made anew once it is gone.
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
	// What never had our label goes without an event: neither the client may
	// wait for one, above, nor we.
	return fault.Waiting(2*time.Second, "%s cannot be changed in place; it is made anew when it is gone", t.in)
}

// wrote looks at the server's answer and remembers it.
func (t *attempt) wrote(act Action) (Child, error) {
	t.metrics.Wrote(t.owner.GVK.Kind, t.in.Kind, act)
	answer, err := t.in.answer()
	if err != nil {
		return Child{}, err
	}
	r := t.compare.compare(answer, t.stated, t.in.Exclusive)
	m := memo{
		hash: t.hash, uid: answer.GetUID(), version: answer.GetResourceVersion(), generation: answer.GetGeneration(),
		contested: r.lacks || r.extra,
	}
	if m.contested {
		t.metrics.Contested(t.owner.GVK.Kind, t.in.Kind)
	}
	t.mu.Lock()
	t.of(t.owner).written[keyOf(t.in)] = m
	t.mu.Unlock()
	return Child{Live: answer, Action: act}, nil
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

func keyOf(in Intent) childKey { return childKey{in.Kind, in.Key()} }

// Delete deletes an owned child that is no longer wanted, as it was observed: if
// it has changed since, it may be unowned, or wanted by a later leader. A child
// that is unowned or being deleted is left alone.
func (a *Applier) Delete(ctx context.Context, owner Owner, kind string, live client.Object) error {
	a.forgetChild(owner, kind, client.ObjectKeyFromObject(live))
	if !Owns(owner.Object, live) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if !metav1.IsControlledBy(live, owner.Object) && owner.Object.GetDeletionTimestamp().IsZero() {
		// The garbage collector may have removed the owner reference, to orphan
		// the child.
		if err := a.ownerLives(ctx, owner); err != nil {
			return err
		}
	}
	if err := owner.stillFresh(); err != nil {
		return err
	}
	uid, version := live.GetUID(), live.GetResourceVersion()
	options := []client.DeleteOption{client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground)}
	if !labelled(live) {
		options = append(options, client.DisableReadYourWritesConsistency) // the cache does not hold it
	}
	err := a.client.Delete(ctx, live, options...)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, live.GetName(), err)
	}
	a.metrics.Wrote(owner.GVK.Kind, kind, Deleted)
	return nil
}

// Release removes from a child its owner and every mark of the operator, so
// that it is kept when the owner is deleted. An unowned child is left alone.
//
// The pod template keeps its annotations: changing it would replace the pods.
func (a *Applier) Release(ctx context.Context, owner Owner, in Intent) (Action, error) {
	live, err := a.readAnywhere(ctx, in)
	if err != nil {
		if apierrors.IsNotFound(err) {
			return Unchanged, nil
		}
		return "", fmt.Errorf("reading %s: %w", in, err)
	}
	uid := owner.Object.GetUID()
	if !metav1.IsControlledBy(live, owner.Object) && (metav1.GetControllerOf(live) != nil || !handedOver(live, uid)) {
		return Unchanged, nil
	}
	if !live.GetDeletionTimestamp().IsZero() {
		log.FromContext(ctx).Info("A child was deleted before it could be released", "child", in.String())
		return Lost, nil
	}
	before := live.DeepCopyObject().(client.Object)
	live.SetOwnerReferences(slices.DeleteFunc(live.GetOwnerReferences(), func(r metav1.OwnerReference) bool {
		return r.UID == uid || isNamespace(r, live.GetNamespace())
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
// cache does not hold a child that lost our label, or that was just created.
func (a *Applier) readAnywhere(ctx context.Context, in Intent) (client.Object, error) {
	live := in.newLive()
	err := a.client.Get(ctx, in.Key(), live)
	if apierrors.IsNotFound(err) {
		live = in.newLive()
		err = a.live.Get(ctx, in.Key(), live)
	}
	return live, err
}

// withoutMarks drops the operator's labels or annotations. Another tool's value
// of the common label is not ours to remove.
func withoutMarks(m map[string]string) map[string]string {
	maps.DeleteFunc(m, func(k, v string) bool {
		return strings.HasPrefix(k, naming.Domain+"/") || k == naming.LabelManagedBy && v == naming.ManagedBy
	})
	return m
}

// mayWrite decides whose a child is: nil when it is ours or was handed to us.
func mayWrite(owner Owner, in Intent, live client.Object) error {
	if !live.GetDeletionTimestamp().IsZero() {
		return fault.Waiting(fault.Probe, "%s is being deleted; it is made again when it is gone", in)
	}
	holder := metav1.GetControllerOf(live)
	switch {
	case holder == nil:
		why := "is nobody's"
		if tool := managedElsewhere(live); tool != "" {
			why = "is managed by " + tool
		} else if handedOver(live, owner.Object.GetUID()) {
			return nil
		}
		return fault.Stalled(common.ReasonConflict,
			"%s exists already and %s, so it is not touched; delete or rename it, rename this object, or hand it over by the annotation %s: %s",
			in, why, naming.AnnotationOwner, owner.Object.GetUID())
	case holder.UID == owner.Object.GetUID():
		return nil
	case holder.Kind == owner.GVK.Kind && holder.Name == owner.Object.GetName() && sameGroup(holder.APIVersion, owner.GVK.Group):
		return fault.Waiting(fault.Probe, "%s belongs to an earlier %s of this name; it is made again when it is gone", in, holder.Kind)
	default:
		return fault.Stalled(common.ReasonConflict,
			"%s exists already and belongs to %s %q, so it is not touched; delete or rename one of the two", in, holder.Kind, holder.Name)
	}
}

// handedOver tells whether an object without a controller is meant for that
// owner and nobody else has a hand on it: it was ours and somebody took the
// owner reference away, or a user gave it to us.
func handedOver(live client.Object, owner types.UID) bool {
	return live.GetAnnotations()[naming.AnnotationOwner] == string(owner) && !naming.HasOtherOwner(live, owner)
}

// managedElsewhere names the tool that an unowned object belongs to; it would
// fight us for it.
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

func hashOf(stated map[string]any) string {
	m, _ := stated["metadata"].(map[string]any)
	an, _ := m["annotations"].(map[string]any)
	h, _ := an[naming.AnnotationApplied].(string)
	return h
}

// isNewerThan reports whether the remembered write is later than the version
// of the same object that the cache holds.
func (m memo) isNewerThan(live client.Object) bool {
	if m.uid != live.GetUID() {
		return false
	}
	c, err := resourceversion.CompareResourceVersion(m.version, live.GetResourceVersion())
	return err == nil && c > 0
}

// isOfVersion reports whether nothing that we could repair has changed since
// the remembered write: the generation, or the resource version for kinds
// without a generation.
func (m memo) isOfVersion(live client.Object) bool {
	if m.uid != live.GetUID() {
		return false
	}
	if m.generation != 0 {
		return m.generation == live.GetGeneration()
	}
	return m.version == live.GetResourceVersion()
}
