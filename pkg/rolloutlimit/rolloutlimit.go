// Package rolloutlimit limits how many objects of one kind and namespace are
// rolled out at once because of a change that no user made to the objects
// themselves, such as that of a ConfigMap that many of them use.
//
// A rollout occupies a slot until it succeeds. A failed rollout keeps its slot,
// so a change that breaks every object breaks no more of them than there are
// slots, and the others wait until it is corrected.
package rolloutlimit

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Decision is whether a rollout may start.
type Decision int

// The decisions.
const (
	// Start allows the rollout.
	Start Decision = iota
	// Wait holds the rollout until another one succeeds.
	Wait
	// Hold holds the rollout, because those in all slots failed.
	Hold
)

// Limiter limits the rollouts of one kind. It is safe for concurrent use.
type Limiter struct {
	limit int

	mu         sync.Mutex
	list       func(namespace string) ([]string, error)
	wake       func(types.NamespacedName)
	namespaces map[string]*namespace
}

// namespace is the state of the objects in one namespace, by their names.
type namespace struct {
	listed  bool
	rolling map[string]bool   // those in a slot, and whether their rollout failed
	waiting []string          // those that wait for a slot, in order
	edits   map[string]string // rollouts that a user started, which need no slot
	asked   map[string]string // what each object itself asked for last
}

// New returns a Limiter with a number of slots for each namespace.
func New(limit int) *Limiter {
	return &Limiter{limit: limit, namespaces: map[string]*namespace{}}
}

// Run enables the limit, which allows all rollouts before that. list returns
// the names of the objects in a namespace that occupy a slot according to the
// caches; it is called once for each namespace, so that a restart of the
// operator does not release slots. wake is called with each object that must be
// reconciled because a slot became free.
func (l *Limiter) Run(list func(namespace string) ([]string, error), wake func(types.NamespacedName)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list, l.wake = list, wake
}

// Request asks for a slot for the rollout of an object. revision identifies
// what is rolled out.
func (l *Limiter) Request(key types.NamespacedName, revision string) (Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil {
		return Start, nil
	}
	n := l.of(key.Namespace)
	if _, has := n.rolling[key.Name]; has || n.edits[key.Name] == revision {
		return Start, nil
	}
	if !n.listed {
		names, err := l.list(key.Namespace)
		if err != nil {
			return Wait, fmt.Errorf("listing the rollouts in progress: %w", err)
		}
		for _, name := range names {
			if _, known := n.rolling[name]; !known {
				n.rolling[name] = false
			}
		}
		n.listed = true
	}
	if _, has := n.rolling[key.Name]; has {
		return Start, nil
	}
	if len(n.rolling) < l.limit {
		n.remove(key.Name)
		n.rolling[key.Name] = false
		return Start, nil
	}
	if !slices.Contains(n.waiting, key.Name) {
		n.waiting = append(n.waiting, key.Name)
	}
	if n.failed() {
		return Hold, nil
	}
	return Wait, nil
}

// Edited records that a user started the rollout of a revision. It never waits,
// even if the first attempt to write it fails.
func (l *Limiter) Edited(key types.NamespacedName, revision string) {
	l.Release(key)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(key.Namespace).edits[key.Name] = revision
}

// IsEdit reports whether a user started the rollout of a revision.
func (l *Limiter) IsEdit(key types.NamespacedName, revision string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(key.Namespace).edits[key.Name] == revision
}

// Asks records what an object itself asks for, without what it refers to, until the next
// Release.
func (l *Limiter) Asks(key types.NamespacedName, pods string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(key.Namespace).asked[key.Name] = pods
}

// Asked returns what was recorded by Asks, or "".
func (l *Limiter) Asked(key types.NamespacedName) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of(key.Namespace).asked[key.Name]
}

// Rolling records that an object occupies a slot, and whether its rollout
// failed.
func (l *Limiter) Rolling(key types.NamespacedName, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.of(key.Namespace)
	before := n.failed()
	n.remove(key.Name)
	n.rolling[key.Name] = failed
	if n.failed() != before {
		l.call(key.Namespace, n, len(n.waiting)) // they report why they wait
	}
}

// Release records that an object occupies no slot and waits for none, because
// its rollout succeeded, is no longer necessary, or the object was deleted.
func (l *Limiter) Release(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.namespaces[key.Namespace]
	if n == nil {
		return
	}
	before := n.failed()
	delete(n.rolling, key.Name)
	delete(n.edits, key.Name)
	delete(n.asked, key.Name)
	n.remove(key.Name)
	free := max(l.limit-len(n.rolling), 0)
	if before {
		free = len(n.waiting)
	}
	l.call(key.Namespace, n, min(free, len(n.waiting)))
}

// call wakes the first objects that wait. They stay in the line until they
// take a slot or no longer need one.
func (l *Limiter) call(ns string, n *namespace, count int) {
	if l.wake == nil {
		return
	}
	for _, name := range n.waiting[:count] {
		l.wake(types.NamespacedName{Namespace: ns, Name: name})
	}
}

func (l *Limiter) of(ns string) *namespace {
	n := l.namespaces[ns]
	if n == nil {
		n = &namespace{rolling: map[string]bool{}, edits: map[string]string{}, asked: map[string]string{}}
		l.namespaces[ns] = n
	}
	return n
}

// failed reports whether there are rollouts in slots and all of them failed.
func (n *namespace) failed() bool {
	for _, failed := range n.rolling {
		if !failed {
			return false
		}
	}
	return len(n.rolling) > 0
}

func (n *namespace) remove(name string) {
	if i := slices.Index(n.waiting, name); i >= 0 {
		n.waiting = slices.Delete(n.waiting, i, i+1)
	}
}
