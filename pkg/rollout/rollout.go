// Package rollout decides which pod template is deployed: the one that the spec
// asks for, the previous one if that failed, or the one that the spec pins.
//
// A revision is the pod template that the operator generated from one set of
// inputs, which are the fields of the spec that affect pods. It is stored in a
// ControllerRevision. This has two consequences:
//
//   - Rollback: a failed rollout is rolled back to exactly the revision that
//     was healthy before. The spec is not modified.
//   - Template contract: while the inputs do not change, the template does not
//     change either. A newer operator that would generate a different template
//     does not replace pods; the status lists what it would change, and the
//     next change of the inputs applies that.
//
// The package is pure. The state that must be kept, which is the healthy and
// the failed revision, is in the object's status. A failure is recorded there
// before the operator acts on it: if the operator is terminated at any time,
// its successor makes the same decision.
package rollout

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/revision"
)

// defaultHistory is how many revisions are kept in addition to those in use, as
// for a Deployment.
const defaultHistory = 10

// maxHistory is how many bytes the revisions of an object and the snapshots that
// they mount may have, unless those in use have more. The operator holds all of
// them in memory, for all objects, and etcd has a few gigabytes.
const maxHistory = 4 << 20

// Observed is the observed state that a rollout depends on.
type Observed struct {
	// Deployment is nil if it does not exist or is unowned.
	Deployment *appsv1.Deployment
	// Revisions are those of the object.
	Revisions []*appsv1.ControllerRevision
	// Pods are those with the labels of the object, and JobPods those of its Jobs.
	Pods, JobPods []corev1.Pod
}

// Input is the input of a decision.
type Input struct {
	// Kind, Namespace and Name identify the object.
	Kind, Namespace, Name string
	// Labels are the labels of revisions.
	Labels map[string]string
	// Inputs is everything that the template depends on and that a user can
	// change. It is compared as JSON, so unset fields must be omitted from
	// that: a field that a later version adds must not appear to be a change.
	Inputs any
	// Template is the template generated from the inputs.
	Template *corev1ac.PodTemplateSpecApplyConfiguration
	// Rollout is the part of the spec that configures rollouts. It may be nil.
	Rollout *common.Rollout
	// Status is the state recorded by earlier reconciles.
	Status common.RolloutStatus
	// Conditions are those of the object. They contain, by the operator's own
	// clock, since when it has been waiting for pods.
	Conditions []metav1.Condition
	// IgnoreLogLines are parts of log lines that containers always write and that do
	// not explain a failure. Lines that contain one are ignored.
	IgnoreLogLines []string
	// KnownErrors are summaries of failures of the configuration test, by parts of its output.
	KnownErrors map[string]string
	// SnapshotSizes are the sizes of the live snapshots in bytes, by name.
	SnapshotSizes map[string]int64
	// Carried is the volume of which pods mount other versions too. It may be nil.
	Carried *Carried
	// Now is when the state was observed, and Idle reports that no pods should run.
	Now  time.Time
	Idle bool
	// Adopted reports that Template contains values of a stored template.
	Adopted bool
}

// Revision is one set of inputs and the template generated from it.
type Revision struct {
	Number int64
	// name is that of the ControllerRevision, and hash that of the template.
	name, hash string
	// At least one is set: the template if it was generated from the spec or read
	// from the Deployment, and the stored one.
	fresh *corev1ac.PodTemplateSpecApplyConfiguration
	live  *appsv1.ControllerRevision
	// generated reports that fresh was generated from the spec alone.
	generated bool
	// kept returns the stored template. It is decoded once, because each reconcile
	// looks for the snapshots that the whole history mounts.
	kept func() (*corev1ac.PodTemplateSpecApplyConfiguration, error)
}

// Template returns the template from which the pods of the revision are
// created.
func (r Revision) Template() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if r.fresh != nil {
		return r.fresh, nil
	}
	return r.kept()
}

