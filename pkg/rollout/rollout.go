// Package rollout decides which pod template serves: the one that the spec
// asks for, the one before it where that failed, or the one that the spec pins.
//
// A revision is what the operator once made of one set of inputs, which is
// what the spec says about pods. It is kept in a ControllerRevision. Two
// promises follow from that:
//
//   - The way back: a rollout that fails goes back to the revision that was
//     healthy before, exactly as it was. The spec is not touched.
//   - The template contract: while the inputs stay, so does the template. A
//     newer operator, which would make another one, changes no pod; what it
//     would change is said in the status and comes with the next change of the
//     inputs.
//
// Everything here is pure. What must be remembered, which revision was healthy
// and which one failed, is in the object's status, and a failure is recorded
// there before anything follows from it: whenever the operator is killed, the
// next one decides the same.
package rollout

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
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
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// defaultHistory is how many revisions are kept beside those in use, as for a
// Deployment.
const defaultHistory = 10

// Seen is what the cluster holds that matters to a rollout.
type Seen struct {
	// Deployment is nil where none stands.
	Deployment *appsv1.Deployment
	// Revisions are the object's own.
	Revisions []*appsv1.ControllerRevision
	// Pods carry the object's labels.
	Pods []corev1.Pod
}

// Question is what there is to decide.
type Question struct {
	// Kind, Namespace and Name are the object's.
	Kind, Namespace, Name string
	// Labels are put on the revisions.
	Labels map[string]string
	// Inputs is all that the template depends on and that a user can change.
	// It is compared by its JSON, so fields that are unset must be left out of
	// that: a field that a later version adds must not look like a change.
	Inputs any
	// Template makes the template of the inputs.
	Template *corev1ac.PodTemplateSpecApplyConfiguration
	// Rollout is what the spec says about rollouts, nil where it says nothing.
	Rollout *common.Rollout
	// Status is what is remembered.
	Status common.RolloutStatus
	// Conditions are the object's. They say, by the operator's own clock, since
	// when it waits for pods.
	Conditions []metav1.Condition
	// Harmless marks lines that containers always write, and that say nothing
	// about why one fails. "" marks none.
	Harmless string
}

// Revision is one set of inputs and the template made of it.
type Revision struct {
	Number int64
	// name is the ControllerRevision's, and hash that of the template.
	name, hash string
	// One of the two: the template if it is yet to be written, or what is kept.
	fresh *corev1ac.PodTemplateSpecApplyConfiguration
	live  *appsv1.ControllerRevision
}

// Template is what the pods of the revision are made from.
func (r Revision) Template() (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	if r.live == nil {
		return r.fresh, nil
	}
	var c contents
	if err := json.Unmarshal(r.live.Data.Raw, &c); err != nil || c.Template == nil {
		return nil, fault.Stalled(common.ReasonInvalid, "ControllerRevision %q holds no pod template; delete it", r.live.Name)
	}
	return c.Template, nil
}

// Decision says which template serves, and what is kept.
type Decision struct {
	// Asked is the revision that the spec asks for.
	Asked Revision
	// Serving is the revision that is to serve.
	Serving Revision
	// Template is what its pods are made from.
	Template *corev1ac.PodTemplateSpecApplyConfiguration
	// Keep is Asked as a child.
	Keep apply.Intent
	// Restore is what serves as a child, nil unless the history has lost it.
	Restore *apply.Intent
	// Prune are revisions that nobody needs any more.
	Prune []client.Object
	// Kept are the revisions that stay, Asked included.
	Kept []Revision

	question Question
	pending  []string
	memory   memory
	// back is what a failed rollout is rolled back to, nil for nothing.
	back *Revision
	// pinned: the spec names the revision that is to serve. held: what should
	// serve is not available, so what serves is kept.
	pinned, held bool
	// unasked: what the spec asks for is not known.
	unasked bool
}

