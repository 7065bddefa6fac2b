package converge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// settle is how long counts, such as the number of ready replicas, may lag in
// the status and in the messages of conditions. It reduces the many steps of a
// rollout to few status writes, or to none if the rollout takes less time. A
// condition's new status or reason, which is what users wait for, is written
// immediately, together with the counts. The exceptions are Available when it
// becomes True while Ready does not change, and the start of a rollout.
const settle = 5 * time.Second

// startup is how long the status may lag after the object was created or its spec
// was changed, as long as everything is in order. If the pods are ready within
// this time, one status is written instead of two
// (docs/decisions/0041-one-status-if-quick.md).
const startup = time.Second

// Reconciler reconciles the objects of one kind.
type Reconciler struct {
	kind     AnyKind
	optional *optional // nil in tests that have none
	client   client.Client
	refs     *configsource.Reader
	applier  *apply.Applier
	events   events.EventRecorder
	now      func() time.Time

	deletions deletions

	mu      sync.Mutex
	objects map[types.NamespacedName]memory
}

// memory is the state of an object that is kept between reconciles. Losing it
// only causes an earlier status write.
type memory struct {
	uid       types.UID
	postponed postponed // the status, while it has not been written
	races     int       // consecutive reconciles that ended with a write conflict

	deleted  time.Time          // when this process first observed that the object is being deleted
	lost     map[apply.Ref]bool // children that were deleted before they were released
	vanished map[childKey]bool  // children that disappeared from the cache and may still exist
	pruned   map[types.UID]bool // children that were deleted and whose deletion is not in the cache yet
	// absent reports that this process has read the workload from the API server, and it
	// did not exist, or had the label and another owner. If it is created later, it has
	// the label, and cannot lose it without an event.
	absent bool
	// searched reports that this process has searched for children of the paused object
	// that must be retained. Later, none loses its label without an event.
	searched bool
	// sought reports the same of the children that could not be applied while the object
	// was not paused.
	sought bool
	// suspect reports that children may have been deleted by others, perhaps
	// because the object was: since the last complete reconcile, or while no
	// operator was running.
	suspect bool

	freed bool // the finalizer was removed; a cached object is outdated

	rest rest // what the last reconcile read, if it found nothing to do
}

// postponed is a status that was decided, but not written yet.
type postponed struct {
	since time.Time // since when a changed status has not been written
	// from has the status in the API server, and to the one that was decided.
	// Both have no spec.
	from, to Object
}

// NewReconciler returns the reconciler of one kind. refs reads the ConfigMaps
// and Secrets that objects refer to; now is the clock.
func NewReconciler(k AnyKind, c client.Client, refs *configsource.Reader, a *apply.Applier, r events.EventRecorder, now func() time.Time) *Reconciler {
	return &Reconciler{kind: k, client: c, refs: refs, applier: a, events: r, now: now, objects: map[types.NamespacedName]memory{}}
}

// Reconcile reconciles one object.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	began := r.now()
	obj := r.kind.New()
	if err := r.client.Get(ctx, req.NamespacedName, obj); err != nil {
		if apierrors.IsNotFound(err) {
			if r.kind.Limiter != nil {
				r.kind.Limiter.Release(req.NamespacedName)
			}
			if r.forget(req.NamespacedName) { // logged once, even if events of its children follow
				log.FromContext(ctx).Info(r.kind.Log.Gone)
			}
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, fmt.Errorf("reading the object: %w", err)
	}
	r.remember(req.NamespacedName, obj)
	gvk, err := apiutil.GVKForObject(obj, r.client.Scheme())
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("looking up the object's kind: %w", err)
	}
	owner := apply.Owner{
		Object: obj, GVK: metav1.GroupVersionKind(gvk),
		Elapsed: func() time.Duration { return r.now().Sub(began) },
	}

	if !obj.GetDeletionTimestamp().IsZero() {
		return r.tearDown(ctx, obj, owner)
	}
	if err := r.addFinalizer(ctx, obj); err != nil {
		v := r.classify(req.NamespacedName, err)
		return v.Result, v.Err
	}
	if after, ok := r.unchanged(ctx, obj); ok {
		return reconcile.Result{RequeueAfter: after}, nil
	}
	return r.converge(ctx, obj, owner)
}

