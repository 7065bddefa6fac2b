package rolloutlimit

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns", Name: name}
}

// fixture is a limiter that records which objects it wakes.
type fixture struct {
	*testing.T
	*Limiter
	woken []string
}

func newFixture(t *testing.T, limit int, rolling ...string) *fixture {
	f := &fixture{T: t, Limiter: New(limit)}
	f.Limiter.Run(func(string) ([]string, error) { return rolling, nil }, func(k types.NamespacedName) { f.woken = append(f.woken, k.Name) })
	return f
}

func (f *fixture) request(want Decision, names ...string) {
	f.Helper()
	for _, name := range names {
		if got, err := f.Request(key(name), "new"); got != want || err != nil {
			f.Errorf("%s: got %v, %v, want %v", name, got, err, want)
		}
	}
}

func (f *fixture) wakes(names ...string) {
	f.Helper()
	if diff := cmp.Diff(names, f.woken); diff != "" {
		f.Errorf("woken -want +got:\n%s", diff)
	}
	f.woken = nil
}

func TestLimiter_WakesTheNextObjectWhenASlotIsFree(t *testing.T) {
	f := newFixture(t, 2)
	f.request(Start, "a", "b", "a")
	f.request(Wait, "c", "d", "e", "c")
	f.wakes()
	f.Release(key("a"))
	f.wakes("c")
	f.request(Start, "c")
	f.request(Wait, "d")
	f.Release(key("d")) // no longer needs a slot
	f.wakes()
	f.Release(key("b"))
	f.wakes("e")
	f.Release(key("e")) // was deleted
	f.Release(key("c"))
	f.wakes()
	f.request(Start, "f", "g")
}

func TestLimiter_HoldsTheRestIfAllFail(t *testing.T) {
	f := newFixture(t, 2)
	f.request(Start, "a", "b")
	f.request(Wait, "c", "d")
	f.Rolling(key("a"), true)
	f.wakes()
	f.request(Wait, "c")
	f.Rolling(key("b"), true)
	f.wakes("c", "d")
	f.request(Hold, "c", "d")
	f.request(Start, "a", "b") // a corrected ConfigMap
	f.Rolling(key("a"), false)
	f.wakes("c", "d")
	f.request(Wait, "c", "d")
	f.Release(key("a"))
	f.wakes("c")
}

func TestLimiter_NeverHoldsTheEditOfAUser(t *testing.T) {
	f := newFixture(t, 1)
	f.request(Start, "a")
	f.request(Wait, "b", "c")
	f.Edited(key("b"), "new")
	f.request(Start, "b") // the first attempt to write it failed
	if got, _ := f.Request(key("b"), "of another change"); got != Wait {
		t.Errorf("got %v", got)
	}
	f.Edited(key("a"), "new")
	f.wakes("c")
}

func TestLimiter_KeepsSlotsAcrossRestarts(t *testing.T) {
	f := newFixture(t, 2, "a", "b")
	f.request(Wait, "c")
	f.request(Start, "a")
	f.Release(key("b"))
	f.wakes("c")
}

func TestLimiter_CountsNamespacesSeparately(t *testing.T) {
	f := newFixture(t, 1)
	f.request(Start, "a")
	if got, _ := f.Request(types.NamespacedName{Namespace: "other", Name: "b"}, "new"); got != Start {
		t.Errorf("got %v", got)
	}
}

func TestLimiter_ReportsThatTheCacheCannotBeRead(t *testing.T) {
	l, broken := New(1), errors.New("broken")
	l.Run(func(string) ([]string, error) { return nil, broken }, nil)
	if _, err := l.Request(key("a"), "new"); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestLimiter_AllowsEverythingBeforeItRuns(t *testing.T) {
	l := New(1)
	for _, object := range []string{"a", "b"} {
		l.Edited(key(object), "old")
		l.Rolling(key(object), true)
		l.Release(key(object))
		if got, err := l.Request(key(object), "new"); got != Start || err != nil {
			t.Errorf("%s: got %v, %v", object, got, err)
		}
	}
}
