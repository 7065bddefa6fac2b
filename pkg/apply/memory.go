package apply

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// children is what is remembered about the children of an owner. Correctness does not
// depend on it, so a restart may lose it.
type children map[ChildKey]facts

// facts are what is remembered about a child. They hold no objects, because there are
// facts about every child of every owner.
type facts struct {
	// written is the last write of the child. Losing it costs a second write if the
	// cache does not hold the first one yet, and one if something else changes the child
	// in the operator's own request. An object whose Deployment was only annotated is then
	// not Ready until the Deployment's controller has observed that.
	written memo
	// repairs are the recent repairs, or nil. Losing them costs promptRepairs writes of a
	// disputed child.
	repairs *repairs
	// refused is the beginning of a series of refusals of an intent with a fallback.
	// Losing it delays the fallback by at most Intent.FallbackAfter.
	refused time.Time
}

// memo is the last write of a child.
type memo struct {
	hash    string
	uid     types.UID
	version string // the resource version, "" if nothing was written
	answer  string // how the answer differed from the intent, by compare.Fingerprint
	// from and to are the generations before and after the write, or 0 if it concerned the
	// child's pods.
	from, to int64
}

// keptSince returns the generation since which no change concerned the child's pods, or 0.
func (m memo) keptSince(live client.Object) int64 {
	if m.uid != live.GetUID() || m.to != live.GetGeneration() {
		return 0
	}
	return m.from
}

// Forget drops the state that is remembered about a deleted owner.
func (a *Applier) Forget(owner types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.owners, owner)
}

// ForgetOthers drops the state that is remembered about children of the owner
// that are not wanted. Revisions and snapshots have a new name for every
// content, and may be deleted by the garbage collector or by a user, so only
// the plan shows which names still matter.
func (a *Applier) ForgetOthers(owner Owner, wanted []Intent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.owners[owner.Object.GetUID()], func(key ChildKey, _ facts) bool {
		return !slices.ContainsFunc(wanted, func(in Intent) bool { return in.ChildKey() == key })
	})
}

// recall returns what is remembered about the child.
func (t *attempt) recall() facts {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.owners[t.owner.Object.GetUID()][t.in.ChildKey()]
}

// remember replaces what is remembered about the child: nothing, if it was deleted or
// released. No other worker does so meanwhile.
func (t *attempt) remember(known facts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	uid := t.owner.Object.GetUID()
	if t.owners[uid] == nil {
		t.owners[uid] = children{}
	}
	t.owners[uid][t.in.ChildKey()] = known
	if known == (facts{}) {
		delete(t.owners[uid], t.in.ChildKey())
	}
	if len(t.owners[uid]) == 0 {
		delete(t.owners, uid)
	}
}

// isNewerThan reports whether the remembered write is later than the child in the
// cache. That may be an earlier object of this name, with another UID: it was deleted
// before the write.
func (m memo) isNewerThan(live client.Object) bool {
	c, err := resourceversion.CompareResourceVersion(m.version, live.GetResourceVersion())
	return err == nil && c > 0
}

// fulfils reports whether the object is what the remembered write of the same
// intent resulted in. Then it need not be compared with the intent again. The
// hash does not cover what an intent leaves out of it, or decides once it sees
// the object.
func (m memo) fulfils(t *attempt, live client.Object) bool {
	return m.hash == t.hash && m.answer == "" && m.uid == live.GetUID() && m.version == live.GetResourceVersion() &&
		t.in.HashIntent == nil && t.in.IfExists == nil
}
