// Package messages compares the messages in a status with those that are defined (see
// package message).
package messages

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

// New returns a message that is not part of message.All and that Check accepts
// anywhere.
func New(reason, text string) *message.Message {
	m := &message.Message{Reasons: []string{reason}, Text: text}
	unlisted.Store(m, true)
	return m
}

var unlisted sync.Map // of *message.Message

// CheckStatus returns an error for each message in the status of an object that is
// not defined. kinds are the name and the groups of its kind.
func CheckStatus(kinds []string, conditions []metav1.Condition, actions []common.Action) error {
	var errs []error
	for _, c := range conditions {
		errs = append(errs, Check(kinds, c.Type, string(c.Status), c.Reason, c.Message))
	}
	for _, a := range actions {
		errs = append(errs, Check(kinds, message.LastActions, "", a.Reason, a.Message))
	}
	return errors.Join(errs...)
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

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
		listed = listed || occurs(m, place, reason)
		rest = strings.TrimPrefix(rest[length:], " ")
	}
	if !listed {
		return fmt.Errorf("%s of %s with reason %s: no defined message has this place and reason: %q", place, kinds[0], reason, text)
	}
	return nil
}

// longest returns the message that matches most of the beginning of a text, and
// the length of that. Of several, one that may occur in the place is returned.
func longest(text string, kinds []string, place, reason string) (best *message.Message, length int) {
	try := func(m *message.Message) {
		at := pattern(m).FindStringIndex(text)
		if at != nil && (at[1] > length || at[1] == length && occurs(m, place, reason)) {
			best, length = m, at[1]
		}
	}
	for _, m := range message.All() {
		if m.IsOf(kinds) {
			try(m)
		}
	}
	unlisted.Range(func(m, _ any) bool {
		try(m.(*message.Message))
		return true
	})
	return best, length
}

func occurs(m *message.Message, place, reason string) bool {
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
func pattern(m *message.Message) *regexp.Regexp {
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
