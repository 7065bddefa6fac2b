package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
)

// A chain of operations that are drawn from the whole catalogue hardly ever shows a
// defect that needs three of them in order, because most operations in between have
// nothing to do with them, or undo them. So a chain consists of parts, each of which
// mostly changes a few fields, again and again. Swarm testing (Groce et al., ISSTA
// 2012) does the same with the features of the system under test.
const (
	// partLength is how many operations are drawn for the same fields.
	partLength = 8
	// inFocus is how many of 100 operations change one of these fields.
	inFocus = 80
	// shareLasting is how many of 100 chains have each operation that lasts, in
	// addition to those that are drawn as any other.
	shareLasting = 20
	// longest is how many operations at most are between an operation that lasts
	// and the end of its effect.
	longest = 8
	// shareDeleted is how many of 100 chains end with the deletion of the object.
	shareDeleted = 50
)

// essential are the fields that decide which pods run, on which most promises
// depend: each part of a chain has each of them with a probability of one half.
var essential = []string{"image", "$REPLICAS", fieldPods, fieldHistory}

// ofDeletion are the fields that decide what a deletion leaves: the last part of a chain
// that ends with one changes them.
var ofDeletion = []string{"deletionPolicy", "paused", fieldOwnership}

// generator generates a chain.
type generator struct {
	r     *rand.Rand
	kind  *Kind
	chain Chain

	calm, faults, lasting []string            // names of operations
	byField               map[string][]string // the calm ones
	fields                []string            // the keys of byField, sorted

	spec  map[string]any // of the object, if admission accepts all edits
	focus []string       // the fields of this part of the chain
	ends  []pendingEnd
	drawn int
}

// pendingEnd is an operation that ends the effect of an earlier one.
type pendingEnd struct {
	op string
	at int // the length of the chain from which on it is due
}

// Generate returns the chain of a seed.
func Generate(seed uint64, kinds []string) Chain {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible by its seed
	kind, err := kindNamed(kinds[r.IntN(len(kinds))])
	if err != nil {
		panic(err) // it is one of Kinds
	}
	g := newGenerator(r, kind)
	n := 30 + r.IntN(15)
	starts := map[int][]string{}
	for _, o := range g.lasting {
		if g.percent(shareLasting) {
			at := max(0, r.IntN(n+6)-6) // more often at the beginning
			starts[at] = append(starts[at], o)
		}
	}
	deletes := g.percent(shareDeleted)
	lastPart := n
	if deletes {
		lastPart -= partLength
	}
	creation := r.IntN(4)
	for i := range n {
		switch {
		case i == lastPart:
			g.focus = slices.DeleteFunc(slices.Clone(ofDeletion), func(f string) bool { return g.byField[f] == nil })
		case i < lastPart && i%partLength == 0:
			g.refocus()
		}
		if i == creation {
			g.put("create", randomPace(r))
		}
		for _, o := range starts[i] {
			if g.applies(o) && (i >= creation || opNamed(o).Early) {
				g.put(o, randomPace(r))
			}
		}
		if i < creation {
			g.put(g.draw(func(o *Op) bool { return o.Early }), paceNow)
			continue
		}
		paceOf := randomPace
		if len(g.faults) > 0 && r.IntN(7) == 0 {
			g.put(g.faults[r.IntN(len(g.faults))], paceNow)
			paceOf = paceAfterFault
		}
		var o string
		if i < lastPart {
			o = g.due()
		}
		if o == "" {
			o = g.draw(func(*Op) bool { return true })
		}
		if slices.Contains(opNamed(o).fields, fieldHistory) {
			paceOf = paceAfterFault
		}
		g.put(o, paceOf(r))
		if isDeletion(o) {
			g.put("create", randomPace(r))
		}
	}
	if deletions := slices.DeleteFunc(slices.Clone(g.calm), func(o string) bool { return !isDeletion(o) }); deletes && len(deletions) > 0 {
		g.put(deletions[r.IntN(len(deletions))], paceSettle)
	}
	g.chain.steps[len(g.chain.steps)-1].pace = paceSettle
	return g.chain
}

