package apply

import (
	"context"
	"hash/maphash"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// match is a child in a version that was found to match an intent. Losing it only costs
// another comparison. There is one for most objects, so the version and the intent are held
// as a hash, whose seed is random.
type match struct {
	child childKey
	hash  uint64
}

var seed = maphash.MakeSeed()

func (t *attempt) matchOf(live client.Object) match {
	return match{keyOf(t.in), maphash.Comparable(seed, struct {
		content  string
		retained bool
		uid      types.UID
		version  string // the resource version
	}{t.in.Content, retained(t.owner, t.in), live.GetUID(), live.GetResourceVersion()})}
}

// keepMatch remembers whether a version of the child matches the intent.
func (t *attempt) keepMatch(live client.Object, matches bool) {
	if t.in.Content == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.of(t.owner)
	m.forgetMatch(keyOf(t.in))
	if matches {
		m.matched = append(m.matched, t.matchOf(live))
	}
}

func (m *memory) forgetMatch(child childKey) {
	m.matched = slices.DeleteFunc(m.matched, func(one match) bool { return one.child == child })
}

// lastMatch returns the version of a child that matched, or match{}.
func (m *memory) lastMatch(child childKey) match {
	if i := slices.IndexFunc(m.matched, func(one match) bool { return one.child == child }); i >= 0 {
		return m.matched[i]
	}
	return match{}
}

// matches returns the child in the cache if this version of it is known to match
// the intent.
func (a *Applier) matches(ctx context.Context, owner Owner, in Intent) (client.Object, bool) {
	if in.Content == "" {
		return nil, false
	}
	a.mu.Lock()
	var last match
	if m := a.owners[owner.Object.GetUID()]; m != nil {
		last = m.lastMatch(keyOf(in))
	}
	a.mu.Unlock()
	if last == (match{}) {
		return nil, false
	}
	live := in.newLive()
	if err := a.client.Get(ctx, in.Key(), live); err != nil {
		return nil, false // it is read again
	}
	if in.ObservedUID != nil && *in.ObservedUID != live.GetUID() {
		return nil, false
	}
	return live, (&attempt{owner: owner, in: in}).matchOf(live) == last
}