func (r *Reconciler) converge(ctx context.Context, obj Object, owner apply.Owner) (reconcile.Result, error) {
	before := withoutSpec(obj)
	key := client.ObjectKeyFromObject(obj)
	r.resumeStatus(key, obj)
	out := NewOutcome(r.now(), fault.Verdict{}, nil)
	suspected := r.takeSuspicion(key)
	owner.Suspect = func() bool { return suspected || r.recall(key).suspect } // a child may disappear while this runs

	read := r.read(obj)
	read.versions = map[types.UID]string{}
	c := reconciliation{
		Reconciler: r, obj: obj, owner: owner, read: read, out: out,
		seen: uidRecorder{Reader: recorder{Reader: r.client, reads: read}, scheme: r.client.Scheme(), of: map[childKey]client.Object{}},
	}
	model, err := c.observe(ctx, read)
	fulfilled := false
	if err != nil {
		err = fmt.Errorf("observing: %w", err)
		model = unobserved{obj} // a failed read does not prove that anything is missing
	} else {
		model, fulfilled, err = c.observeAndWrite(ctx, model)
	}
	if err == nil && r.hasNeedlessFinalizer(obj) {
		err = r.patchFinalizers(ctx, obj, controllerutil.RemoveFinalizer)
		before = withoutSpec(obj) // the API server returned it
		r.resumeStatus(key, obj)
	}
	if err != nil && suspected {
		r.suspect(key)
	}
	out.Problem = r.classify(key, err)
	if err != nil {
		log.FromContext(ctx).V(1).Info("The reconcile did not complete", "error", err.Error())
	}
	if out.Problem.Class == fault.Quiet {
		return out.Problem.Result, out.Problem.Err // a write conflict is not reported
	}
	model.UpdateStatus(out)
	wait, written, err := r.writeStatus(ctx, before, obj, out.StatusIsUrgent(), out.Problem)
	if err != nil {
		v := r.classify(key, errors.Join(out.Problem.Err, err))
		return v.Result, v.Err
	}
	if !out.Problem.LostRace {
		r.wonRace(key)
	}
	result := out.Problem.Result
	for _, after := range []time.Duration{wait, *out.again} {
		if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) && out.Problem.Err == nil {
			result.RequeueAfter = after
		}
	}
	if fulfilled && !written && wait == 0 && out.Problem.Class == fault.None {
		now := rest{reads: read.sum}
		if result.RequeueAfter > 0 {
			now.until = out.Now.Add(result.RequeueAfter)
		}
		r.keepRest(key, now)
	}
	return result, out.Problem.Err
}

// unobserved is the model of an object for which Observe failed: only the
// conditions that report the error change.
type unobserved struct{ obj Object }

// Plan returns an empty plan.
func (unobserved) Plan() (Plan, error) { return Plan{}, nil }

// UpdateStatus reports the problem.
func (u unobserved) UpdateStatus(out Outcome) {
	conditions.ReportUnobserved(u.obj.GetStatus(), u.obj.GetGeneration(), out.Now, out.Problem)
}

// reconciliation is one reconcile of an object that is not being deleted.
type reconciliation struct {
	*Reconciler
	obj   Object
	owner apply.Owner
	read  *reads
	seen  uidRecorder // what was observed
	out   Outcome
	// vanished are the children that have disappeared from the cache, and unread is why
	// those without the label are not known.
	vanished map[childKey]bool
	unread   error
}

// observe returns the model of the object, which waits for the rollouts of other
// objects if necessary. It records the references that it read in reads.
func (c *reconciliation) observe(ctx context.Context, reads *reads) (Model, error) {
	model, err := c.kind.ObserveModel(ctx, Reader{Reader: c.seen, lacks: c.optional.lacks, reads: reads}, c.refs, c.obj)
	switch {
	case err != nil || c.kind.Limiter == nil:
	case c.kind.Paused(c.obj):
		c.kind.Limiter.Release(client.ObjectKeyFromObject(c.obj))
	default:
		c.kind.Limiter.Limit(c.obj, model)
	}
	return model, err
}

