package validate

import (
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

// requirement is a requirement on a label of a node or a pod.
type requirement struct {
	key      string
	operator corev1.NodeSelectorOperator
	values   []common.LabelValue
}

// selectors rejects requirements that no node or no pod can meet. Preferences are
// not validated, because pods are scheduled without them.
func selectors(p *common.Pod, at *field.Path) field.ErrorList {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	var errs field.ErrorList
	if a := p.Affinity; a != nil {
		at := at.Child("affinity")
		if a.NodeAffinity != nil && a.NodeAffinity.Required != nil {
			errs = append(errs, nodes(p.NodeSelector, a.NodeAffinity.Required.NodeSelectorTerms,
				at.Child("nodeAffinity", required, "nodeSelectorTerms"))...)
		}
		for _, one := range []struct {
			name string
			pods *common.PodAffinity
		}{{"podAffinity", a.PodAffinity}, {"podAntiAffinity", a.PodAntiAffinity}} {
			if one.pods == nil {
				continue
			}
			for i, term := range one.pods.Required {
				errs = append(errs, labelSelector(&term.LabelSelector, at.Child(one.name, required).Index(i).Child("labelSelector"))...)
			}
		}
	}
	for i, c := range p.TopologySpreadConstraints {
		errs = append(errs, labelSelector(c.LabelSelector, at.Child("topologySpreadConstraints").Index(i).Child("labelSelector"))...)
	}
	return errs
}

// nodes rejects each term that contradicts itself, and a selector that
// contradicts all terms.
func nodes(selector map[string]common.LabelValue, terms []common.NodeSelectorTerm, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	labels := equal(selector)
	excluded := 0
	for i, term := range terms {
		var all []requirement
		for _, e := range term.MatchExpressions {
			all = append(all, requirement{e.Key, e.Operator, e.Values})
		}
		if key := contradiction(all); key != "" {
			errs = append(errs, contradicts(at.Index(i).Child("matchExpressions"), key, "node"))
		}
		if contradiction(slices.Concat(labels, all)) != "" {
			excluded++
		}
	}
	if len(errs) == 0 && excluded > 0 && excluded == len(terms) {
		errs = append(errs, field.Forbidden(at, "no node can have the labels of spec.pod.nodeSelector and meet one of these terms: change one of the two fields"))
	}
	return errs
}

func labelSelector(s *common.LabelSelector, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	all := equal(s.MatchLabels)
	for _, e := range s.MatchExpressions {
		all = append(all, requirement{e.Key, corev1.NodeSelectorOperator(e.Operator), e.Values})
	}
	if key := contradiction(all); key != "" {
		return field.ErrorList{contradicts(at, key, "pod")}
	}
	return nil
}

func contradicts(at *field.Path, key, who string) *field.Error {
	return field.Invalid(at, key, "no "+who+" can meet all requirements on this label: change or remove one of them")
}

func equal(labels map[string]common.LabelValue) []requirement {
	var all []requirement
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, requirement{key, corev1.NodeSelectorOpIn, []common.LabelValue{labels[key]}})
	}
	return all
}

// contradiction returns the first key for which neither a value nor the absence
// of the label meets all requirements, or "".
func contradiction(all []requirement) string {
	byKey := map[string]*label{}
	for _, r := range all {
		if byKey[r.key] == nil {
			byKey[r.key] = &label{above: -1, below: math.MaxInt64} // values have no sign
		}
		byKey[r.key].add(r)
	}
	for _, r := range all {
		if !byKey[r.key].possible() {
			return r.key
		}
	}
	return ""
}

// label is the combination of the requirements on a label.
type label struct {
	exists, absent bool
	in             []common.LabelValue // if listed
	listed         bool
	notIn          []common.LabelValue
	above, below   int64 // if number
	number         bool
}

func (l *label) add(r requirement) {
	switch r.operator {
	case corev1.NodeSelectorOpIn:
		if len(r.values) == 0 {
			return // the schema rejects it
		}
		in := slices.Clone(r.values)
		if l.listed {
			in = slices.DeleteFunc(in, func(v common.LabelValue) bool { return !slices.Contains(l.in, v) })
		}
		l.in, l.listed, l.exists = in, true, true
	case corev1.NodeSelectorOpNotIn:
		l.notIn = append(l.notIn, r.values...)
	case corev1.NodeSelectorOpExists:
		l.exists = true
	case corev1.NodeSelectorOpDoesNotExist:
		l.absent = true
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if len(r.values) != 1 {
			return
		}
		n, err := strconv.ParseInt(string(r.values[0]), 10, 64)
		if err != nil {
			return
		}
		l.exists, l.number = true, true
		if r.operator == corev1.NodeSelectorOpGt {
			l.above = max(l.above, n)
		} else {
			l.below = min(l.below, n)
		}
	}
}

// possible reports whether a value of the label, or its absence, meets the
// requirements.
func (l *label) possible() bool {
	switch {
	case !l.exists:
		return true
	case l.absent:
		return false
	case l.listed:
		return slices.ContainsFunc(l.in, l.meets)
	}
	return !l.number || l.above < l.below-1
}

func (l *label) meets(value common.LabelValue) bool {
	if slices.Contains(l.notIn, value) {
		return false
	}
	if !l.number {
		return true
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	return err == nil && n > l.above && n < l.below
}
