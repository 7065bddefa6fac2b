package model

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func TestPairs_SaveAndLoad(t *testing.T) {
	kinds := []string{"webserver", "memcached"}
	c, err := ParseChain("memcached: create scale-0 scale-3")
	if err != nil {
		t.Fatal(err)
	}
	p := NewPairs(kinds)
	p.add(c, []string{"create", "scale-0", "scale-3"})
	path := filepath.Join(t.TempDir(), "pairs.json")
	if err := p.Save(path); err != nil {
		t.Fatal(err)
	}
	again := NewPairs(kinds)
	if err := errors.Join(again.Load(path), again.Load(path+".missing")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.String(), again.String()); diff != "" {
		t.Errorf("pairs (-saved +loaded):\n%s", diff)
	}
	if n := len(again.tried["memcached"]); n != 3 {
		t.Errorf("%d pairs, want 3", n)
	}
}

func TestCatalogue_NeedsExist(t *testing.T) {
	for name, all := range needs {
		for _, need := range all {
			if opNamed(name) == nil || opNamed(need) == nil {
				t.Errorf("%s needs %s: no such operation", name, need)
			}
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