func newGenerator(r *rand.Rand, k *Kind) *generator {
	g := &generator{r: r, kind: k, chain: Chain{kind: k.Name}, byField: map[string][]string{}, spec: k.base()}
	for _, o := range catalogue() {
		switch {
		case o.Name == "create" || o.Name == opBrief || !g.allows(&o):
		case o.Fault:
			g.faults = append(g.faults, o.Name)
		default:
			g.calm = append(g.calm, o.Name)
			for _, f := range o.fields {
				g.byField[f] = append(g.byField[f], o.Name)
			}
			if o.lasts {
				g.lasting = append(g.lasting, o.Name)
			}
		}
	}
	g.fields = slices.Sorted(maps.Keys(g.byField))
	return g
}

func (g *generator) percent(n int) bool { return g.r.IntN(100) < n }

func (g *generator) allows(o *Op) bool {
	return o != nil && o.For(g.kind)
}

// refocus draws the fields of the next part.
func (g *generator) refocus() {
	g.focus = nil
	for _, f := range essential {
		if g.percent(50) && g.byField[f] != nil {
			g.focus = append(g.focus, f)
		}
	}
	for range 1 + g.r.IntN(2) {
		g.focus = append(g.focus, g.fields[g.r.IntN(len(g.fields))])
	}
}

// draw returns an operation that applies, as far as the spec alone shows.
func (g *generator) draw(may func(*Op) bool) string {
	for range 100 {
		var name string
		if g.percent(inFocus) {
			of := g.byField[g.focus[g.r.IntN(len(g.focus))]]
			name = of[g.r.IntN(len(of))]
		} else {
			name = g.calm[g.r.IntN(len(g.calm))]
		}
		if may(opNamed(name)) && g.applies(name) {
			return name
		}
	}
	return "pod-labels" // of all fields in focus, none can be changed now
}

// applies reports whether an operation changes something. Edits of the spec do not
// if it is as they would make it, or if it would be invalid.
func (g *generator) applies(name string) bool {
	o := opNamed(name)
	if o.patch == "" {
		return true
	}
	next := g.edited(o)
	if reflect.DeepEqual(next, g.spec) || has(next, "autoscaling") && has(next, g.kind.Replicas) { // a rule of the schema
		return false
	}
	errs, err := g.kind.validate(g.kind.manifest("", next))
	return err == nil && len(errs) == 0
}

// edited returns the spec after an operation.
func (g *generator) edited(o *Op) map[string]any {
	g.drawn++
	var change map[string]any
	if err := json.Unmarshal([]byte(g.kind.expand(o.patch, g.drawn)), &change); err != nil {
		panic(fmt.Sprintf("%s: %v", o.Name, err)) // it is part of the catalogue
	}
	return runtimeCopy(merge(g.spec, change))
}

// put appends an operation, and before that what it needs.
func (g *generator) put(name string, pc pace) {
	o := opNamed(name)
	for _, need := range o.needs {
		there := slices.ContainsFunc(g.chain.steps, func(s step) bool { return s.op == need })
		if !there && g.allows(opNamed(need)) {
			g.put(need, paceSettle)
		}
	}
	if o.patch != "" {
		g.spec = g.edited(o)
	}
	g.chain.steps = append(g.chain.steps, step{name, pc})
	if i := slices.IndexFunc(g.ends, func(e pendingEnd) bool { return e.op == name }); i >= 0 {
		g.ends = slices.Delete(g.ends, i, i+1)
		return
	}
	if o.lasts && g.allows(opNamed(o.end)) {
		g.ends = append(g.ends, pendingEnd{o.end, len(g.chain.steps) + g.r.IntN(longest)})
	}
}

// due returns an operation that ends the effect of an earlier one, "" if none is due.
func (g *generator) due() string {
	g.ends = slices.DeleteFunc(g.ends, func(e pendingEnd) bool { return !g.applies(e.op) })
	for _, e := range g.ends {
		if len(g.chain.steps) >= e.at {
			return e.op
		}
	}
	return ""
}

func isDeletion(name string) bool {
	return name == "delete" || name == "delete-foreground" || name == "delete-orphan"
}

func randomPace(r *rand.Rand) pace {
	switch r.IntN(10) {
	case 0, 1:
		return paceNow
	case 2:
		return paceIdle
	}
	return paceSettle
}

// paceAfterFault returns the pace of an operation that follows one that disturbs the
// operator, or that takes from it what it knows about earlier revisions. Most
// disturbances last until everything settles, so that more often than otherwise it does
// not: the next operation is affected, too.
func paceAfterFault(r *rand.Rand) pace {
	return []pace{paceNow, paceIdle, paceSettle}[r.IntN(3)]
}
