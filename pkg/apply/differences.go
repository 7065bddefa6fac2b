package apply

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Preview describes what Apply would do to a child.
type Preview struct {
	// Action is Unchanged, Created, Changed or TakenOver.
	Action Action
	// Live is the live child, or nil if it does not exist.
	Live client.Object
	// Differences lists the reasons, sorted by path. It is empty if the child
	// would be left unchanged or created.
	Differences []Difference
}

// Difference is a field that Apply would change.
type Difference struct {
	// Path has the notation of kubectl explain, with list elements by their key:
	// "spec.template.spec.containers[web].image".
	Path string
	// Verb is "be added", "be removed" or "change".
	Verb string
}

const (
	added   = "be added"
	removed = "be removed"
	changed = "change"
)

// String returns a sentence as in status.pendingChanges.
func (d Difference) String() string { return d.Path + " would " + d.Verb }

// Diff returns what Apply would do to a child, and which fields are the
// reason. It writes nothing. For an unowned child it returns the error that
// Apply would return. Unlike NeedsApply, it also reads children from the API
// server that the cache does not hold, because Apply would adopt them.
//
// Fields that would be removed are reported only if the reader returns complete
// managed fields, which the operator's own cache does not.
func (a *Applier) Diff(ctx context.Context, owner Owner, in Intent) (Preview, error) {
	t, err := a.begin(ctx, owner, in)
	if err != nil {
		return Preview{}, err
	}
	live, err := a.readAnywhere(ctx, in)
	if apierrors.IsNotFound(err) {
		return Preview{Action: Created}, nil
	}
	if err != nil {
		return Preview{}, fmt.Errorf("reading %s: %w", in, err)
	}
	e, err := t.evaluate(ctx, live)
	if err != nil {
		return Preview{Action: Changed, Live: live}, err
	}
	p := Preview{Action: e.action, Live: live}
	if e.action == Unchanged {
		return p, nil
	}
	var claims scope
	if e.claim {
		claims = t.claims(e.action)
	}
	if err := t.decode(); err != nil {
		return p, err
	}
	all := a.compare.differences(live, t.fields)
	gone, err := dropped(live, t.fields, claims, t.in.ReleaseFields)
	if err != nil {
		return p, err
	}
	for _, path := range gone {
		all = append(all, Difference{path, removed})
	}
	p.Differences = inOrder(all)
	return p, nil
}