// observeAndWrite applies the model's plan. If children exist that are not in
// the cache, and that applying them would not find, it observes again including
// them, and returns the new model. fulfilled reports that there was nothing to
// write.
func (c *reconciliation) observeAndWrite(ctx context.Context, model Model) (_ Model, fulfilled bool, err error) {
	plan, err := model.Plan()
	var found map[childKey]client.Object
	found, c.unread = c.findUnlabelled(ctx, plan, err != nil)
	if len(found) > 0 {
		c.seen.unlabelled = found
		again, unobserved := c.observe(ctx, nil)
		if unobserved != nil {
			return model, false, fmt.Errorf("observing: %w", unobserved)
		}
		model = again
		plan, err = model.Plan()
	}
	unwritten := c.write(ctx, plan)
	// A plan that comes with an error may lack children. For those, the memory saves
	// at most one request, but revisions would accumulate in it as long as the error
	// persists.
	c.applier.ForgetOthers(c.owner, c.remembered(plan))
	err = errors.Join(err, c.unread, unwritten)
	return model, err == nil && len(found) == 0 && c.confirm(plan, c.out, c.read), err
}

// remembered returns the children of a plan of which the last write still matters:
// all of them, but for a paused object only those that exist, because the others
// are not created.
func (c *reconciliation) remembered(plan Plan) []apply.Intent {
	if !c.kind.Paused(c.obj) {
		return plan.Apply
	}
	return slices.DeleteFunc(slices.Clone(plan.Apply), func(in apply.Intent) bool {
		_, exists := c.out.children[childKey{in.Kind, in.Key()}]
		return !exists
	})
}

// write applies a plan. A child that cannot be written blocks only those that
// depend on it.
func (c *reconciliation) write(ctx context.Context, plan Plan) error {
	settled := map[childKey]bool{} // children that match the plan
	if c.kind.Paused(c.obj) {
		return errors.Join(c.look(ctx, plan), c.retain(ctx, plan, settled))
	}
	var disputes []error
	errs := []error{c.forEachChild(ctx, plan, func(in apply.Intent) error {
		k := childKey{in.Kind, in.Key()}
		if o, ok := c.seen.of[k]; ok && c.seen.unlabelled[k] == nil {
			in.ObservedUID = new(o.GetUID())
		}
		child, err := c.applier.Apply(ctx, c.owner, in)
		if err == nil {
			c.out.keep(k, child.Live, !child.Differs)
			settled[k] = true
			disputes = append(disputes, child.Dispute)
		}
		return err
	})}
	errs = append(errs, disputes...)
	for _, p := range plan.Prune {
		gvk, err := apiutil.GVKForObject(p, c.client.Scheme())
		if err == nil {
			err = c.prune(ctx, c.owner, gvk.Kind, p)
		}
		errs = append(errs, err)
	}
	errs = append(errs, c.retain(ctx, plan, settled))
	return errors.Join(errs...)
}

// retain sets the owner references of the children that were not applied as the
// deletion policy requires: those in the plan, and those that were observed but
// whose desired state could not be decided.
func (c *reconciliation) retain(ctx context.Context, plan Plan, settled map[childKey]bool) error {
	var errs []error
	for _, in := range plan.Apply {
		k := childKey{in.Kind, in.Key()}
		live := c.seen.unlabelled[k]
		switch {
		case settled[k] || !c.optional.available(in.Kind):
		case live == nil:
			errs = append(errs, c.retainUnapplied(ctx, k, in))
		case !in.DeleteOnOrphan:
			errs = append(errs, c.applier.RetainLive(ctx, c.owner, in.Kind, live))
		}
		settled[k] = true
	}
	for _, p := range plan.Prune {
		gvk, err := apiutil.GVKForObject(p, c.client.Scheme())
		errs = append(errs, err)
		if err == nil && c.kind.Paused(c.obj) && c.staysUnwanted(c.obj, p) {
			errs = append(errs, c.applier.RetainLive(ctx, c.owner, gvk.Kind, p))
		}
		settled[childKey{gvk.Kind, client.ObjectKeyFromObject(p)}] = true // deleted, or together with the owner
	}
	for _, k := range slices.SortedFunc(maps.Keys(c.seen.of), func(a, b childKey) int { return cmp.Compare(a.kind, b.kind) }) {
		if live := c.seen.of[k]; !settled[k] && exists(live) {
			errs = append(errs, c.applier.RetainLive(ctx, c.owner, k.kind, live))
		}
	}
	err := errors.Join(errs...)
	if err == nil && c.unread == nil && orphans(c.obj) && !c.kind.Paused(c.obj) {
		c.change(client.ObjectKeyFromObject(c.obj), func(m *memory) { m.sought = true })
	}
	return err
}