// contents is what a ControllerRevision holds.
type contents struct {
	Template *corev1ac.PodTemplateSpecApplyConfiguration `json:"template"`
	Revision int64                                       `json:"revision,omitempty"`
}

// Decide decides. An error, of class Stall, says that what should serve is not
// available. The decision that comes with it keeps what serves, if that is
// known, so that the Deployment can still be scaled and repaired.
func Decide(q Question, seen Seen) (Decision, error) {
	d := Decision{question: q, memory: remembered(q.Status)}
	history := sorted(seen.Revisions)
	inputs, err := hashOf(q.Kind, q.Inputs)
	if err != nil {
		return d, fmt.Errorf("hashing the inputs of the pod template: %w", err)
	}
	fresh, err := mark(q.Template)
	if err != nil {
		return d, err
	}
	fresh.name = q.Name + "-" + inputs
	if d.Asked, err = d.asked(fresh, history, seen.Deployment); err != nil {
		return d, err
	}
	if d.Asked.hash != fresh.hash {
		kept, err := d.Asked.Template()
		if err != nil {
			return d, err
		}
		d.pending = differences(kept, fresh.fresh)
	}
	if d.Asked.live == nil {
		history = append(history, d.Asked)
	}
	if d.Keep, err = d.Asked.intent(q); err != nil {
		return d, err
	}
	// What the status names was created once.
	d.Keep.Unmade = d.Asked.live == nil && !d.memory.names(d.Asked)
	return d, d.decide(history, seen.Deployment)
}

// asked returns the revision of the inputs. fresh is that with a new template.
func (d *Decision) asked(fresh Revision, history []Revision, live *appsv1.Deployment) (Revision, error) {
	if kept, ok := (reference{name: fresh.name}).in(history); ok {
		return kept, nil
	}
	for _, ref := range []reference{d.memory.current, d.memory.healthy, d.memory.failed} {
		if ref.name == fresh.name { // it is no longer kept, or the cache does not show it yet
			fresh.Number = ref.number
		}
	}
	if fresh.Number == 0 {
		fresh.Number = next(history, d.question.Status)
	}
	if d.memory.current.name != fresh.name {
		return fresh, nil
	}
	// It serves already, maybe with a template of an earlier operator.
	if lost, ok, err := d.lost(live, append(slices.Clone(history), fresh)); ok || err != nil {
		lost.name, lost.Number = fresh.name, fresh.Number
		return lost, err
	}
	return fresh, nil
}

// decide picks the revision that is to serve, and what is kept.
func (d *Decision) decide(history []Revision, live *appsv1.Deployment) error {
	lost, ok, err := d.lost(live, history)
	if err != nil {
		return err
	}
	candidates := history
	if ok {
		candidates = append(slices.Clone(history), lost)
	}
	d.memory.observe(live, candidates)
	var missing error
	if d.Serving, missing = d.serving(candidates); missing != nil {
		d.Kept = history
		if d.Serving, d.held = d.memory.current.in(candidates); !d.held {
			return missing
		}
	}
	if d.Template, err = d.Serving.Template(); err != nil {
		return errors.Join(missing, err)
	}
	if ok && d.Serving.name == lost.name {
		restore, err := lost.intent(d.question)
		if err != nil {
			return errors.Join(missing, err)
		}
		d.Restore = &restore
		history = candidates
	}
	if missing == nil && !d.unasked {
		d.Kept, d.Prune = d.keep(history)
	} else {
		d.Kept = history
	}
	return missing
}

