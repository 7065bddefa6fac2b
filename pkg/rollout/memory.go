package rollout

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/revision"
)

// reference identifies a revision that may no longer be kept. Two revisions can
// have the same number, because an outdated cache may not contain the first one
// when the second one is created. Therefore the name decides, if it is known: a
// status that an earlier version wrote contains no names.
type reference struct {
	number int64
	name   string
}

func referenceTo(r Revision) reference { return reference{r.Number, r.name} }

func (ref reference) known() bool { return ref.number != 0 || ref.name != "" }

func (ref reference) is(r Revision) bool {
	if ref.name != "" {
		return ref.name == r.name
	}
	return ref.number != 0 && ref.number == r.Number
}

func (ref reference) in(history []Revision) (Revision, bool) {
	i := slices.IndexFunc(history, ref.is)
	if i < 0 {
		return Revision{}, false
	}
	return history[i], true
}

// memory contains what is known about the revisions of an object.
type memory struct {
	// current is the revision that is serving, or the one last decided on.
	current reference
	// template is the hash of the template of current. It is "" if an earlier version of
	// the operator decided on it.
	template string
	// healthy is the last revision whose pods were all available for a while.
	healthy reference
	// failed is the revision whose rollout failed while the spec asked for it.
	failed reference
}

func remembered(status common.RolloutStatus) memory {
	r := status.Revisions
	if r == nil {
		return memory{}
	}
	return memory{
		current:  reference{r.Current, r.CurrentName},
		template: r.CurrentTemplate,
		healthy:  reference{r.LastHealthy, r.LastHealthyName},
		failed:   reference{r.Failed, r.FailedName},
	}
}

func (m memory) revisions() *common.Revisions {
	return &common.Revisions{
		Current: m.current.number, CurrentName: m.current.name, CurrentTemplate: m.template,
		LastHealthy: m.healthy.number, LastHealthyName: m.healthy.name,
		Failed: m.failed.number, FailedName: m.failed.name,
	}
}

// serves records that r is in use. That alone adds no hash to a status of an earlier
// version, so that an upgrade costs no request.
func (m *memory) serves(r Revision) {
	if serving := referenceTo(r); m.current != serving || m.template != "" {
		m.current, m.template = serving, r.hash
	}
}

// names reports whether memory refers to r.
func (m memory) names(r Revision) bool {
	return m.current.is(r) || m.healthy.is(r) || m.failed.is(r)
}

// observe adds what the live Deployment and its pods show. They may be newer than
// the status, and replace it if the status is lost.
func (m *memory) observe(seen Observed, history []Revision) {
	live := seen.Deployment
	serving, ok := servedBy(live, history, m.current)
	if !ok {
		return
	}
	lost := !m.current.known()
	if m.failed.is(serving) && !lost && !m.current.is(serving) && !proven(live) {
		return // another client has put it back, such as kubectl rollout undo
	}
	m.serves(serving)
	if lost {
		m.restore(seen, history, serving)
	}
}

// restore adds what the annotations of the Deployment and the pods show about the
// failed and the healthy revision, because the status is lost.
func (m *memory) restore(seen Observed, history []Revision, serving Revision) {
	live := seen.Deployment
	if proven(live) && !isChanged(live, serving) {
		m.healthy = m.current
	}
	if failed := live.Annotations[naming.AnnotationFailedRevision]; failed != "" && failed != serving.name {
		m.failed = reference{name: failed}
	}
	if m.healthy.known() {
		return
	}
	recorded, ok := reference{name: live.Annotations[naming.AnnotationHealthyRevision]}.in(history)
	switch {
	case ok && (m.failed.known() || recorded.name == serving.name || !resources.RolledOut(live)):
		m.healthy = referenceTo(recorded)
	case m.failed.known():
		// The annotation was written when another revision replaced the failed
		// one. If that is not the healthy one, there is the other annotation.
		m.healthy = m.current
	default:
		// The revision that is serving may have become healthy since.
		if m.healthy = ready(seen.Pods, history, serving); ok && !m.healthy.known() {
			m.healthy = referenceTo(recorded)
		}
	}
}

