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
	// Harmless marks lines that containers always write, and that say nothing
	// about why one fails. "" marks none.
	Harmless string
}

// Revision is one set of inputs and the template made of it.
type Revision struct {
	Number int64
	hash   string
	// One of the two: where it is yet to be written, or where it stands.
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
	// Prune are revisions that nobody needs any more.
	Prune []client.Object
	// Kept are the revisions that stay, Asked included.
	Kept []Revision

	question Question
	pending  []string
	pinned   bool
}

// contents is what a ControllerRevision holds.
type contents struct {
	Template *corev1ac.PodTemplateSpecApplyConfiguration `json:"template"`
	Revision int64                                       `json:"revision,omitempty"`
}

// Decide decides. An error, of class Stall, says that what should serve is not
// to be had; what serves is then better left alone.
func Decide(q Question, seen Seen) (Decision, error) {
	d := Decision{question: q}
	history := sorted(seen.Revisions)
	inputs, err := hashOf(q.Kind, q.Inputs)
	if err != nil {
		return d, fmt.Errorf("hashing the inputs of the pod template: %w", err)
	}
	fresh, err := mark(q.Template)
	if err != nil {
		return d, err
	}
	name := q.Name + "-" + inputs
	if i := slices.IndexFunc(history, func(r Revision) bool { return r.live.Name == name }); i >= 0 {
		d.Asked = history[i]
		if d.Asked.hash != fresh.hash {
			kept, err := d.Asked.Template()
			if err != nil {
				return d, err
			}
			d.pending = differences(kept, fresh.fresh)
		}
	} else {
		d.Asked = fresh
		d.Asked.Number = 1
		if n := len(history); n > 0 {
			d.Asked.Number = history[n-1].Number + 1
		}
		history = append(history, d.Asked)
	}
	if d.Keep, err = d.Asked.intent(name, q); err != nil {
		return d, err
	}
	// A number that the status does not know yet was never given.
	known := d.revisions()
	d.Keep.Unmade = d.Asked.live == nil && d.Asked.Number > max(known.Current, known.LastHealthy, known.Failed)
	if d.Serving, err = d.serving(history); err != nil {
		d.Kept = history
		return d, err
	}
	if d.Template, err = d.Serving.Template(); err != nil {
		return d, err
	}
	d.Kept, d.Prune = d.keep(history)
	return d, nil
}

// LastKnown is Decide for an object whose inputs cannot be determined, because
// something that the spec refers to is missing: it needs neither q.Inputs nor
// q.Template. The revision that was decided last keeps serving, with the
// template that is kept of it, so that the Deployment can still be scaled,
// repaired and created again. A rollout that is in progress is still judged,
// and rolled back if it fails. Nothing is pruned.
//
// The decision has no template if nothing was decided before, or if that
// revision is no longer kept: then leave the Deployment alone.
func LastKnown(q Question, seen Seen) (Decision, error) {
	d := Decision{question: q, Kept: sorted(seen.Revisions), pending: q.Status.PendingChanges}
	current, ok := d.current(seen.Deployment)
	if !ok {
		return d, nil
	}
	known := d.revisions()
	d.Asked = current
	if failed, ok := numbered(d.Kept, known.Failed); ok {
		d.Asked = failed // that it failed must not be forgotten
	}
	var err error
	if d.Keep, err = d.Asked.intent(d.Asked.live.Name, q); err != nil {
		return d, err
	}
	if d.Serving, err = d.serving(d.Kept); err != nil {
		d.Serving, d.pinned = current, false
	}
	d.Template, err = d.Serving.Template()
	return d, err
}

// current returns the revision that the status names as the current one or,
// if the status names none, the one whose template the Deployment has.
func (d *Decision) current(live *appsv1.Deployment) (Revision, bool) {
	if found, ok := numbered(d.Kept, d.revisions().Current); ok {
		return found, true
	}
	if live == nil || d.revisions().Current != 0 {
		return Revision{}, false
	}
	hash := live.Spec.Template.Annotations[naming.AnnotationTemplate]
	i := slices.IndexFunc(d.Kept, func(r Revision) bool { return hash != "" && r.hash == hash })
	if i < 0 {
		return Revision{}, false
	}
	return d.Kept[i], true
}

// serving picks the revision that is to serve.
func (d *Decision) serving(history []Revision) (Revision, error) {
	if r := d.question.Rollout; r != nil && r.PinnedRevision != nil {
		d.pinned = true
		if found, ok := numbered(history, *r.PinnedRevision); ok {
			return found, nil
		}
		return Revision{}, fault.Stalled(common.ReasonRevisionNotFound,
			"spec.rollout.pinnedRevision: there is no revision %d; kept are %s", *r.PinnedRevision, numbers(history))
	}
	known := d.revisions()
	if known.Failed != d.Asked.Number || d.onFailure() == common.OnFailureHalt || known.LastHealthy == 0 || known.LastHealthy == d.Asked.Number {
		return d.Asked, nil
	}
	if found, ok := numbered(history, known.LastHealthy); ok {
		return found, nil
	}
	return Revision{}, fault.Stalled(common.ReasonRevisionNotFound,
		"revision %d failed, and revision %d, which serves, is no longer kept: change the spec, or rollout.restartedAt, to go on", d.Asked.Number, known.LastHealthy)
}

// keep splits the history into what stays and what is no longer needed.
func (d *Decision) keep(history []Revision) (kept []Revision, prune []client.Object) {
	limit := defaultHistory
	if r := d.question.Rollout; r != nil && r.RevisionHistoryLimit != nil {
		limit = int(*r.RevisionHistoryLimit)
	}
	known := d.revisions()
	inUse := []int64{d.Asked.Number, d.Serving.Number, known.Current, known.LastHealthy}
	for _, r := range slices.Backward(history) { // the newest first
		switch {
		case slices.Contains(inUse, r.Number):
		case limit > 0:
			limit--
		default:
			prune = append(prune, r.live) // Asked, the only one that may not stand, is in use
			continue
		}
		kept = append(kept, r)
	}
	slices.Reverse(kept)
	return kept, prune
}

// Complete adds to a plan what the history needs.
func (d *Decision) Complete(plan converge.Plan) converge.Plan {
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

// RolledBack tells whether an earlier revision is to serve because the one
// that the spec asks for failed.
func (d *Decision) RolledBack() bool { return !d.pinned && d.Serving.Number != d.Asked.Number }

func (d *Decision) revisions() common.Revisions {
	if r := d.question.Status.Revisions; r != nil {
		return *r
	}
	return common.Revisions{}
}

func (d *Decision) onFailure() common.FailurePolicy {
	if r := d.question.Rollout; r != nil && r.OnFailure != "" {
		return r.OnFailure
	}
	return common.OnFailureRollback
}

// intent is a revision as a child.
func (r Revision) intent(name string, q Question) (apply.Intent, error) {
	raw, err := r.data()
	if err != nil {
		return apply.Intent{}, fmt.Errorf("encoding revision %d: %w", r.Number, err)
	}
	in := apply.New(appsv1ac.ControllerRevision(name, q.Namespace).
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
		r := Revision{Number: l.Revision, live: l}
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

func numbered(history []Revision, number int64) (Revision, bool) {
	i := slices.IndexFunc(history, func(r Revision) bool { return r.Number == number })
	if i < 0 {
		return Revision{}, false
	}
	return history[i], true
}

func numbers(history []Revision) string {
	all := make([]string, len(history))
	for i, r := range history {
		all[i] = strconv.FormatInt(r.Number, 10)
	}
	return strings.Join(all, ", ")
}