// LastKnown is Decide for an object whose inputs cannot be determined, because
// something that the spec refers to is missing: it needs neither q.Inputs nor
// q.Template. The revision that was decided last keeps serving, with the
// template that is kept of it, so that the Deployment can still be scaled,
// repaired and created again. A rollout that is in progress is still judged,
// and rolled back if it fails. Nothing is pruned.
//
// The decision has no template if nothing was decided before, or if that
// revision is neither kept nor served: then leave the Deployment alone. Unlike
// Decide it does not report a pinned revision that is not kept, because the
// caller has an error to report already.
func LastKnown(q Question, seen Seen) (Decision, error) {
	d := Decision{question: q, memory: remembered(q.Status), pending: q.Status.PendingChanges, unasked: true}
	history := sorted(seen.Revisions)
	d.Kept = history
	known := d.memory
	known.observe(seen.Deployment, history)
	// What is asked for is taken to be what was asked for last.
	var ok bool
	if d.Asked, ok = known.failed.in(history); !ok {
		if d.Asked, ok = known.current.in(history); !ok {
			return d, d.decideLost(seen.Deployment)
		}
	}
	var err error
	if d.Keep, err = d.Asked.intent(q); err != nil {
		return d, err
	}
	if err := d.decide(history, seen.Deployment); d.Template == nil {
		return d, err
	}
	return d, nil
}

// decideLost keeps what serves if the history has lost it.
func (d *Decision) decideLost(live *appsv1.Deployment) error {
	lost, ok, err := d.lost(live, d.Kept)
	if !ok || err != nil {
		return err
	}
	d.memory.observe(live, []Revision{lost})
	d.Asked, d.Serving, d.Template = lost, lost, lost.fresh
	d.Kept = append(d.Kept, lost)
	d.Keep, err = lost.intent(d.question)
	return err
}

// serving picks the revision that is to serve.
func (d *Decision) serving(history []Revision) (Revision, error) {
	if back, ok := d.memory.healthy.in(history); ok && back.name != d.Asked.name {
		d.back = &back
	}
	if r := d.question.Rollout; r != nil && r.PinnedRevision != nil {
		d.pinned = true
		if found, ok := d.numbered(history, *r.PinnedRevision); ok {
			return found, nil
		}
		return Revision{}, fault.Stalled(common.ReasonRevisionNotFound,
			"spec.rollout.pinnedRevision: there is no revision %d; kept are %s", *r.PinnedRevision, numbers(history))
	}
	if !d.memory.failed.is(d.Asked) {
		return d.Asked, nil
	}
	if d.onFailure() == common.OnFailureHalt || !d.memory.healthy.known() {
		// Halt never changes what serves. After a rollback or a pin that is not
		// what the spec asks for.
		if current, ok := d.memory.current.in(history); ok {
			return current, nil
		}
	}
	if !d.memory.healthy.known() || d.memory.healthy.is(d.Asked) {
		return d.Asked, nil
	}
	if d.back != nil {
		return *d.back, nil
	}
	return Revision{}, fault.Stalled(common.ReasonRevisionNotFound,
		"revision %d failed, and revision %d, which was healthy, is no longer kept: change the spec, or rollout.restartedAt, to go on", d.Asked.Number, d.memory.healthy.number)
}

// keep splits the history into what stays and what is no longer needed.
func (d *Decision) keep(history []Revision) (kept []Revision, prune []client.Object) {
	limit := defaultHistory
	if r := d.question.Rollout; r != nil && r.RevisionHistoryLimit != nil {
		limit = int(*r.RevisionHistoryLimit)
	}
	before := remembered(d.question.Status)
	inUse := []reference{referenceTo(d.Asked), referenceTo(d.Serving), d.memory.current, d.memory.healthy, before.current, before.healthy}
	for _, r := range slices.Backward(history) { // the newest first
		switch {
		case r.live == nil || slices.ContainsFunc(inUse, func(ref reference) bool { return ref.is(r) }):
		case limit > 0:
			limit--
		default:
			prune = append(prune, r.live)
			continue
		}
		kept = append(kept, r)
	}
	slices.Reverse(kept)
	return kept, prune
}

// Complete adds to a plan what the history needs.
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