// forEachChild calls do for the children of a plan whose types are available,
// in the order of the plan and as permitted by their dependencies.
func (c *reconciliation) forEachChild(ctx context.Context, plan Plan, do func(apply.Intent) error) error {
	owned := func(ctx context.Context, in apply.Intent) (bool, error) { return c.applier.Owned(ctx, c.owner, in) }
	uncached := func(ctx context.Context, in apply.Intent) (bool, error) {
		if !c.optional.available(in.Kind) {
			return false, nil
		}
		return c.applier.OwnedUncached(ctx, c.owner, in)
	}
	return ForEachChild(ctx, plan, owned, uncached, func(in apply.Intent) error {
		if err := c.optional.ensure(ctx, in.Kind); err != nil {
			if !in.Optional {
				return err
			}
			if after := c.optional.comes(in.Kind); after > 0 {
				c.out.RequeueAfter(after)
			}
			return nil
		}
		return do(in)
	})
}

// look returns the problems of all children, and an error for the first child
// that would be written if the object were not paused. It writes nothing.
func (c *reconciliation) look(ctx context.Context, plan Plan) error {
	held := ""
	errs := []error{c.forEachChild(ctx, plan, func(in apply.Intent) error {
		child, differs, err := c.applier.NeedsApply(ctx, c.owner, in)
		k := childKey{in.Kind, in.Key()}
		if err == nil && child == nil && c.seen.unlabelled[k] != nil {
			child = c.seen.unlabelled[k]
		}
		if err == nil && child != nil {
			c.out.keep(k, child, !differs)
		}
		if err == nil && differs && held == "" {
			held = in.String()
		}
		return err
	})}
	for _, p := range plan.Prune {
		gvk, err := apiutil.GVKForObject(p, c.client.Scheme())
		if err == nil && held == "" && p.GetDeletionTimestamp().IsZero() {
			held = fmt.Sprintf("%s %q", gvk.Kind, p.GetName())
		}
		errs = append(errs, err)
	}
	if held != "" {
		errs = append(errs, &fault.Error{Class: fault.Wait, Reason: msgPaused.Reason(), Message: msgPaused.With(held)})
	}
	return errors.Join(errs...)
}

// patience is how long a deletion waits for reads and teardown. After that it
// continues without those that it does not need, and is reported as Stalled if
// it needs them.
const patience = 10 * time.Minute

// tearDown does what is necessary before the object can be deleted. If the
// object does not have the operator's finalizer, that is nothing, because the
// garbage collector deletes the children.
func (r *Reconciler) tearDown(ctx context.Context, obj Object, owner apply.Owner) (reconcile.Result, error) {
	key := client.ObjectKeyFromObject(obj)
	if !controllerutil.ContainsFinalizer(obj, naming.Finalizer) || r.recall(key).freed {
		return reconcile.Result{}, nil
	}
	foreground, known := r.deletions.inForeground(obj)
	if !known {
		return reconcile.Result{}, nil // the event of this version will enqueue the object
	}
	owner.Foreground = foreground
	before := withoutSpec(obj)
	late := r.deletedFor(key) >= patience
	if err := r.release(ctx, obj, owner, late); err != nil {
		v := r.classify(key, err)
		log.FromContext(ctx).Info("The object cannot be deleted yet", "why", err.Error())
		if v.Class == fault.Quiet {
			return v.Result, v.Err
		}
		problem := v
		problem.Message = message.Join(msgDeletionBlocked.With(), v.Message)
		if late {
			problem.Class = fault.Stall
			if orphans(obj) {
				problem.Message = message.Join(problem.Message, msgDeletionRemedy.With())
			}
		}
		// Each attempt increments the event's count, so that kubectl describe
		// shows that the deletion is still being retried.
		r.event(obj, "Warning", v.Reason, "Delete", problem.Message)
		conditions.ReportUnobserved(obj.GetStatus(), obj.GetGeneration(), r.now(), problem)
		if _, _, err := r.writeStatus(ctx, before, obj, true, problem); err != nil {
			log.FromContext(ctx).V(1).Info("Writing the status of an object that cannot be deleted yet failed", "error", err.Error())
		}
		return v.Result, v.Err
	}
	if err := r.patchFinalizers(ctx, obj, controllerutil.RemoveFinalizer); err != nil {
		v := r.classify(key, client.IgnoreNotFound(err))
		return v.Result, v.Err
	}
	r.free(key)
	return reconcile.Result{}, nil
}

