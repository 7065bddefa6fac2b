// Package converge contains the reconcile loop, which is the same for every
// kind and does not depend on any of them.
//
//	request ─▶ get (cache) ─▶ being deleted? ─▶ release ─▶ remove the finalizer
//	               │
//	            Observe       cached reads, one value                   reads
//	               │
//	            Model         pure: decides, once
//	            Limiter       makes a model wait for the rollouts of other objects
//	            Plan          pure: the desired children
//	            apply         a request for each child that differs     writes
//	            UpdateStatus  pure; runs even if Plan or apply failed, but not if
//	               │          Observe failed: then only the conditions change
//	               ▼
//	            one status patch, only if it differs; events on transitions;
//	            the class of the error decides when to reconcile again
package converge

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
)

// Object is an object of a kind that the operator reconciles.
type Object interface {
	client.Object
	// GetStatus returns the part of the status that every kind has.
	GetStatus() *common.Status
	// GetDeletionPolicy returns the effective deletion policy.
	GetDeletionPolicy() common.DeletionPolicy
}

// Model contains the decisions of one reconcile about one object. It is built
// once, from the object and what was observed, and is used by the reconcile
// loop, by preflight and by render.
type Model interface {
	// Plan returns the desired children. A plan returned together with an error
	// is still applied, so that a missing ConfigMap does not prevent the
	// Service from being repaired. Plan is called at most once.
	Plan() (Plan, error)
	// UpdateStatus sets the status of the object.
	UpdateStatus(Outcome)
}

// Kind declares how the objects of one kind are reconciled. T is the type of
// the objects, and S the type of the value that Observe returns.
type Kind[T Object, S any] struct {
	// New returns an empty object.
	New func() T
	// NewList returns an empty list of objects.
	NewList func() client.ObjectList
	// AddToScheme adds the kind, in all its versions, to a scheme.
	AddToScheme func(*runtime.Scheme) error
	// Children are empty objects of the types that the kind creates. Changes of
	// children trigger a reconcile of their owner.
	Children []client.Object
	// Optional are empty objects of child types that are not served by every
	// cluster, such as HTTPRoute. They are watched as soon as they are served.
	Optional []client.Object
	// Labels returns labels that all children of an object have, and those of no
	// other object. If it is nil, children of an earlier object of the same name
	// are not adopted.
	Labels func(T) map[string]string
	// Watches are types that are not children but affect the status, such as
	// the pods of a Deployment.
	Watches []Watch
	// Unowned are types whose unowned objects affect all objects of this kind in the
	// same namespace, such as a PodDisruptionBudget. The cache must hold all objects of
	// these types, with and without the label of children.
	Unowned []client.Object
	// Claims returns what a child claims for itself in all namespaces, such as a
	// host (Reader.Claimants). If it is nil, children claim nothing.
	Claims func(child client.Object) []string
	// Log contains the texts of the kind's log lines.
	Log LogText
	// Groups are the groups of kinds whose messages the objects have, such as
	// message.Deployments, in addition to those of this kind and of all kinds.
	Groups []string

	// References returns the users' ConfigMaps whose content affects an object.
	// Their changes trigger a reconcile, and Observe receives their content. If
	// it is nil, the kind refers to no ConfigMaps.
	References func(T) []configsource.Reference
	// Secrets returns the names of the users' Secrets whose content affects an
	// object. Their changes trigger a reconcile, and Observe receives only
	// digests of their content. The operator needs permission to read all
	// Secrets. If it is nil, no Secrets are read.
	Secrets func(T) []string
	// Limiter limits how many objects are rolled out at once. If it is nil, there
	// is no limit.
	Limiter Limiter
	// Observe reads, only from the cache, what Model depends on. If it returns
	// an error, only conditions are written.
	Observe func(context.Context, Reader, T) (S, error)
	// Paused reports whether the children of an object must not be changed. If
	// it is nil, objects of the kind cannot be paused.
	Paused func(T) bool
	// Model returns the model of an object, given what was observed. It is
	// pure.
	Model func(T, S) Model
}

// Limiter limits how many objects of a kind are rolled out at once. Unlike a
// Model it has state, so only the reconcile loop uses it.
type Limiter interface {
	// Run enables the limit, which allows all rollouts before that. cache holds
	// the children of the owners of a kind. wake triggers a reconcile of an
	// object whose rollout may start now, or that has to report why it does not.
	Run(ctx context.Context, cache client.Reader, kind string, wake func(types.NamespacedName))
	// Limit makes a model keep the revision that was decided last if the rollout
	// that it starts has to wait.
	Limit(Object, Model)
	// Release is called for an object whose pods are not replaced, because it is
	// paused or was deleted.
	Release(types.NamespacedName)
}

// Reader is the argument of Observe that provides everything it may read.
type Reader struct {
	// Reader reads objects with the label of children from the cache.
	client.Reader
	// Sources are the ConfigMaps that the object refers to, by name. Each
	// contains the error of its own read, so that a failed read affects only
	// what depends on that ConfigMap.
	Sources map[string]configsource.Source
	// Snapshots are the ConfigMaps that the operator created for the object. It is
	// empty unless the kind creates ConfigMaps and refers to some.
	Snapshots []*corev1.ConfigMap
	// Secrets are digests of the Secrets that the object refers to, by name. A
	// Secret that does not exist has no digest. The map is nil if no Secrets
	// are read.
	Secrets map[string]configsource.SecretDigest
	// Now is the time of the reconcile, and zero outside of one. What depends on it
	// requests another reconcile (Outcome.RequeueAfter).
	Now time.Time
	// Offline reports that there is no cluster: a child that is not found now
	// cannot exist outside the cache either.
	Offline bool

	// unavailable are the types that are not read.
	unavailable unavailable
	// claims is nil if no children are cached.
	claims *claims
}