// Restarted writes into a template when its pods were last asked to be replaced.
func Restarted(t *corev1ac.PodTemplateSpecApplyConfiguration, r *common.Rollout) *corev1ac.PodTemplateSpecApplyConfiguration {
	if r != nil && r.RestartedAt != nil {
		t.WithAnnotations(map[string]string{naming.AnnotationRestartedAt: r.RestartedAt.UTC().Format(time.RFC3339)})
	}
	return t
}

// WithSecrets writes into a template what the Secrets held that its pods use, as
// Secrets has it.
func WithSecrets(t *corev1ac.PodTemplateSpecApplyConfiguration, digest string) *corev1ac.PodTemplateSpecApplyConfiguration {
	if digest != "" {
		t.WithAnnotations(map[string]string{naming.AnnotationSecrets: digest})
	}
	return t
}

// PodLabels are those of the pods that are to serve or, where nothing was
// decided, of those that live, which may be nil, makes.
func (d *Decision) PodLabels(live *appsv1.Deployment) map[string]string {
	switch {
	case d.Template != nil && d.Template.ObjectMetaApplyConfiguration != nil:
		return d.Template.Labels
	case live != nil:
		return live.Spec.Template.Labels
	}
	return nil
}

// RolledBack reports whether an earlier revision is to serve because the one
// that the spec asks for failed.
func (d *Decision) RolledBack() bool {
	return !d.pinned && !d.held && d.Serving.name != d.Asked.name
}

func (d *Decision) onFailure() common.FailurePolicy {
	if r := d.question.Rollout; r != nil && r.OnFailure != "" {
		return r.OnFailure
	}
	return common.OnFailureRollback
}

// intent is a revision as a child.
func (r Revision) intent(q Question) (apply.Intent, error) {
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
	in.Bound = true
	return in, nil
}

// data is what the ControllerRevision holds, always in the same bytes: the API
// server gives back the same JSON in another order.
func (r Revision) data() ([]byte, error) {
	if r.live != nil {
		return canonical(r.live.Data) // it cannot be changed
	}
	return canonical(contents{Template: r.fresh, Revision: r.Number})
}

// sorted are the revisions that stand, the oldest first.
func sorted(live []*appsv1.ControllerRevision) []Revision {
	var all []Revision
	for _, l := range live {
		r := Revision{Number: l.Revision, name: l.Name, live: l}
		r.stored()
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.live.Name, b.live.Name))
	})
	return all
}

// stored takes number and hash from what the ControllerRevision holds, which
// nobody can change, as they can its field revision and its annotations.
func (r *Revision) stored() {
	var c struct {
		Template metav1.PartialObjectMetadata `json:"template"`
		Revision int64                        `json:"revision"`
	}
	if err := json.Unmarshal(r.live.Data.Raw, &c); err != nil {
		return // there is no template in it; whoever wants that is told
	}
	r.hash = c.Template.Annotations[naming.AnnotationTemplate]
	r.Number = cmp.Or(c.Revision, r.Number)
}

// mark writes the hash of a template into it: a pod tells which template made it.
func mark(t *corev1ac.PodTemplateSpecApplyConfiguration) (Revision, error) {
	hash, err := hashOf("", t)
	if err != nil {
		return Revision{}, fmt.Errorf("hashing the pod template: %w", err)
	}
	t.WithAnnotations(map[string]string{naming.AnnotationTemplate: hash})
	return Revision{fresh: t, hash: hash}, nil
}

// hashOf hashes a value by its JSON with sorted keys: that a type's fields come
// in another order is no change.
func hashOf(salt string, v any) (string, error) {
	raw, err := canonical(v)
	if err != nil {
		return "", err
	}
	h := fnv.New64a()
	h.Write([]byte(salt)) // a hash never fails to write
	h.Write(raw)
	return strconv.FormatUint(h.Sum64(), 16), nil
}

func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var sorted any
	if err := json.Unmarshal(raw, &sorted); err != nil {
		return nil, err
	}
	return json.Marshal(sorted)
}

// numbered returns the revision of a number. If two have it, one that is in use
// is meant.
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
	return strings.Join(all, ", ")
}