// inOrder sorts differences and removes duplicates. A difference of the hash of
// the last applied intent follows from the others, so it is kept only if it is
// the only one.
func inOrder(all []Difference) []Difference {
	slices.SortFunc(all, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	all = slices.CompactFunc(all, func(a, b Difference) bool { return a.Path == b.Path })
	if len(all) > 1 {
		all = slices.DeleteFunc(all, func(d Difference) bool { return d.Path == "metadata.annotations."+naming.AnnotationApplied })
	}
	return all
}

// differences returns the stated fields that live does not hold. The result is
// empty if and only if compare does not report that live lacks something.
func (c *comparer) differences(live any, stated map[string]any) []Difference {
	var found []Difference
	w := walk{comparer: c, report: func(path, verb string, _ reflect.Value) { found = append(found, Difference{path, verb}) }}
	w.root(live, stated)
	return found
}

// dropped returns the fields that an apply would remove: the operator owns
// them, or would claim them first, the intent does not state them, and no other
// manager owns them.
func dropped(live client.Object, stated map[string]any, claims scope, handOver func(client.Object) runtime.ApplyConfiguration) ([]string, error) {
	ours, others := fieldpath.NewSet(), fieldpath.NewSet()
	for _, e := range live.GetManagedFields() {
		if e.Subresource != "" || e.FieldsV1 == nil {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(e.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("reading the fields of manager %q: %w", e.Manager, err)
		}
		set.Iterate(func(p fieldpath.Path) {
			if isOurs(e) || claims != nil && claims(e, pathString(p)) {
				ours.Insert(p.Copy())
			} else {
				others.Insert(p.Copy())
			}
		})
	}
	now, err := asJSON(live)
	if err != nil {
		return nil, err
	}
	var stays any
	if handOver != nil {
		if to := handOver(live); to != nil {
			if stays, err = asJSON(to); err != nil {
				return nil, err
			}
		}
	}
	var gone []string
	all := ours.Union(others)
	ours.Iterate(func(p fieldpath.Path) {
		v, there := at(now, p)
		_, isStated := at(stated, p)
		_, isLeft := at(stays, p)
		if !there || isStated || isLeft || keepsValue(v, p) || heldBelow(others, p, true) || heldBelow(all, p, false) {
			return // decided by the fields below it, or nothing changes
		}
		top := len(p)
		for i := range p { // the topmost path that is not stated
			if _, ok := at(stated, p[:i+1]); !ok && !heldBelow(others, p[:i+1], true) {
				top = i + 1
				break
			}
		}
		gone = append(gone, nameOf(p[:top]))
	})
	return gone, nil
}

// heldBelow reports whether a set holds a path below p, or p itself if at is
// true.
func heldBelow(s *fieldpath.Set, p fieldpath.Path, at bool) bool {
	if at && s.Has(p) {
		return true
	}
	for _, e := range p {
		s = s.WithPrefix(e)
	}
	return !s.Empty()
}

// at returns the value at a path of decoded JSON, and whether it exists.
func at(v any, p fieldpath.Path) (any, bool) {
	for _, e := range p {
		switch {
		case e.FieldName != nil:
			m, ok := v.(map[string]any)
			if !ok {
				return nil, false
			}
			if v, ok = m[*e.FieldName]; !ok {
				return nil, false
			}
		case e.Key != nil:
			l, _ := v.([]any)
			i := slices.IndexFunc(l, func(element any) bool { return hasKey(element, *e.Key) })
			if i < 0 {
				return nil, false
			}
			v = l[i]
		case e.Value != nil:
			l, _ := v.([]any)
			i := slices.IndexFunc(l, func(element any) bool { return sameScalar(element, (*e.Value).Unstructured()) })
			if i < 0 {
				return nil, false
			}
			v = l[i]
		default: // by position: such a list is owned as a whole
			return v, true
		}
	}
	return v, v != nil
}

func hasKey(element any, key value.FieldList) bool {
	m, ok := element.(map[string]any)
	if !ok {
		return false
	}
	for _, k := range key {
		have, there := m[k.Name]
		if !there {
			for _, second := range secondKey { // a key that is not set has the default
				if second.name == k.Name {
					have = second.unset
				}
			}
		}
		if !sameScalar(have, k.Value.Unstructured()) {
			return false
		}
	}
	return true
}

// sameScalar compares scalars from two decoders, only one of which
// distinguishes integers from floating-point numbers.
func sameScalar(a, b any) bool { return text(a) == text(b) }

func text(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

// nameOf writes a path in the notation of Difference.Path.
func nameOf(p fieldpath.Path) string {
	var b strings.Builder
	for _, e := range p {
		switch {
		case e.FieldName != nil:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(*e.FieldName)
		case e.Key != nil && len(*e.Key) > 0:
			fmt.Fprintf(&b, "[%v]", (*e.Key)[0].Value.Unstructured())
		case e.Value != nil:
			fmt.Fprintf(&b, "[%v]", (*e.Value).Unstructured())
		}
	}
	return b.String()
}

// unset lists the defaults that the API server sets for fields of pods,
// Deployments and Services: removing such a value from the intent changes
// nothing. nil means any value, for fields that the API server allocates.
var unset = map[string]any{
	"clusterIP": nil, "clusterIPs": nil, "ipFamilies": nil,
	"creationTimestamp":                    nil,
	"spec.type":                            "ClusterIP",
	"spec.strategy.type":                   "RollingUpdate",
	"spec.strategy.rollingUpdate.maxSurge": "25%",
	"maxUnavailable":                       "25%",
	"spec.replicas":                        1,
	"spec.revisionHistoryLimit":            10,
	"spec.progressDeadlineSeconds":         600,
	"spec.sessionAffinity":                 "None",
	"spec.internalTrafficPolicy":           "Cluster",
	"spec.ipFamilyPolicy":                  "SingleStack",
	"dnsPolicy":                            "ClusterFirst",
	"restartPolicy":                        "Always",
	"schedulerName":                        "default-scheduler",
	"terminationGracePeriodSeconds":        30,
	"terminationMessagePath":               "/dev/termination-log",
	"terminationMessagePolicy":             "File",
	"protocol":                             "TCP",
	"timeoutSeconds":                       1,
	"periodSeconds":                        10,
	"successThreshold":                     1,
	"failureThreshold":                     3,
	"scheme":                               "HTTP",
	"procMount":                            "Default",
	"defaultMode":                          420,
}

// givenBy returns the value that the API server sets for a field, or nil for
// any value, and whether it sets one.
func givenBy(path string) (given any, known bool) {
	if given, known = unset[path]; known {
		return given, true
	}
	_, name := cutLast(path)
	given, known = unset[name]
	return given, known
}

// keepsValue reports whether a field keeps its value if it is no longer stated.
func keepsValue(v any, p fieldpath.Path) bool {
	path := pathString(p)
	if path == "status" || strings.HasPrefix(path, "status.") {
		return true
	}
	if given, known := givenBy(path); known {
		return given == nil || sameScalar(v, given)
	}
	switch v := v.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	}
	return v == nil
}

func asJSON(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	var decoded map[string]any
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return nil, fmt.Errorf("decoding %T: %w", v, err)
	}
	return decoded, nil
}
