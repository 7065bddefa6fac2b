package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
)

// Pairs are the ordered pairs of operations that have been executed on one object,
// the first some time before the second.
type Pairs struct {
	mu    sync.Mutex
	tried map[string]map[[2]string]int // by kind
	vain  map[string]map[[2]string]int // generated, but one of the two did not apply
	total map[string]int
}

// NewPairs returns a record without any pair.
func NewPairs(kinds []string) *Pairs {
	p := &Pairs{tried: map[string]map[[2]string]int{}, vain: map[string]map[[2]string]int{}, total: map[string]int{}}
	for _, name := range kinds {
		k, err := kindNamed(name)
		if err != nil {
			continue
		}
		n := 0
		for _, o := range catalogue() {
			if o.For(k) {
				n++
			}
		}
		p.total[name], p.tried[name], p.vain[name] = n*n, map[[2]string]int{}, map[[2]string]int{}
	}
	return p
}

// gain returns the value of an operation at the end of a chain: the number of new
// pairs, each divided by how often it was generated in vain. Otherwise operations
// that hardly ever apply would be chosen all the time.
func (p *Pairs) gain(c Chain, op string) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0.0
	for _, s := range c.steps {
		if pair := [2]string{s.op, op}; p.tried[c.kind][pair] == 0 {
			n += 1 / float64(1+p.vain[c.kind][pair])
		}
	}
	return n
}

// add counts the pairs of a chain, of which some operations applied.
func (p *Pairs) add(c Chain, executed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range executed {
		for _, a := range executed[:i] {
			p.tried[c.kind][[2]string{a, b}]++
		}
	}
	for i, b := range c.steps {
		for _, a := range c.steps[:i] {
			if pair := [2]string{a.op, b.op}; p.tried[c.kind][pair] == 0 {
				p.vain[c.kind][pair]++
			}
		}
	}
}

// pickKind picks one of some kinds. For a half of the chains, it picks one of which
// more pairs are missing more often; but a kind with fewer operations does not have
// fewer defects.
func (p *Pairs) pickKind(r *rand.Rand, kinds []string) string {
	if r.IntN(2) == 0 {
		return kinds[r.IntN(len(kinds))]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	missing := func(kind string) int { return 1 + p.total[kind]/20 + p.total[kind] - len(p.tried[kind]) }
	sum := 0
	for _, k := range kinds {
		sum += missing(k)
	}
	n := r.IntN(sum)
	for _, k := range kinds {
		if n -= missing(k); n < 0 {
			return k
		}
	}
	return kinds[0]
}

// Load adds the pairs that Save has written. A file that does not exist holds
// none. Pairs of operations that do not exist any more are left out.
func (p *Pairs) Load(path string) error {
	raw, err := os.ReadFile(path) //nolint:gosec // a path of the command line
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var saved map[string][]string
	if err == nil {
		err = json.Unmarshal(raw, &saved)
	}
	if err != nil {
		return fmt.Errorf("reading the pairs of earlier campaigns: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, pairs := range saved {
		k, err := kindNamed(name)
		if err != nil || p.tried[name] == nil {
			continue
		}
		for _, pair := range pairs {
			a, b, _ := strings.Cut(pair, " ")
			if first, second := opNamed(a), opNamed(b); first != nil && second != nil && first.For(k) && second.For(k) {
				p.tried[name][[2]string{a, b}]++
			}
		}
	}
	return nil
}

// Save writes the pairs into a file, so that another campaign goes on from there.
func (p *Pairs) Save(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	saved := map[string][]string{}
	for name, pairs := range p.tried {
		for pair := range pairs {
			saved[name] = append(saved[name], pair[0]+" "+pair[1])
		}
	}
	raw, err := json.Marshal(saved)
	if err == nil {
		err = os.WriteFile(path, raw, 0o600)
	}
	if err != nil {
		return fmt.Errorf("writing the pairs: %w", err)
	}
	return nil
}

// String is a line for each kind.
func (p *Pairs) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var s strings.Builder
	tried, total := 0, 0
	for _, k := range Kinds() {
		if n := p.total[k.Name]; n > 0 {
			fmt.Fprintf(&s, "%-18s %6d of %6d pairs (%.0f %%)\n", k.Name, len(p.tried[k.Name]), n, 100*float64(len(p.tried[k.Name]))/float64(n))
			tried, total = tried+len(p.tried[k.Name]), total+n
		}
	}
	fmt.Fprintf(&s, "%-18s %6d of %6d pairs (%.0f %%)\n", "all", tried, total, 100*float64(tried)/float64(max(1, total)))
	return s.String()
}
