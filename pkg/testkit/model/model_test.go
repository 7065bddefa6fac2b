package model

import (
	"math/rand/v2"
	"testing"
)

func TestChain_RoundTrip(t *testing.T) {
	pairs := NewPairs([]string{"webserver", "demoapplication", "memcached", "immortalcontainer"})
	for seed := range uint64(200) {
		c := Generate(rand.New(rand.NewPCG(seed, 0)), []string{"webserver", "demoapplication", "memcached", "immortalcontainer"}, pairs, nil) //nolint:gosec // reproducible by its seed
		again, err := ParseChain(c.String())
		if err != nil {
			t.Fatal(err)
		}
		if again.String() != c.String() {
			t.Fatalf("got %s, want %s", again, c)
		}
		if Script(c) == "" {
			t.Errorf("no script for %s", c)
		}
	}
}

func TestCatalogue_NamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range Catalogue() {
		if seen[o.Name] {
			t.Errorf("there are two operations %q", o.Name)
		}
		seen[o.Name] = true
	}
	t.Logf("%d operations", len(seen))
}

func TestFlatten_NamesElements(t *testing.T) {
	got := map[string]string{}
	flatten("Pod", map[string]any{"a": []any{map[string]any{"name": "x", "v": int64(1)}, "y"}}, got)
	if got["Pod.a[x].v"] != "1" || got["Pod.a[1]"] != `"y"` {
		t.Errorf("got %v", got)
	}
}