// storedIn returns the revision that is stored in a ControllerRevision.
func storedIn(live *appsv1.ControllerRevision) Revision {
	r := Revision{name: live.Name, live: live}
	r.Number, r.hash = revision.Identity(live)
	r.kept = sync.OnceValues(func() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
		t, err := revision.Template[corev1ac.PodTemplateSpecApplyConfiguration](live)
		if err != nil {
			return nil, fault.Stalled(msgNoTemplate, live.Name)
		}
		return t, nil
	})
	return r
}

// Name returns the name of the ControllerRevision.
func (r Revision) Name() string { return r.name }

// Decision is which template is deployed, and which revisions are kept.
type Decision struct {
	// Desired is the revision that the spec asks for.
	Desired Revision
	// Serving is the revision that should serve.
	Serving Revision
	// Template is the template of Serving.
	Template *corev1ac.PodTemplateSpecApplyConfiguration
	// Keep is the intent to store Desired.
	Keep apply.Intent
	// Restore is the intent to store the revision of the Deployment, if it is missing
	// from the history, and serves or is the last healthy one. It may be nil.
	Restore *apply.Intent
	// Prune are revisions that are no longer needed.
	Prune []client.Object
	// Kept are the revisions that are kept, including Desired.
	Kept []Revision

	question Input
	pending  []string
	memory   memory
	// fresh is the template generated from the spec. It is nil if that is not
	// known.
	fresh *corev1ac.PodTemplateSpecApplyConfiguration
	rules Rules
	// back is the revision that a failed rollout is rolled back to, if any.
	back *Revision
	// pinned reports that the spec names the revision that should serve. held
	// reports that the revision that should serve is not available, or has to wait,
	// so the current one is kept.
	pinned, held bool
	// preparing reports that Serving serves only until all pods mount the volume of the
	// revision with the number next. continues reports that the rollout is the second
	// step after that.
	preparing, continues bool
	next                 int64
	// canary reports that the pods of Serving are held, and unsettled is how long at most
	// another canary waits for pods that start.
	canary    bool
	unsettled time.Duration
	// shared reports that the change of a shared object starts the rollout.
	shared bool
	// unasked reports that the inputs of the spec are not known.
	unasked bool
	// upcoming is the template of a revision that may not be rolled out yet, if any.
	upcoming *corev1ac.PodTemplateSpecApplyConfiguration
}

// Decide decides which revision serves. An error of class Stall reports that
// this revision is not available. The decision that is returned with it keeps
// the revision that is serving, if that is known, so that the Deployment can
// still be scaled and repaired.
func Decide(q Input, seen Observed) (Decision, error) {
	d := Decision{question: q, memory: remembered(q.Status)}
	history := sorted(seen.Revisions)
	inputs, err := hash.Of(q.Kind, q.Inputs)
	if err != nil {
		return d, fmt.Errorf("hashing the inputs of the pod template: %w", err)
	}
	fresh, err := mark(q.Template)
	if err != nil {
		return d, err
	}
	fresh.name = q.Name + "-" + inputs
	fresh.generated = !q.Adopted
	if fresh.generated {
		d.fresh = fresh.fresh
	}
	d.Desired = d.asked(fresh, history, seen.Deployment)
	if d.Desired.hash != fresh.hash {
		kept, err := d.Desired.Template()
		if err != nil {
			return d, err
		}
		d.pending = differences(kept, fresh.fresh)
	}
	if i := slices.IndexFunc(history, func(r Revision) bool { return r.name == d.Desired.name }); i >= 0 {
		history[i] = d.Desired
	} else {
		history = append(history, d.Desired)
	}
	if d.Keep, err = d.Desired.intent(q); err != nil {
		return d, err
	}
	// A revision that the status refers to has been created before.
	d.Keep.NeverCreated = d.Desired.live == nil && !d.memory.names(d.Desired)
	return d, d.decide(history, seen)
}

