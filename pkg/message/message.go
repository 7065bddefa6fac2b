// Package message defines what users read in conditions, events and
// status.lastActions. Each message is data: docs/conditions.md is generated from
// it, and the tests of every kind compare the status with it.
//
// A message is one or more sentences, each of which begins with a capital letter
// and ends with a full stop. A text of another component is quoted after a colon.
// Nothing in a message may differ between two attempts, such as a time,
// a counter or the name of a pod: each difference would be written to the status.
package message

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Message is a message with a place for each value that it contains.
type Message struct {
	// In are the conditions that the message occurs in, as TYPE=STATUS, or Event,
	// or lastActions.
	In []string
	// Kinds are the kinds of objects, or the groups of kinds, that have the message;
	// all if it is empty.
	Kinds []string
	// Reasons are the reasons that the conditions may have.
	Reasons []string
	// Text is the message. Values replace its {placeholders} in their order.
	Text string
	// Quote is what may be quoted after the text, and Remedy is what follows that.
	// They are used by Quoting only.
	Quote, Remedy string
	// When is when the message occurs, and what to do about it.
	When string
}

// The places that do not belong to a condition.
const (
	Event       = "Event"
	LastActions = "lastActions"
)

// Conditions that change together (see pkg/conditions).
var (
	// Waits is an object that becomes ready without intervention.
	Waits = []string{"Ready=False", "Reconciling=True"}
	// Stalls is an object that does not become ready without intervention.
	Stalls = []string{"Ready=False", "Stalled=True"}
)

// Groups of kinds. Each kind declares to which it belongs, so that a message need not
// list them.
var (
	// Deployments are the kinds whose pods a Deployment runs.
	Deployments = []string{"kinds with a Deployment"}
	// Web are the kinds that can be exposed.
	Web = []string{"kinds that can be exposed"}
)

var defined []*Message

// Define returns a message that is part of All. It is called for variables of
// packages.
func Define(m Message) *Message {
	defined = append(defined, &m)
	return &m
}

// Place is where messages occur that have the same conditions and kinds.
type Place struct{ In, Kinds []string }

// Define is Define for a message of the place that may have these reasons.
func (p Place) Define(m Message, reasons ...string) *Message {
	m.In, m.Kinds, m.Reasons = p.In, p.Kinds, reasons
	return Define(m)
}

// All returns the messages of all packages that the program contains.
func All() []*Message { return slices.Clone(defined) }

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// Reason returns the first of the reasons.
func (m *Message) Reason() string { return m.Reasons[0] }

// With returns the message with its values.
func (m *Message) With(values ...any) string {
	if len(values) == 0 {
		return m.Text // most messages, in every reconcile
	}
	i := -1
	return placeholder.ReplaceAllStringFunc(m.Text, func(name string) string {
		if i++; i >= len(values) {
			return name
		}
		return fmt.Sprint(values[i])
	})
}

// Quoting returns the message with its values, a text of another component and the
// remedy.
func (m *Message) Quoting(text string, values ...any) string {
	return Join(Quote(m.With(values...), text), m.Remedy)
}

// Join returns the non-empty sentences as one message.
func Join(sentences ...string) string {
	var all []string
	for _, s := range sentences {
		if s != "" {
			all = append(all, end(s))
		}
	}
	return strings.Join(all, " ")
}

// Quote returns a message that is followed by a text of another component, or the
// message alone if the text is empty.
func Quote(sentence, text string) string {
	if text == "" {
		return sentence
	}
	return end(strings.TrimSuffix(sentence, ".") + ": " + Visible(text))
}

// Visible returns a text without the control characters by which it could change what a
// terminal shows. Line breaks and tabs remain.
func Visible(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return utf8.RuneError
		}
		return r
	}, text)
}

// end adds a full stop, unless the text ends with a sentence or was cut.
func end(s string) string {
	s = strings.TrimSpace(s)
	for _, mark := range []string{".", "!", "?", "…"} {
		if strings.HasSuffix(s, mark) {
			return s
		}
	}
	return s + "."
}

// IsOf reports whether a kind with this name and these groups has the message.
func (m *Message) IsOf(kinds []string) bool {
	return len(m.Kinds) == 0 || slices.ContainsFunc(m.Kinds, func(k string) bool { return slices.Contains(kinds, k) })
}