// ready returns the newest revision that has ready pods, but the one that is serving
// only if there is no other: a rollout in progress may fail. That is less than proven
// requires, but if the status is lost during a scale-up, there is no better evidence
// of a revision that can be rolled back to.
func ready(pods []corev1.Pod, history []Revision, serving Revision) reference {
	var found reference
	for _, r := range slices.Backward(history) {
		if !slices.ContainsFunc(podsOf(pods, r.hash), podstate.Ready) {
			continue
		}
		if found = referenceTo(r); r.name != serving.name {
			return found
		}
	}
	return found
}

// proven reports whether all pods of a Deployment's current template are
// available. Zero replicas prove nothing about a template.
func proven(d *appsv1.Deployment) bool {
	return resources.Complete(d) && d.Status.AvailableReplicas > 0
}

// isChanged reports whether another client has changed fields of the template of a
// revision, so that its pods show nothing about the revision.
func isChanged(live *appsv1.Deployment, r Revision) bool {
	template, err := r.Template()
	return err != nil || slices.ContainsFunc(revision.Differences(template, live.Spec.Template), func(d revision.Difference) bool {
		return d.From != nil
	})
}

// servedBy returns the revision from which the pods of a Deployment are
// created. If two revisions have the same template, it returns the preferred
// one.
func servedBy(live *appsv1.Deployment, history []Revision, preferred reference) (Revision, bool) {
	if live == nil {
		return Revision{}, false
	}
	hash := live.Spec.Template.Annotations[naming.AnnotationTemplate]
	made := func(r Revision) bool { return hash != "" && r.hash == hash }
	if r, ok := preferred.in(history); ok && made(r) {
		return r, true
	}
	i := slices.IndexFunc(history, made)
	if i < 0 {
		return Revision{}, false
	}
	return history[i], true
}

// next returns a number that no revision has had.
func next(history []Revision, status common.RolloutStatus) int64 {
	var last int64
	for _, r := range history {
		last = max(last, r.Number)
	}
	if r := status.Revisions; r != nil {
		last = max(last, r.Current, r.LastHealthy, r.Failed)
	}
	for _, a := range status.LastActions {
		last = max(last, a.Revision)
	}
	return last + 1
}

// lost returns the revision that is serving if it is missing from the history.
// Its template is that of the live Deployment, so that a deleted history does
// not cause pods to be replaced, and a rollback to this revision remains
// possible.
func (d *Decision) lost(live *appsv1.Deployment, history []Revision) (Revision, bool) {
	if live == nil {
		return Revision{}, false
	}
	hash := live.Spec.Template.Annotations[naming.AnnotationTemplate]
	if hash == "" || slices.ContainsFunc(history, func(r Revision) bool { return r.hash == hash }) {
		return Revision{}, false
	}
	r := Revision{name: d.question.Name + "-" + hash, hash: hash, fresh: templateOf(live)}
	if _, kept := d.memory.current.in(history); !kept && d.isCurrent(hash) {
		r.Number, r.name = d.memory.current.number, cmp.Or(d.memory.current.name, r.name)
	}
	if _, taken := (reference{number: r.Number}).in(history); taken || r.Number == 0 {
		r.Number = next(history, d.question.Status)
	}
	return r, true
}

// isCurrent reports whether the current revision may have the template with a hash.
// The Deployment has another one if another client has put it there, such as kubectl
// rollout undo, or if the status was not written after the last change. That must not be
// recorded as the template of the current revision, which may be the one of the spec.
func (d *Decision) isCurrent(hash string) bool {
	return d.memory.template == "" || d.memory.template == hash
}

// Mark annotates the Deployment with the failed revision, if another one serves
// instead, and with a canary, and records the healthy revision. The annotations are written together
// with the template or the number of replicas, which costs no additional request.
// With them, a lost status or history does not make the operator roll out the failed
// revision again, or forget which one to roll back to.
func (d *Decision) Mark(deployment apply.Intent) apply.Intent {
	if d.memory.failed.is(d.Desired) && d.Serving.name != d.Desired.name {
		deployment.Annotate(naming.AnnotationFailedRevision, d.Desired.name)
	}
	if d.memory.healthy.name != "" {
		deployment.Record(naming.AnnotationHealthyRevision, d.memory.healthy.name)
	}
	if d.canary {
		deployment.Annotate(naming.AnnotationCanary, d.Serving.hash)
	}
	return deployment
}