// release releases the children of an object whose policy is Orphan, deletes those
// that an object with another policy still retains, and runs the kind's own teardown.
// If late is true, it continues after errors of steps that the deletion does not need.
func (r *Reconciler) release(ctx context.Context, obj Object, owner apply.Owner, late bool) error {
	children := client.Reader(r.client)
	if r.kind.Paused(obj) && orphans(obj) {
		// Those that are not wanted any more are not in the plan unless they are observed.
		children = unlabelledReader{children, r.applier, owner}
	}
	model, err := r.kind.observeChildren(ctx, Reader{Reader: children, lacks: r.optional.lacks}, obj)
	if err != nil && !late {
		return fmt.Errorf("observing: %w", err)
	}
	var also []apply.Intent
	if err != nil { // the spec names all children except those named by their content
		log.FromContext(ctx).Error(err, "Releasing the children without having observed them")
		if also, err = r.ownConfigMaps(ctx, obj); err != nil {
			return err
		}
		if model, err = r.kind.Offline(ctx, obj, nil); err != nil {
			return fmt.Errorf("naming the children: %w", err)
		}
	}
	if err := r.endChildren(ctx, obj, owner, model, also); err != nil {
		return err
	}
	if r.kind.Teardown == nil {
		return nil
	}
	done, err := r.kind.Teardown(ctx, r.client, obj)
	if err == nil && !done {
		err = fault.Waiting(5*time.Second, msgTeardown)
	}
	if err != nil && late {
		log.FromContext(ctx).Error(err, "Giving up the teardown")
		r.event(obj, "Warning", msgTeardownGivenUp.Reason(), "Delete", message.Join(msgTeardownGivenUp.With(patience), fault.Classify(err).Message))
		return nil
	}
	return err
}

// endChildren releases the children if the policy is Orphan, or else ends those that
// are also owned by their Namespace: the policy was Orphan until shortly before the
// deletion, and they were not written in between. It returns all errors, joined.
func (r *Reconciler) endChildren(ctx context.Context, obj Object, owner apply.Owner, model Model, also []apply.Intent) error {
	end := r.applier.EndRetained
	if orphans(obj) {
		end = r.releaseChild
	}
	plan, err := model.Plan()
	if err != nil {
		err = fmt.Errorf("naming the children: %w", err)
	}
	errs := []error{err}
	for _, in := range slices.Concat(plan.Apply, also) {
		if in.DeleteOnOrphan || !r.optional.served(in.Kind) {
			continue // useless without its owner, or of a type that is not served
		}
		errs = append(errs, end(ctx, owner, in))
	}
	for _, child := range plan.Prune {
		errs = append(errs, r.discard(ctx, owner, child))
	}
	return errors.Join(errs...)
}

// releaseChild releases a child, and reports one that was deleted before.
func (r *Reconciler) releaseChild(ctx context.Context, owner apply.Owner, in apply.Intent) error {
	if err := r.optional.ensure(ctx, in.Kind); err != nil {
		return err
	}
	action, err := r.applier.Release(ctx, owner, in)
	if action == apply.Lost && r.lose(owner.Object, in) {
		r.event(owner.Object, "Warning", msgChildLost.Reason(), "Delete", msgChildLost.With(in))
	}
	return err
}

// discard ends a child that is no longer wanted. The garbage collector would not
// delete it: children of an orphaning object are also owned by their Namespace.
func (r *Reconciler) discard(ctx context.Context, owner apply.Owner, child client.Object) error {
	gvk, err := apiutil.GVKForObject(child, r.client.Scheme())
	if err != nil {
		return fmt.Errorf("looking up the kind of %q: %w", child.GetName(), err)
	}
	if apply.Orphaned(owner, child) && r.staysUnwanted(owner.Object.(Object), child) {
		_, err := r.applier.Release(ctx, owner, apply.Named(gvk.Kind, child))
		return err
	}
	return r.applier.Delete(ctx, owner, gvk.Kind, child)
}