// Watch is a type whose changes trigger a reconcile of an object that does
// not own them.
type Watch struct {
	// Object is an empty object of the type. The cache holds only objects with
	// the label of children, so the child that creates such objects must set
	// the label on them.
	Object client.Object
	// OwnerName returns the name of the object, in the same namespace, that a change
	// affects, or "" if there is none.
	OwnerName func(client.Object) string
	// Index is the name of an index of these objects by OwnerName, for Observe. No
	// other kind may have the same.
	Index string
}

// IndexValues returns the values of an object in Index.
func (w Watch) IndexValues(o client.Object) []string {
	if name := w.OwnerName(o); name != "" {
		return []string{name}
	}
	return nil
}

// LogText contains the texts of a kind's log lines, which are those of the
// legacy operator.
type LogText struct {
	Logger string // name of the logger, such as "controllers.WebServer"
	Key    string // key of the object's name in a log line, such as "Webserver"
	Gone   string // message when the object no longer exists
}

// Plan is the desired state of the children of an object.
type Plan struct {
	// Apply are the children that should exist, in the order of the writes.
	Apply []apply.Intent
	// Main names the child that all others are useless without, such as the Deployment whose
	// pods they serve. While it belongs to another owner, no other child is written: two
	// objects that want the same children would each end up with some of them. For the same
	// reason none is created when the write of the main child lost a race, until the retry
	// shows who won. Any other failure to write it does not affect the others.
	Main apply.Ref
	// Prune are observed children that should not exist. Only those that the
	// object controls are deleted.
	Prune []client.Object
}

// ApplyOrPrune adds the child to plan.Apply if it is wanted, and otherwise adds the
// live object, if any, to plan.Prune.
func ApplyOrPrune[L interface {
	comparable
	client.Object
}](plan *Plan, wanted bool, child func() apply.Intent, live L) {
	var none L
	switch {
	case wanted:
		plan.Apply = append(plan.Apply, child())
	case live != none:
		plan.Prune = append(plan.Prune, live)
	}
}

// Outcome is the result of a reconcile, from which UpdateStatus reports.
type Outcome struct {
	// Problem summarizes the errors of the reconcile. Its class is None if
	// there were none.
	Problem fault.Verdict
	// Now is the time of the reconcile.
	Now time.Time

	children map[apply.ChildKey]apply.Child // as they are after the reconcile
	again    *time.Duration
	urgent   *bool
}

// WriteStatusNow requests that the status is written even if no condition has
// changed, because the next step depends on what the status records.
func (o Outcome) WriteStatusNow() {
	if o.urgent != nil {
		*o.urgent = true
	}
}

// StatusIsUrgent reports whether WriteStatusNow was called.
func (o Outcome) StatusIsUrgent() bool { return o.urgent != nil && *o.urgent }

// RequeueAfter requests another reconcile after the given time, for changes of
// which there is no event. If it is called more than once, the shortest delay
// wins.
func (o Outcome) RequeueAfter(after time.Duration) {
	if o.again != nil && (*o.again == 0 || after < *o.again) {
		*o.again = max(after, time.Millisecond)
	}
}

// result returns when the object is reconciled again, which is also after wait.
func (o Outcome) result(wait time.Duration) reconcile.Result {
	result := o.Problem.Result
	for _, after := range []time.Duration{wait, *o.again} {
		if after > 0 && (result.RequeueAfter == 0 || after < result.RequeueAfter) && o.Problem.Err == nil {
			result.RequeueAfter = after
		}
	}
	return result
}

// NewOutcome returns an outcome. children are those that were written, by kind.
func NewOutcome(now time.Time, problem fault.Verdict, children map[string]client.Object) Outcome {
	o := Outcome{Now: now, Problem: problem, children: map[apply.ChildKey]apply.Child{}, again: new(time.Duration), urgent: new(bool)}
	for kind, c := range children {
		o.children[apply.ChildKey{Kind: kind, ObjectKey: client.ObjectKeyFromObject(c)}] = apply.Child{Live: c}
	}
	return o
}

func (o Outcome) child(kind, namespace, name string) (apply.Child, bool) {
	c, ok := o.children[apply.ChildKey{Kind: kind, ObjectKey: client.ObjectKey{Namespace: namespace, Name: name}}]
	return c, ok
}

// Matches reports whether a child is as the plan states. It is false for one that
// another client changed, if it was not restored: the object is paused, the write
// failed, or the repair is postponed.
func (o Outcome) Matches(kind, namespace, name string) bool {
	c, ok := o.child(kind, namespace, name)
	return ok && !c.Differs
}

// KeptSince returns the generation of a child since which no change concerned its pods
// (apply.Child), or 0.
func (o Outcome) KeptSince(kind, namespace, name string) int64 {
	c, _ := o.child(kind, namespace, name)
	return c.KeptSince
}

// Child returns a child as it is after the reconcile, or false if it does not
// exist or is unowned.
func Child[L client.Object](o Outcome, kind, namespace, name string) (L, bool) {
	c, _ := o.child(kind, namespace, name)
	l, ok := c.Live.(L)
	return l, ok
}

// ChildOrObserved returns a child as it is after the reconcile, or else the observed
// one: a child that was not written, because the write failed or its desired
// state is not known, may still be serving traffic. observed is nil if no owned
// child was observed.
func ChildOrObserved[L client.Object](o Outcome, kind, namespace, name string, observed L) L {
	if l, ok := Child[L](o, kind, namespace, name); ok {
		return l
	}
	return observed
}
