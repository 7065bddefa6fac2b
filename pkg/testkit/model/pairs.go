package model

import (
	"fmt"
	"strings"
	"sync"
)

// Pairs are the ordered pairs of operations that have been executed on one
// object, the first some time before the second.
type Pairs struct {
	mu    sync.Mutex
	tried map[string]map[[2]string]int // by kind
	total map[string]int
}

// NewPairs returns an account without any pair.
func NewPairs(kinds []string) *Pairs {
	p := &Pairs{tried: map[string]map[[2]string]int{}, total: map[string]int{}}
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
		p.total[name], p.tried[name] = n*n, map[[2]string]int{}
	}
	return p
}

// gain returns how many new pairs an operation would add to a chain.
func (p *Pairs) gain(c Chain, op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, s := range c.steps {
		if p.tried[c.kind][[2]string{s.op, op}] == 0 {
			n++
		}
	}
	return n
}

// add counts the pairs of a chain.
func (p *Pairs) add(kind string, executed []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range executed {
		for _, a := range executed[:i] {
			p.tried[kind][[2]string{a, b}]++
		}
	}
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