// asked returns the revision of the inputs. fresh has the newly generated
// template.
func (d *Decision) asked(fresh Revision, history []Revision, live *appsv1.Deployment) Revision {
	if kept, ok := (reference{name: fresh.name}).in(history); ok {
		if kept.hash == fresh.hash {
			// The stored template claims to be the same, which is wrong if the
			// operator did not write it.
			kept.fresh, kept.generated = fresh.fresh, fresh.generated
		}
		return kept
	}
	for _, ref := range []reference{d.memory.current, d.memory.healthy, d.memory.failed} {
		if ref.name == fresh.name { // it is no longer kept, or not yet in the cache
			fresh.Number = ref.number
		}
	}
	if fresh.Number == 0 {
		fresh.Number = next(history, d.question.Status)
	}
	if d.memory.current.name != fresh.name {
		return fresh
	}
	// It is already serving, possibly with a template of an earlier version.
	if lost, ok := d.lost(live, append(slices.Clone(history), fresh)); ok && d.isCurrent(lost.hash) {
		lost.name, lost.Number = fresh.name, fresh.Number
		return lost
	}
	return fresh
}

// decide selects the revision that should serve, and those that are kept.
func (d *Decision) decide(history []Revision, seen Observed) error {
	live := seen.Deployment
	lost, ok := d.lost(live, history)
	candidates := history
	if ok {
		candidates = append(slices.Clone(history), lost)
	}
	healthy := d.memory.healthy
	d.memory.observe(seen, candidates)
	var missing error
	if d.Serving, missing = d.serving(candidates); missing != nil {
		d.Kept = history
		if d.Serving, d.held = d.memory.current.in(candidates); !d.held {
			return missing
		}
	}
	d.settle(candidates, seen)
	var err error
	if d.Template, err = d.Serving.Template(); err != nil {
		return errors.Join(missing, err)
	}
	if err := d.carry(candidates, seen); err != nil {
		return errors.Join(missing, err)
	}
	d.canary = d.isCanary(seen)
	if ok && (d.Serving.name == lost.name || d.isLastCopy(lost, history)) {
		restore, err := lost.intent(d.question)
		if err != nil {
			return errors.Join(missing, err)
		}
		d.Restore = &restore
		history = candidates
	} else if ok && d.memory.healthy.is(lost) {
		d.memory.healthy = healthy // what is not kept cannot be rolled back to
	}
	if missing == nil && !d.unasked {
		d.Kept, d.Prune = d.keep(history)
	} else {
		d.Kept = history
	}
	return missing
}

// isLastCopy reports whether only the Deployment, which is about to get another
// template, still has that of the last healthy revision. If the revision that was
// decided last is kept, the template of the Deployment is not that of a revision: it
// was edited.
func (d *Decision) isLastCopy(lost Revision, history []Revision) bool {
	_, kept := remembered(d.question.Status).current.in(history)
	return !kept && d.memory.healthy.is(lost)
}

// LastKnown is Decide for an object whose inputs cannot be determined, because
// an object that the spec refers to is missing. It needs neither q.Inputs nor
// q.Template. The revision of the last decision keeps serving with its stored
// template, so that the Deployment can still be scaled, repaired and created
// again. A rollout in progress is still evaluated, and rolled back if it fails.
// Nothing is pruned.
//
// The decision has no template if nothing was decided before, or if that
// revision is neither kept nor serving. The caller must not modify the
// Deployment then. Unlike Decide, LastKnown does not report a pinned revision
// that is not kept, because the caller already has an error to report.
func LastKnown(q Input, seen Observed) (Decision, error) {
	d := Decision{question: q, memory: remembered(q.Status), pending: q.Status.PendingChanges, unasked: true}
	history := sorted(seen.Revisions)
	d.Kept = history
	known := d.memory
	known.observe(seen, history)
	// The revision that the spec last asked for is assumed to be still wanted.
	var ok bool
	if d.Desired, ok = known.failed.in(history); !ok {
		if d.Desired, ok = known.current.in(history); !ok {
			return d, d.decideLost(seen)
		}
	}
	var err error
	if d.Keep, err = d.Desired.intent(q); err != nil {
		return d, err
	}
	if err := d.decide(history, seen); d.Template == nil {
		return d, err
	}
	return d, nil
}

