package model

import (
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
	// longest is how many operations at most are between an operation that lasts
	// and the end of its effect.
	longest = 8
)

// essential are the fields that decide which pods run, on which most promises
// depend: each part of a chain has each of them with a probability of one half.
var essential = []string{"image", "$REPLICAS", fieldPods, fieldHistory}

// generator generates a chain.
type generator struct {
	r     *rand.Rand
	kind  *Kind
	chain Chain
	ops   []Op           // of the kind
	spec  map[string]any // of the object, if admission accepts all edits
	focus []string       // the fields of this part of the chain
	due   map[int]string // operations that end the effect of an earlier one, by the length of the chain
}

// Generate returns the chain of a seed.
func Generate(seed uint64, kinds []string) Chain {
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // reproducible by its seed
	kind, err := kindNamed(kinds[r.IntN(len(kinds))])
	if err != nil {
		panic(err) // it is one of Kinds
	}
	g := &generator{r: r, kind: kind, chain: Chain{kind: kind}, spec: decode(kind.Base), due: map[int]string{}}
	g.ops = slices.DeleteFunc(slices.Clone(catalogue()), func(o Op) bool { return !o.For(kind) || o.Name == opBrief })
	creation := r.IntN(4)
	for i := range 30 + r.IntN(15) {
		if i%partLength == 0 {
			g.refocus()
		}
		next := randomPace(r)
		switch {
		case i < creation:
			g.put(g.draw(func(o *Op) bool { return o.Early && o.Name != "create" }), paceNow)
			continue
		case i == creation:
			g.put("create", next)
		case r.IntN(7) == 0:
			// Most disturbances last until everything settles, so that more often than
			// otherwise it does not: the next operation is affected, too.
			g.put(g.draw(func(o *Op) bool { return o.Fault }), paceNow)
			next = []pace{paceNow, paceIdle, paceSettle}[r.IntN(3)]
		}
		name := g.due[len(g.chain.steps)]
		if name == "" || !g.changes(opNamed(name)) {
			name = g.draw(func(o *Op) bool { return !o.Fault && o.Name != "create" && (g.percent(100-inFocus) || g.inFocus(o)) })
		}
		g.put(name, next)
	}
	g.chain.steps[len(g.chain.steps)-1].pace = paceSettle
	return g.chain
}

func (g *generator) percent(n int) bool { return g.r.IntN(100) < n }

// refocus draws the fields of the next part.
func (g *generator) refocus() {
	g.focus = nil
	for _, f := range essential {
		if g.percent(50) {
			g.focus = append(g.focus, f)
		}
	}
	for len(g.focus) < 2 || g.percent(50) {
		if of := g.ops[g.r.IntN(len(g.ops))].fields; len(of) > 0 {
			g.focus = append(g.focus, of[0])
		}
	}
}

func (g *generator) inFocus(o *Op) bool {
	return slices.ContainsFunc(o.fields, func(f string) bool { return slices.Contains(g.focus, f) })
}

// draw returns an operation that changes something, as far as the spec alone shows.
func (g *generator) draw(may func(*Op) bool) string {
	for range 1000 {
		if o := &g.ops[g.r.IntN(len(g.ops))]; may(o) && g.changes(o) {
			return o.Name
		}
	}
	return "pod-labels" // of all fields in focus, none can be changed now
}

// changes reports whether an operation changes something. Edits of the spec do not
// if it is as they would make it, or if it would be invalid.
func (g *generator) changes(o *Op) bool {
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
	return merge(g.spec, decode(g.kind.expand(o.patch, len(g.chain.steps))))
}

// put appends an operation.
func (g *generator) put(name string, p pace) {
	if o := opNamed(name); o.patch != "" {
		g.spec = g.edited(o)
	}
	g.chain.steps = append(g.chain.steps, step{name, p})
	if end := ends[name]; end != "" {
		g.due[len(g.chain.steps)+g.r.IntN(longest)] = end
	}
}

func randomPace(r *rand.Rand) pace {
	return []pace{paceNow, paceNow, paceIdle, paceSettle, paceSettle, paceSettle, paceSettle, paceSettle, paceSettle, paceSettle}[r.IntN(10)]
}