// staysUnwanted reports whether a child that is no longer wanted outlives an object that
// orphans its children.
func (r *Reconciler) staysUnwanted(obj Object, child client.Object) bool {
	switch child.(type) {
	case *appsv1.ControllerRevision:
		return false // it is useless without the object
	case *corev1.ConfigMap:
		return true // pods that are left behind may mount it
	}
	return r.kind.Paused(obj) // it was not deleted when the spec stopped asking for it
}

// ownConfigMaps returns intents that name the object's ConfigMaps.
func (r *Reconciler) ownConfigMaps(ctx context.Context, obj Object) ([]apply.Intent, error) {
	live, err := r.kind.ownConfigMaps(ctx, r.client, obj)
	var all []apply.Intent
	for _, c := range live {
		all = append(all, apply.Named("ConfigMap", c))
	}
	return all, err
}

// deletedFor returns how long this process has known that an object is being
// deleted. The deletion timestamp is not used, because another clock sets it.
func (r *Reconciler) deletedFor(key types.NamespacedName) (known time.Duration) {
	r.change(key, func(m *memory) {
		now := r.now()
		if m.deleted.IsZero() {
			m.deleted = now
		}
		known = now.Sub(m.deleted)
	})
	return known
}

// lose records that a child was deleted before it could be released, and
// reports whether that was not known before.
func (r *Reconciler) lose(obj client.Object, in apply.Intent) (isNew bool) {
	r.change(client.ObjectKeyFromObject(obj), func(m *memory) {
		isNew = !m.lost[in.Ref()]
		if m.lost == nil {
			m.lost = map[apply.Ref]bool{}
		}
		m.lost[in.Ref()] = true
	})
	return isNew
}

// needsFinalizer reports whether the object must not be deleted before its teardown.
func (r *Reconciler) needsFinalizer(obj Object) bool {
	return orphans(obj) || r.kind.Teardown != nil
}

// addFinalizer adds the finalizer if the object needs it. Usually the mutating
// webhook has already done so in the user's request.
func (r *Reconciler) addFinalizer(ctx context.Context, obj Object) error {
	if !r.needsFinalizer(obj) || controllerutil.ContainsFinalizer(obj, naming.Finalizer) {
		return nil
	}
	return r.patchFinalizers(ctx, obj, controllerutil.AddFinalizer)
}

// hasNeedlessFinalizer reports whether the finalizer can be removed when all children
// match the plan. Until then, some may still be retained by their Namespace, and the
// garbage collector would not delete them.
func (r *Reconciler) hasNeedlessFinalizer(obj Object) bool {
	return !r.needsFinalizer(obj) && controllerutil.ContainsFinalizer(obj, naming.Finalizer)
}

func (r *Reconciler) patchFinalizers(ctx context.Context, obj Object, change func(client.Object, string) bool) error {
	before := obj.DeepCopyObject().(Object)
	change(obj, naming.Finalizer)
	err := r.client.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(naming.FieldManager))
	if err != nil {
		return fmt.Errorf("changing the finalizers: %w", err)
	}
	return nil
}

// fewRaces is how many consecutive reconciles of an object may end with a write
// conflict before it is treated as an error. At the retry interval of
// conflicts, they take two seconds.
const fewRaces = 20

// classify classifies an error. A write conflict is reported, and retried with
// back-off, once there have been more than fewRaces in a row.
func (r *Reconciler) classify(key types.NamespacedName, err error) fault.Verdict {
	v := fault.Classify(err)
	if !v.LostRace {
		return v
	}
	races := 0
	r.change(key, func(m *memory) {
		m.races++
		races = m.races
	})
	if races > fewRaces {
		return fault.ClassifyLasting(err)
	}
	return v
}

// wonRace records a reconcile that did not end with a write conflict.
func (r *Reconciler) wonRace(key types.NamespacedName) {
	r.change(key, func(m *memory) { m.races = 0 })
}