// decideLost keeps the revision that is serving if it is missing from the
// history.
func (d *Decision) decideLost(seen Observed) error {
	lost, ok := d.lost(seen.Deployment, d.Kept)
	if !ok {
		return nil
	}
	d.memory.observe(seen, []Revision{lost})
	d.Desired, d.Serving, d.Template = lost, lost, lost.fresh
	d.Kept = append(d.Kept, lost)
	var err error
	d.Keep, err = lost.intent(d.question)
	return err
}

// serving selects the revision that should serve.
func (d *Decision) serving(history []Revision) (Revision, error) {
	if back, ok := d.memory.healthy.in(history); ok && back.name != d.Desired.name {
		d.back = &back
	}
	if r := d.question.Rollout; r != nil && r.PinnedRevision != nil {
		d.pinned = true
		if found, ok := d.numbered(history, *r.PinnedRevision); ok {
			return found, nil
		}
		return Revision{}, fault.Stalled(msgNoRevision, *r.PinnedRevision, numbers(history))
	}
	if !d.memory.failed.is(d.Desired) {
		return d.Desired, nil
	}
	if d.onFailure() == common.OnFailureHalt || !d.memory.healthy.known() {
		// Halt never changes which revision serves. After a rollback or a pin,
		// that is not the one that the spec asks for.
		if current, ok := d.memory.current.in(history); ok {
			return current, nil
		}
	}
	if !d.memory.healthy.known() || d.memory.healthy.is(d.Desired) {
		return d.Desired, nil
	}
	if d.back != nil {
		return *d.back, nil
	}
	return Revision{}, fault.Stalled(msgHealthyNotKept, d.Desired.Number, d.memory.healthy.number)
}

// keep splits the history into the revisions to keep and those to prune. It
// keeps the newest ones that fit into the limits, in addition to those in use.
func (d *Decision) keep(history []Revision) (kept []Revision, prune []client.Object) {
	limit := defaultHistory
	if r := d.question.Rollout; r != nil && r.RevisionHistoryLimit != nil {
		limit = int(*r.RevisionHistoryLimit)
	}
	before := remembered(d.question.Status)
	inUse := []reference{referenceTo(d.Desired), referenceTo(d.Serving), d.memory.current, d.memory.healthy, before.current, before.healthy}
	isInUse := func(r Revision) bool {
		return r.live == nil || slices.ContainsFunc(inUse, func(ref reference) bool { return ref.is(r) })
	}
	counted := map[string]bool{}
	var total int64
	for _, r := range history {
		if isInUse(r) {
			total += d.size(r, counted)
		}
	}
	for _, r := range slices.Backward(history) { // newest first
		if !isInUse(r) {
			if limit > 0 {
				if total += d.size(r, counted); total > maxHistory {
					limit = 0
				}
			}
			if limit == 0 {
				prune = append(prune, r.live)
				continue
			}
			limit--
		}
		kept = append(kept, r)
	}
	slices.Reverse(kept)
	return kept, prune
}

// size returns the number of bytes of a stored revision, and of the live
// snapshots that it mounts and that are not yet counted.
func (d *Decision) size(r Revision, counted map[string]bool) int64 {
	if r.live == nil {
		return 0
	}
	size := int64(len(r.live.Data.Raw))
	if len(d.question.SnapshotSizes) == 0 {
		return size
	}
	t, err := r.Template()
	if err != nil {
		return size // Snapshots reports it
	}
	names := map[string]bool{}
	mentioned(t, names)
	for name := range names {
		if !counted[name] {
			counted[name] = true
			size += d.question.SnapshotSizes[name]
		}
	}
	return size
}

// Complete adds the changes of the history to a plan.
func (d *Decision) Complete(plan converge.Plan) converge.Plan {
	if d.Restore != nil {
		plan.Apply = append(plan.Apply, *d.Restore)
	}
	if d.Keep.Name != "" {
		plan.Apply = append(plan.Apply, d.Keep)
	}
	plan.Prune = append(plan.Prune, d.Prune...)
	return plan
}

