package apply

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// match is a version of a child that was found to match an intent. Losing it only
// costs another comparison.
type match struct {
	content  string
	retained bool
	uid      types.UID
	version  string // the resource version
}

func (t *attempt) matchOf(live client.Object) match {
	return match{t.in.Content, retained(t.owner, t.in), live.GetUID(), live.GetResourceVersion()}
}

// keepMatch remembers whether a version of the child matches the intent.
func (t *attempt) keepMatch(live client.Object, matches bool) {
	if t.in.Content == "" {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if matches {
		t.of(t.owner).matched[keyOf(t.in)] = t.matchOf(live)
		return
	}
	delete(t.of(t.owner).matched, keyOf(t.in))
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
		last = m.matched[keyOf(in)]
	}
	a.mu.Unlock()
	if last.content == "" {
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
