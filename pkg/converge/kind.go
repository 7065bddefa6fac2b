// Package converge is the one reconcile loop, in which every kind is handled
// the same way. It names no kind.
//
//	request ─▶ get (cache) ─▶ being deleted? ─▶ Teardown ─▶ drop the finalizer
//	               │
//	            Observe       cached reads, one value                   reads
//	            Model         pure: decides, once
//	            Plan          pure: the desired children
//	            apply         a request for each child that differs     writes
//	            UpdateStatus  pure; runs even if Plan or apply failed, but not if
//	               │          Observe did: then only the conditions change
//	               ▼
//	            one status patch, only if it differs; events on transitions;
//	            fault.Classify decides when to reconcile again
package converge

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/references"
)

// Object is an object of one of our kinds.
type Object interface {
	client.Object
	// GetStatus returns the part of the status that every kind has.
	GetStatus() *common.Status
	// GetDeletionPolicy returns the deletion policy in force.
	GetDeletionPolicy() common.DeletionPolicy
}

// Model is what one reconcile has decided about one object. It is decided once,
// from the object and what was observed, and used by the reconcile loop, by
// preflight and by render.
type Model interface {
	// Plan returns the desired children. A plan returned together with an error
	// is still applied, so that a missing ConfigMap does not prevent the Service
	// from being repaired. It is called once at the most.
	Plan() (Plan, error)
	// UpdateStatus writes the status into the object.
	UpdateStatus(Outcome)
}

// ModelFuncs is a model of two functions, each of which may be nil, for kinds
// that have nothing to decide beforehand.
type ModelFuncs struct {
	PlanFunc         func() (Plan, error)
	UpdateStatusFunc func(Outcome)
}

// Plan calls PlanFunc.
func (f ModelFuncs) Plan() (Plan, error) {
	if f.PlanFunc == nil {
		return Plan{}, nil
	}
	return f.PlanFunc()
}

// UpdateStatus calls UpdateStatusFunc.
func (f ModelFuncs) UpdateStatus(out Outcome) {
	if f.UpdateStatusFunc != nil {
		f.UpdateStatusFunc(out)
	}
}

// Kind declares how the objects of one kind are reconciled. T is the type of the
// objects, and S holds what is observed of the cluster.
type Kind[T Object, S any] struct {
	// New returns an empty object.
	New func() T
	// NewList returns an empty list of objects.
	NewList func() client.ObjectList
	// AddToScheme adds the kind, in all its versions, to a scheme.
	AddToScheme func(*runtime.Scheme) error
	// Children are empty objects of the types that the kind makes; changes of
	// them lead to a pass over their owner.
	Children []client.Object
	// Optional are children of types that a cluster need not know, such as
	// HTTPRoute. They are watched from when the cluster knows them.
	Optional []client.Object
	// Workload is an empty object of the child that runs the pods.
	Workload client.Object
	// Related are types that are not children but matter to the status, such
	// as the pods of a Deployment.
	Related []Related
	// Foreign are types of which the objects of others matter too, to all
	// objects in their namespace, such as budgets that may select their pods.
	// The cache must hold all of them, with and without the label of our
	// children.
	Foreign []client.Object
	// Log has the words of the kind's log lines.
	Log LogText

	// References names the ConfigMaps of users whose content matters to an
	// object: their changes lead to a pass, and Observe is given the content.
	// Nil: none ever.
	References func(T) []references.Reference
	// Secrets names the Secrets of users whose content matters to an object, in
	// the same way; but Observe is given only digests. The operator must be
	// allowed to read all Secrets. Nil: nobody looks at any.
	Secrets func(T) []string
	// Observe reads, from the cache only, what Desired needs to know. After an
	// error of it nothing is written but conditions. Nil: nothing is observed.
	Observe func(context.Context, Reader, T) (S, error)
	// Paused tells whether an object's children are to be left as they are.
	// Nil: they never are.
	Paused func(T) bool
	// Model decides what is desired of an object. It is pure.
	Model func(T, S) Model
	// Teardown undoes what garbage collection cannot; done says that nothing
	// is left to do. Nil: there is nothing. Children are released by the loop
	// itself where the deletion policy is Orphan.
	Teardown func(context.Context, client.Client, T) (done bool, err error)
}

