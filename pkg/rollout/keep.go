package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Rules decide which templates pods may be created from. Admission has decided
// about a template that was generated from the spec, but not about a stored
// one: it may be older than a rule, and everyone who can create
// ControllerRevisions can store any template. A field that is nil allows all.
type Rules struct {
	// Refuses returns why no pods may be created from a template, whatever its
	// origin is.
	Refuses func(*corev1ac.PodTemplateSpecApplyConfiguration) error
	// Violations returns the parts of a stored template that the operator does
	// not generate.
	Violations func(*corev1ac.PodTemplateSpecApplyConfiguration) []string
	// NotAllowed returns the values in a stored template that the platform
	// configuration does not allow. A Deployment may keep those that it has
	// already, or that the spec asks for, because the rule is newer.
	NotAllowed func(*corev1ac.PodTemplateSpecApplyConfiguration) field.ErrorList
}

// check returns why the decided template must not be used.
func (d *Decision) check(live *appsv1.Deployment) error {
	t := d.Template
	if d.rules.Refuses != nil {
		if err := d.rules.Refuses(t); err != nil {
			return err
		}
	}
	if d.Serving.generated {
		return nil
	}
	if d.rules.Violations != nil {
		if found := d.rules.Violations(t); len(found) > 0 {
			return fault.Stalled(msgUnknownTemplate, d.Serving.name, listed(found))
		}
	}
	if d.rules.NotAllowed == nil {
		return nil
	}
	found := d.rules.NotAllowed(t)
	if len(found) == 0 {
		return nil
	}
	var known field.ErrorList
	if d.fresh != nil {
		known = d.rules.NotAllowed(d.fresh)
	}
	if live != nil {
		known = append(known, d.rules.NotAllowed(templateOf(live))...)
	}
	if found = config.Introduced(found, known); len(found) == 0 {
		return nil
	}
	return fault.Stalled(msgTemplateNotAllowed, d.Serving.Number, listed(values(found)))
}

// values returns the fields of errors and their values, sorted.
func values(errs field.ErrorList) []string {
	all := make([]string, 0, len(errs))
	for _, e := range errs {
		value := e.Field
		if e.BadValue != nil && e.BadValue != "" {
			value += fmt.Sprintf(" %q", fmt.Sprint(e.BadValue))
		}
		all = append(all, value)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// allowed reports whether the decided template, if there is one, may be used. A
// Deployment that has a refused template already keeps it, because its pods run
// in any case.
func (d *Decision) allowed(live *appsv1.Deployment) bool {
	if d.Template == nil {
		return true
	}
	refused := d.check(live)
	if refused == nil {
		return true
	}
	if !has(live, d.Template) {
		return false
	}
	// The stored template may only claim to be the one that the Deployment has.
	same := *d
	same.Template = templateOf(live)
	err := same.check(live)
	return err != nil && err.Error() == refused.Error()
}

// DecideOrKeep calls decide. If that returns no template, or one that must not
// be used, the revision of the last decision keeps serving, so that the
// Deployment can still be scaled, repaired and created again. The error
// contains the reason.
//
// A Deployment that already has a template that must not be used keeps it,
// because its pods run in any case; a Deployment that does not exist is not
// created with it. asked reports whether the decision is about the revision
// that the spec asks for.
func DecideOrKeep(q Input, seen Observed, decide func() (Decision, error), rules Rules) (d Decision, asked bool, err error) {
	d, err = decide()
	d.rules = rules
	if d.Template != nil {
		refused := d.check(seen.Deployment)
		if refused == nil {
			return d, true, err
		}
		err = errors.Join(err, refused)
	}
	if err == nil {
		return d, true, nil
	}
	return keepLast(q, seen, rules, err)
}

// Hold returns what DecideOrKeep returns if it may not decide, for the given
// reason.
func (d Decision) Hold(seen Observed, why error) (last Decision, asked bool, err error) {
	return keepLast(d.question, seen, d.rules, why)
}

func keepLast(q Input, seen Observed, rules Rules, why error) (d Decision, asked bool, err error) {
	last, unreadable := lastAllowed(q, seen, rules)
	if last.Template == nil && q.Rollout != nil { // it may be the pinned one that is refused
		unpinned := *q.Rollout
		unpinned.PinnedRevision = nil
		q.Rollout = &unpinned
		last, unreadable = lastAllowed(q, seen, rules)
	}
	return last, false, errors.Join(why, unreadable)
}

// lastAllowed is LastKnown without a template that must not be used.
func lastAllowed(q Input, seen Observed, rules Rules) (Decision, error) {
	last, err := LastKnown(q, seen)
	last.rules = rules
	if !last.allowed(seen.Deployment) {
		last.Template = nil
	}
	return last, err
}

// has reports whether a Deployment has a template, according to the hashes that
// both contain.
func has(d *appsv1.Deployment, t *corev1ac.PodTemplateSpecApplyConfiguration) bool {
	return d != nil && t.ObjectMetaApplyConfiguration != nil &&
		d.Spec.Template.Annotations[naming.AnnotationTemplate] == t.Annotations[naming.AnnotationTemplate]
}

// templateOf returns the template of a Deployment.
func templateOf(d *appsv1.Deployment) *corev1ac.PodTemplateSpecApplyConfiguration {
	t := &corev1ac.PodTemplateSpecApplyConfiguration{}
	if raw, err := json.Marshal(d.Spec.Template); err == nil {
		_ = json.Unmarshal(raw, t) // the types have the same JSON
	}
	return t
}

// listed abbreviates a list of paths for a message.
func listed(paths []string) string {
	const most = 10
	var short []string
	for i, p := range paths {
		if i == most {
			short = append(short, "…")
			break
		}
		short = append(short, fault.Clip(p, mostPath))
	}
	return strings.Join(short, ", ")
}