// Restarted annotates a template with the time of the last requested restart.
func Restarted(t *corev1ac.PodTemplateSpecApplyConfiguration, r *common.Rollout) *corev1ac.PodTemplateSpecApplyConfiguration {
	if r != nil && r.RestartedAt != nil {
		t.WithAnnotations(map[string]string{naming.AnnotationRestartedAt: r.RestartedAt.UTC().Format(time.RFC3339)})
	}
	return t
}

// WithSecrets annotates a template with the digest that Secrets returned.
func WithSecrets(t *corev1ac.PodTemplateSpecApplyConfiguration, digest string) *corev1ac.PodTemplateSpecApplyConfiguration {
	if digest != "" {
		t.WithAnnotations(map[string]string{naming.AnnotationSecrets: digest})
	}
	return t
}

// PodLabels returns the labels of the pods that should serve or, if nothing was
// decided, of the pods of the live Deployment, which may be nil.
func (d *Decision) PodLabels(live *appsv1.Deployment) map[string]string {
	switch {
	case d.Template != nil && d.Template.ObjectMetaApplyConfiguration != nil:
		return d.Template.Labels
	case live != nil:
		return live.Spec.Template.Labels
	}
	return nil
}

// RolledBack reports whether an earlier revision should serve because the one
// that the spec asks for failed.
func (d *Decision) RolledBack() bool {
	return !d.pinned && !d.held && !d.preparing && d.Serving.name != d.Desired.name
}

func (d *Decision) onFailure() common.FailurePolicy {
	if r := d.question.Rollout; r != nil && r.OnFailure != "" {
		return r.OnFailure
	}
	return common.OnFailureRollback
}

// intent returns the intent to store a revision.
func (r Revision) intent(q Input) (apply.Intent, error) {
	raw, err := r.data()
	if err != nil {
		return apply.Intent{}, fmt.Errorf("encoding revision %d: %w", r.Number, err)
	}
	in := apply.New(appsv1ac.ControllerRevision(r.name, q.Namespace).
		WithLabels(q.Labels).
		WithAnnotations(map[string]string{naming.AnnotationTemplate: r.hash}).
		WithData(runtime.RawExtension{Raw: raw}).
		WithRevision(r.Number),
		func() *appsv1.ControllerRevision { return &appsv1.ControllerRevision{} })
	in.DeleteOnOrphan = true
	return in, nil
}

// data returns the content of the ControllerRevision in a canonical encoding,
// because the API server returns JSON in a different order.
func (r Revision) data() ([]byte, error) {
	if r.live != nil {
		return hash.Canonical(r.live.Data) // it is immutable
	}
	return hash.Canonical(revision.Contents[corev1ac.PodTemplateSpecApplyConfiguration]{Template: r.fresh, Revision: r.Number})
}

// sorted returns the existing revisions, oldest first.
func sorted(live []*appsv1.ControllerRevision) []Revision {
	var all []Revision
	for _, l := range live {
		all = append(all, storedIn(l))
	}
	slices.SortFunc(all, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.live.Name, b.live.Name))
	})
	return all
}

// mark annotates a template with its own hash, so that pods show which template
// they were created from.
func mark(t *corev1ac.PodTemplateSpecApplyConfiguration) (Revision, error) {
	hashed, err := hash.Of("", t)
	if err != nil {
		return Revision{}, fmt.Errorf("hashing the pod template: %w", err)
	}
	t.WithAnnotations(map[string]string{naming.AnnotationTemplate: hashed})
	return Revision{fresh: t, hash: hashed}, nil
}

// numbered returns the revision with a number. If several have it, it prefers
// one that is in use.
func (d *Decision) numbered(history []Revision, number int64) (found Revision, ok bool) {
	for _, r := range history {
		if r.Number != number || ok && !d.memory.names(r) {
			continue
		}
		found, ok = r, true
	}
	return found, ok
}

func numbers(history []Revision) string {
	all := make([]string, len(history))
	for i, r := range history {
		all[i] = strconv.FormatInt(r.Number, 10)
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}