// Reader is what Observe reads from.
type Reader struct {
	// Reader has what is ours, from the cache.
	client.Reader
	// Sources are the ConfigMaps that the object refers to, by name. Each has
	// the error of its own read: what does not depend on it goes on.
	Sources map[string]references.Source
	// Copies are the ConfigMaps that belong to the object, where its kind makes
	// ConfigMaps and refers to some.
	Copies []*corev1.ConfigMap
	// Secrets are digests of the Secrets that the object refers to, by name.
	// One that is not there has none. Nil: nobody looks at Secrets.
	Secrets map[string]references.SecretDigest
	// Offline reports that there is no cluster: what does not exist now cannot
	// exist outside the cache either.
	Offline bool

	// lacks tells of which types the cluster is known to have none. Nil: of none.
	lacks func(client.Object) bool
}

// Related is a type whose changes lead to a pass over an object that does not
// own them.
type Related struct {
	// Object is an empty object of the type. The cache holds only objects with
	// the label of our children, so the child that makes them must set it.
	Object client.Object
	// Of returns the name of the object that a change matters to, in the same
	// namespace; "" for none.
	Of func(client.Object) string
}

// LogText has the words of a kind's log lines. The seeds' users know them.
type LogText struct {
	Logger string // name of the logger, such as "controllers.WebServer"
	Key    string // key under which the object stands, such as "Webserver"
	Gone   string // said when the object is no longer there
}

// Plan is what should be.
type Plan struct {
	// Apply are the children that should be, in the order of writing.
	Apply []apply.Intent
	// Prune are children that were observed and should not be. Only those that
	// the object controls are deleted.
	Prune []client.Object
}

// Outcome is what became of a pass, for Report.
type Outcome struct {
	// Problem is what the errors of the pass amount to; class None when there
	// were none.
	Problem fault.Verdict
	// Now is the time of the pass.
	Now time.Time

	children map[childKey]client.Object
	again    *time.Duration
	urgent   *bool
}

// WriteStatusNow says that the status must not wait for a change of a condition:
// the next step depends on what it records.
func (o Outcome) WriteStatusNow() {
	if o.urgent != nil {
		*o.urgent = true
	}
}

// LookAgain asks for another pass after some time, if nothing leads to one
// before: for what no event tells of. Of several the soonest holds.
func (o Outcome) LookAgain(after time.Duration) {
	if o.again != nil && (*o.again == 0 || after < *o.again) {
		*o.again = max(after, time.Millisecond)
	}
}

type childKey struct {
	kind string
	client.ObjectKey
}

// NewOutcome makes an outcome, for tests of a kind's Report. The loop makes
// its own.
func NewOutcome(now time.Time, problem fault.Verdict, children map[string]client.Object) Outcome {
	o := Outcome{Now: now, Problem: problem, children: map[childKey]client.Object{}}
	for kind, c := range children {
		o.children[childKey{kind, client.ObjectKeyFromObject(c)}] = c
	}
	return o
}

// Child returns a child as it stands after the pass, or false when it does not
// stand or is not ours.
func Child[L client.Object](o Outcome, kind, namespace, name string) (L, bool) {
	l, ok := o.children[childKey{kind, client.ObjectKey{Namespace: namespace, Name: name}}].(L)
	return l, ok
}

// Standing returns a child as it stands after the pass, or else as it was
// observed before: one that was not written, because its write failed or
// because what it should be is not known, may well serve. observed is nil where
// none stood that is ours.
func Standing[L client.Object](o Outcome, kind, namespace, name string, observed L) L {
	if l, ok := Child[L](o, kind, namespace, name); ok {
		return l
	}
	return observed
}