// writeStatus writes the status if it differs. If the difference may soon become
// another one, it writes nothing and returns how long to wait. An urgent status, and
// one that reports a problem, is always written. before has no spec.
func (r *Reconciler) writeStatus(ctx context.Context, before, after Object, urgent bool, problem fault.Verdict) (wait time.Duration, written bool, err error) {
	key := client.ObjectKeyFromObject(after)
	after = withoutSpec(after)
	keepTransitions(before.GetStatus(), after.GetStatus())
	if sameStatus(before, after) {
		r.settled(key)
		return 0, false, nil
	}
	decided := before
	if last := r.unwritten(key, before); last != nil {
		decided = last
	}
	if left := r.postpone(key, before, after, mayLag(before.GetStatus(), after.GetStatus(), urgent, problem)); left > 0 {
		return left, false, nil
	}
	// The resource version rejects the write of a former leader that was
	// suspended and resumed.
	err = r.client.Status().Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(naming.FieldManager))
	if apierrors.IsNotFound(err) {
		return 0, true, nil // deleted meanwhile
	}
	if err != nil {
		return 0, false, fmt.Errorf("writing the status: %w", err)
	}
	r.settled(key)
	r.announce(decided, after, observesSpec(before.GetStatus(), after.GetStatus()), problem)
	return 0, true, nil
}

// observesSpec reports whether a status is the first one of a generation of the spec.
func observesSpec(before, after *common.Status) bool {
	return before.ObservedGeneration != after.ObservedGeneration
}

// keepTransitions keeps the times of conditions whose status is that in the API
// server: a change that was undone before it was written is no transition.
func keepTransitions(before, after *common.Status) {
	for i := range after.Conditions {
		c := &after.Conditions[i]
		if written := meta.FindStatusCondition(before.Conditions, c.Type); written != nil && written.Status == c.Status {
			c.LastTransitionTime = written.LastTransitionTime
		}
	}
}

// mayLag returns how long a changed status may remain unwritten, or 0.
func mayLag(before, after *common.Status, urgent bool, problem fault.Verdict) time.Duration {
	started := observesSpec(before, after)
	switch {
	case urgent:
		return 0
	case !started && sameButMessages(before.Conditions, after.Conditions, problem):
		return settle
	case started && problem.Class == fault.None && meta.IsStatusConditionTrue(after.Conditions, common.ConditionReconciling) && !becameUnavailable(before, after):
		return startup
	default:
		return 0
	}
}

// becameUnavailable reports whether nothing serves any more.
func becameUnavailable(before, after *common.Status) bool {
	return meta.IsStatusConditionTrue(before.Conditions, common.ConditionAvailable) &&
		!meta.IsStatusConditionTrue(after.Conditions, common.ConditionAvailable)
}

// withoutSpec returns a copy of an object without its spec, which may be large.
// Only the status is compared, and patched.
func withoutSpec(o Object) Object {
	shallow := reflect.New(reflect.TypeOf(o).Elem())
	shallow.Elem().Set(reflect.ValueOf(o).Elem())
	shallow.Elem().FieldByName("Spec").SetZero()
	return shallow.Interface().(Object).DeepCopyObject().(Object)
}

func statusOf(o Object) reflect.Value { return reflect.ValueOf(o).Elem().FieldByName("Status") }

func sameStatus(a, b Object) bool {
	return equality.Semantic.DeepEqual(statusOf(a).Interface(), statusOf(b).Interface())
}

// sameButMessages reports whether conditions are equal except for messages that
// describe progress, and for Available having become True. A message about a
// problem matters.
func sameButMessages(before, after []metav1.Condition, problem fault.Verdict) bool {
	return slices.EqualFunc(before, after, func(b, a metav1.Condition) bool {
		if problem.Class == fault.None {
			b.Message = a.Message
		}
		return problem.Class == fault.None && becameAvailable(b, a) || equality.Semantic.DeepEqual(b, a)
	})
}

// becameAvailable reports whether the first pods serve. All of them usually do
// a moment later, when Ready changes too.
func becameAvailable(b, a metav1.Condition) bool {
	return a.Type == common.ConditionAvailable && b.Type == a.Type &&
		b.Status == metav1.ConditionFalse && a.Status == metav1.ConditionTrue
}

