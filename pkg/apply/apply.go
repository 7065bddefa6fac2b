package apply

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// maxAge is how long after its start a reconcile may still write. A leader that
// was paused must not act on data that it read before another leader took over.
// A lease can be taken over 15 s after its last renewal, and a leader steps
// down if it has not renewed its lease for 10 s, so a reconcile that began
// during leadership may continue for 5 s.
const maxAge = 5 * time.Second

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

func (a *Applier) count(owner Owner, kind string, e Event) {
	if a.record != nil {
		a.record(owner.GVK.Kind, kind, e)
	}
}

// Apply creates or updates one child so that it matches the intent. It sends no
// request if the child matches already. The returned child is the live object
// afterwards.
func (a *Applier) Apply(ctx context.Context, owner Owner, in Intent) (Child, error) {
	child, err := a.apply(ctx, owner, in)
	if err != nil {
		a.count(owner, in.Kind, Event{Err: err})
		return child, err
	}
	if child.Dispute == nil {
		child.Dispute = a.ongoingDispute(owner, in)
	}
	if child.Action == Unchanged {
		a.count(owner, in.Kind, Event{Action: Unchanged})
	}
	child.KeptSince = a.recall(owner, in).written.keptSince(child.Live)
	return child, nil
}

func (a *Applier) apply(ctx context.Context, owner Owner, in Intent) (Child, error) {
	child, err := a.applyOnce(ctx, owner, in)
	if err == nil || in.Fallback == nil {
		a.endRefusals(owner, in)
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
	a.endRefusals(owner, in)
	return a.applyOnce(ctx, owner, in.instead(other))
}

// retryRefused is the first interval after which an intent that was refused,
// perhaps only temporarily, is retried. The next intervals double the time.
const retryRefused = 250 * time.Millisecond

// refusedFor returns how long a child has been refused. The time begins with
// the first call.
func (a *Applier) refusedFor(owner Owner, in Intent) time.Duration {
	known := a.recall(owner, in)
	if known.refused.IsZero() {
		known.refused = a.now()
		a.remember(owner, in, known)
	}
	return a.now().Sub(known.refused)
}

func (a *Applier) endRefusals(owner Owner, in Intent) {
	if known := a.recall(owner, in); !known.refused.IsZero() {
		known.refused = time.Time{}
		a.remember(owner, in, known)
	}
}

// NeedsApply returns the live child, or nil if it does not exist, whether Apply would
// write it, and the fields that differ, as far as the cache shows them. It reads only the
// cache, and writes nothing.
func (a *Applier) NeedsApply(ctx context.Context, owner Owner, in Intent) (live client.Object, differs bool, fields string, err error) {
	t, err := a.begin(owner, in)
	if err != nil {
		return nil, false, "", err
	}
	live, err = a.cached(ctx, in)
	if err != nil || live == nil {
		return nil, err == nil, "", err
	}
	e, err := t.evaluate(live)
	if err != nil {
		return nil, true, "", err
	}
	return live, e.action != Unchanged, e.fields, nil
}

// cached returns the child that the cache holds, or nil.
func (a *Applier) cached(ctx context.Context, in Intent) (client.Object, error) {
	live := in.newLive()
	err := a.client.Get(ctx, in.Key(), live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", in, err)
	}
	return live, nil
}

func (a *Applier) applyOnce(ctx context.Context, owner Owner, in Intent) (Child, error) {
	t, err := a.begin(owner, in)
	if err != nil {
		return Child{}, err
	}
	return t.run(ctx)
}

// Delete deletes an owned child that is no longer wanted, provided that it is
// still in the observed version: if it has changed since, it may be unowned, or
// wanted by a later leader. A child that is unowned or already being deleted is
// not changed.
func (a *Applier) Delete(ctx context.Context, owner Owner, kind string, live client.Object) error {
	a.forgetChild(owner, kind, client.ObjectKeyFromObject(live))
	if !Owns(owner.Object, live) || !live.GetDeletionTimestamp().IsZero() {
		return nil
	}
	if !metav1.IsControlledBy(live, owner.Object) && live.GetAnnotations()[naming.AnnotationOrphanOf] == "" && owner.Object.GetDeletionTimestamp().IsZero() {
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
	err := a.client.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, live.GetName(), err)
	}
	a.count(owner, kind, Event{Action: Deleted})
	return nil
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
	earlier := isName(owner, holder)
	switch {
	case holder != nil && !ours && !earlier:
		return fault.Stalled(msgOtherOwner, in, holder.Kind, holder.Name)
	case deleting:
		return fault.Waiting(fault.Probe, msgChildDeleted, in)
	case tool == "" && (handedOver(live, owner) || in.meta != nil && isEarlier(live, owner, in.meta.Labels)):
		return nil
	case earlier:
		return fault.Waiting(fault.Probe, msgEarlier, in, holder.Kind)
	case tool != "":
		return fault.Stalled(msgUnowned, in, "is managed by "+tool, naming.AnnotationOwner, uid)
	default:
		return fault.Stalled(msgUnowned, in, "has no owner", naming.AnnotationOwner, uid)
	}
}

// handedOver reports whether an object without a controller belongs to the given owner: it
// outlives the owner, or an earlier one of the same name, its owner reference was removed, or
// a user handed it over by setting the annotation.
func handedOver(live client.Object, owner Owner) bool {
	marks := live.GetAnnotations()
	return metav1.GetControllerOf(live) == nil &&
		(marks[naming.AnnotationOwner] == string(owner.Object.GetUID()) || marks[naming.AnnotationOrphanOf] == OrphanOf(owner))
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

// isName reports whether a reference names the owner, whatever its UID and version are.
func isName(owner Owner, ref *metav1.OwnerReference) bool {
	if ref == nil || ref.Kind != owner.GVK.Kind || ref.Name != owner.Object.GetName() {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == owner.GVK.Group
}
