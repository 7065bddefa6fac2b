// Package message defines what users read in conditions, events and
// status.lastActions. Each message is data: docs/conditions.md is generated from
// it, and the tests of every kind compare the status with it.
//
// A message is one or more sentences, each of which begins with a capital letter
// and ends with a full stop. A text of another component is quoted verbatim after
// a colon. Nothing in a message may differ between two attempts, such as a time,
// a counter or the name of a pod: each difference would be written to the status.
package message

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
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

// New returns a message that is not part of All and that Check accepts anywhere. It
// is for tests.
func New(reason, text string) *Message {
	m := &Message{Reasons: []string{reason}, Text: text}
	unlisted.Store(m, true)
	return m
}

var unlisted sync.Map // of *Message

// All returns the messages of all packages that the program contains.
func All() []*Message { return slices.Clone(defined) }

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// Placeholders returns the number of values that the message takes.
func (m *Message) Placeholders() int { return len(placeholder.FindAllString(m.Text, -1)) }

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
	return end(strings.TrimSuffix(sentence, ".") + ": " + text)
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

// Check returns an error unless a message consists of defined messages, and one of
// them may occur in this place of an object. kinds are the name and the groups of its
// kind. status is empty outside of conditions.
func Check(kinds []string, place, status, reason, text string) error {
	if status != "" {
		place += "=" + status
	}
	rest, listed := text, false
	for rest != "" {
		m, length := longest(rest, kinds, place, reason)
		if m == nil {
			return fmt.Errorf("%s of %s: %q is not a defined message, or not one of this kind: %q", place, kinds[0], rest, text)
		}
		listed = listed || m.occurs(place, reason)
		rest = strings.TrimPrefix(rest[length:], " ")
	}
	if !listed {
		return fmt.Errorf("%s of %s with reason %s: no defined message has this place and reason: %q", place, kinds[0], reason, text)
	}
	return nil
}

// longest returns the message that matches most of the beginning of a text, and
// the length of that. Of several, one that may occur in the place is returned.
func longest(text string, kinds []string, place, reason string) (best *Message, length int) {
	try := func(m *Message) {
		at := m.pattern().FindStringIndex(text)
		if at != nil && (at[1] > length || at[1] == length && m.occurs(place, reason)) {
			best, length = m, at[1]
		}
	}
	for _, m := range defined {
		if m.IsOf(kinds) {
			try(m)
		}
	}
	unlisted.Range(func(m, _ any) bool {
		try(m.(*Message))
		return true
	})
	return best, length
}

func (m *Message) occurs(place, reason string) bool {
	if _, ok := unlisted.Load(m); ok {
		return true
	}
	if len(m.Reasons) > 0 && reason != "" && !slices.Contains(m.Reasons, reason) {
		return false
	}
	// A reconcile that could not read reports Unknown for what it does not know.
	return slices.Contains(m.In, place) || place == "Ready=Unknown" && slices.Contains(m.In, "Ready=False")
}

var patterns sync.Map // of *Message

// pattern matches the message at the beginning of a text. Placeholders match as
// little as possible, and quoted texts all that follows.
func (m *Message) pattern() *regexp.Regexp {
	if p, ok := patterns.Load(m); ok {
		return p.(*regexp.Regexp)
	}
	text := m.Text
	if m.Quote != "" {
		text = strings.TrimSuffix(text, ".")
	}
	var b strings.Builder
	b.WriteString(`(?s)^`)
	for i, literal := range placeholder.Split(text, -1) {
		if i > 0 {
			b.WriteString(`.+?`)
		}
		b.WriteString(regexp.QuoteMeta(literal))
	}
	if m.Quote != "" {
		b.WriteString(`(\.|: .*)`)
	} else if strings.HasSuffix(text, "}.") {
		b.WriteString(`(?: |$)`)
	}
	p := regexp.MustCompile(b.String())
	patterns.Store(m, p)
	return p
}