// announce sends an event for every condition that changed its status or
// reason since the last decision, and that is not implied by another one. If the
// user has started a rollout, by creating or changing the object, it is announced
// when it ends, or when something holds it up.
func (r *Reconciler) announce(before, after Object, started bool, problem fault.Verdict) {
	started = started && problem.Class == fault.None
	for _, c := range after.GetStatus().Conditions {
		old := meta.FindStatusCondition(before.GetStatus().Conditions, c.Type)
		if old != nil && old.Status == c.Status && old.Reason == c.Reason {
			continue
		}
		kind := "Normal"
		switch {
		case c.Type == common.ConditionStalled:
			kind = "Warning"
		case c.Type == common.ConditionReady && c.Status == metav1.ConditionTrue:
		case c.Type == common.ConditionReconciling && old == nil && !started:
		default:
			continue // Reconciling or Stalled explain Ready=False, and Ready explains Available
		}
		r.event(after, kind, c.Reason, "Reconcile", c.Type+": "+c.Message)
	}
}

// maxNote is the maximum length in bytes of the note of an event, as validated
// by events.k8s.io/v1. The API server rejects an event with a longer note.
const maxNote = 1024

// event records an event. The API server would reject an event without a
// reason; the causes that have none do not concern the user.
func (r *Reconciler) event(obj client.Object, kind, reason, action, note string) {
	if reason != "" {
		r.events.Eventf(obj, nil, kind, reason, action, "%s", fault.Clip(note, maxNote))
	}
}

func (r *Reconciler) remember(key types.NamespacedName, obj Object) {
	uid, reconciled := obj.GetUID(), obj.GetStatus().ObservedGeneration > 0
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.objects[key]
	if m.uid != uid {
		if m.uid != "" {
			r.applier.Forget(m.uid)
			r.refs.Forget(m.uid)
		}
		r.objects[key] = memory{uid: uid, suspect: reconciled}
	}
}

// recall returns what is remembered about an object. Its maps belong to the Reconciler.
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

// takeSuspicion reports whether children of an object may have been deleted by
// others since the last call. A reconcile that fails records the suspicion again.
func (r *Reconciler) takeSuspicion(key types.NamespacedName) (was bool) {
	r.change(key, func(m *memory) { was, m.suspect = m.suspect, false })
	return was
}

// suspect records that children of an object may have been deleted by others.
func (r *Reconciler) suspect(key types.NamespacedName) {
	r.change(key, func(m *memory) { m.suspect = true })
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

func (r *Reconciler) free(key types.NamespacedName) {
	r.change(key, func(m *memory) { m.freed = true })
}

// settled records that the status that was decided last has been written.
func (r *Reconciler) settled(key types.NamespacedName) {
	r.change(key, func(m *memory) { m.postponed = postponed{} })
}

// postpone records a status that is not written yet, and returns how long it may
// remain unwritten: lag, less the time since the first of the changes. Counts that
// changed before the user did do not matter to that.
func (r *Reconciler) postpone(key types.NamespacedName, before, after Object, lag time.Duration) (left time.Duration) {
	if lag == 0 {
		return 0
	}
	r.change(key, func(m *memory) {
		now := r.now()
		starts := observesSpec(before.GetStatus(), after.GetStatus())
		if last := m.postponed; last.to == nil || starts && !observesSpec(last.from.GetStatus(), last.to.GetStatus()) {
			m.postponed.since = now
		}
		m.postponed.from, m.postponed.to = before, after
		left = lag - now.Sub(m.postponed.since)
	})
	return left
}

// resumeStatus replaces the status of an object by the one that was decided last, if
// it has not been written yet. So decisions do not depend on whether it has. A status
// that was changed in the API server meanwhile is not replaced.
func (r *Reconciler) resumeStatus(key types.NamespacedName, obj Object) {
	if last := r.unwritten(key, obj); last != nil {
		statusOf(obj).Set(statusOf(last.DeepCopyObject().(Object)))
	}
}

// unwritten returns the object with the status that was decided last, or nil if that
// has been written, or if written has another status than the decision was based on.
func (r *Reconciler) unwritten(key types.NamespacedName, written Object) Object {
	r.mu.Lock()
	last := r.objects[key].postponed
	r.mu.Unlock()
	if last.to == nil || !sameStatus(last.from, written) {
		return nil
	}
	return last.to
}
