package inspect

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/revision"
	"github.com/platform-operator/platform-operator/pkg/textdiff"
)

// History contains the revisions of an object, oldest first.
type History struct {
	Reference string     `json:"reference"`
	Namespace string     `json:"namespace"`
	Revisions []Revision `json:"revisions"`
	// MissingPin is the pinned revision, if it is not kept.
	MissingPin *int64 `json:"missingPin,omitempty"`
}

// Revision is a revision of an object.
type Revision struct {
	Number  int64       `json:"number"`
	Name    string      `json:"name"`
	Created metav1.Time `json:"created"`
	// States describe how the revision is used: serving, last healthy, pinned or
	// failed.
	States []string `json:"states,omitempty"`
	// Changes are the differences from the previous revision that is kept.
	Changes []string `json:"changes,omitempty"`

	live *appsv1.ControllerRevision
}

// History returns the revisions of an object.
func (i Inspector) History(ctx context.Context, namespace string, ref Reference) (History, error) {
	h := History{Reference: ref.String(), Namespace: namespace, Revisions: []Revision{}}
	if !ref.Kind.Has("rollout") {
		return h, fmt.Errorf("objects of kind %s have no revisions", ref.Kind.Kind)
	}
	obj, o, err := i.Get(ctx, namespace, ref)
	if err != nil {
		return h, err
	}
	var list appsv1.ControllerRevisionList
	if err := i.Client.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy}); err != nil {
		return h, fmt.Errorf("listing the revisions of %s: %w", ref, err)
	}
	var live []*appsv1.ControllerRevision
	for n := range list.Items {
		if c := &list.Items[n]; c.DeletionTimestamp == nil && naming.OwnerUID(c) == obj.GetUID() {
			live = append(live, c)
		}
	}
	h.MissingPin = o.PinnedRevision
	revision.Sort(live)
	for n, r := range live {
		number, _ := revision.Identity(r)
		rev := Revision{Number: number, Name: r.Name, Created: r.CreationTimestamp, States: o.uses(r.Name, number), live: r}
		if h.MissingPin != nil && *h.MissingPin == number {
			h.MissingPin = nil
		}
		if n > 0 {
			rev.Changes = changes(h.Revisions[n-1], rev)
		}
		h.Revisions = append(h.Revisions, rev)
	}
	return h, nil
}

// uses returns how an object uses a revision.
func (o Object) uses(revision string, n int64) []string {
	var all []string
	is := func(number int64, name string) bool {
		return name == revision || name == "" && number == n && number != 0
	}
	failed := false
	if s := o.Revisions; s != nil {
		if is(s.Current, s.CurrentName) {
			all = append(all, "serving")
		}
		if is(s.LastHealthy, s.LastHealthyName) {
			all = append(all, "last healthy")
		}
		failed = is(s.Failed, s.FailedName)
	}
	if o.PinnedRevision != nil && *o.PinnedRevision == n {
		all = append(all, "pinned")
	}
	for _, a := range o.LastActions { // the latest first
		if a.Revision == n && n != 0 {
			return append(all, "failed: "+a.Reason)
		}
	}
	if failed {
		all = append(all, "failed")
	}
	return all
}

// changes describes the differences between two revisions.
func changes(from, to Revision) []string {
	a, err := revision.Template[any](from.live)
	if err != nil {
		return []string{"revision " + strconv.FormatInt(from.Number, 10) + " contains no pod template"}
	}
	b, err := revision.Template[any](to.live)
	if err != nil {
		return []string{"it contains no pod template"}
	}
	var all []string
	for _, d := range revision.Differences(a, b) {
		path := strings.TrimPrefix(d.Path, "spec.")
		switch {
		case d.From == nil && scalar(d.To):
			all = append(all, fmt.Sprintf("%s: added, %v", path, d.To))
		case d.From == nil:
			all = append(all, path+": added")
		case d.To == nil:
			all = append(all, path+": removed")
		case scalar(d.From) && scalar(d.To):
			all = append(all, fmt.Sprintf("%s: %v → %v", path, d.From, d.To))
		default:
			all = append(all, path+": changed")
		}
	}
	return all
}

// scalar reports whether a value can be printed in a line.
func scalar(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) <= 100 && !strings.Contains(v, "\n")
	case bool, float64, int64:
		return true
	}
	return false
}

// Diff returns the differences between the pod templates of two revisions as a
// unified diff.
func (h History) Diff(from, to int64) (string, error) {
	a, err := h.find(from)
	if err != nil {
		return "", err
	}
	b, err := h.find(to)
	if err != nil {
		return "", err
	}
	before, err := a.yaml()
	if err != nil {
		return "", err
	}
	after, err := b.yaml()
	if err != nil {
		return "", err
	}
	hunks := textdiff.Hunks(slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after)), 3)
	if len(hunks) == 0 {
		return "", nil
	}
	var diff strings.Builder
	fmt.Fprintf(&diff, "--- %[1]s revision %[2]d\n+++ %[1]s revision %[3]d\n", h.Reference, a.Number, b.Number)
	for _, h := range hunks {
		fmt.Fprintf(&diff, "@@ -%d,%d +%d,%d @@\n%s", h.From.Start+1, h.From.End-h.From.Start, h.To.Start+1, h.To.End-h.To.Start, strings.Join(h.Lines, ""))
	}
	return diff.String(), nil
}

func (h History) find(number int64) (Revision, error) {
	var kept []string
	for _, r := range slices.Backward(h.Revisions) {
		if r.Number == number {
			return r, nil
		}
		kept = append(kept, strconv.FormatInt(r.Number, 10))
	}
	if len(kept) == 0 {
		return Revision{}, fmt.Errorf("%s in namespace %q has no revisions yet", h.Reference, h.Namespace)
	}
	slices.Reverse(kept)
	return Revision{}, fmt.Errorf("revision %d of %s is not kept: use one of %s", number, h.Reference, strings.Join(kept, ", "))
}

// Kept returns an error that names the revisions that are kept, unless this one is.
func (h History) Kept(number int64) error {
	_, err := h.find(number)
	return err
}

// Latest returns the two latest revisions.
func (h History) Latest() (from, to int64, err error) {
	n := len(h.Revisions)
	if n < 2 {
		return 0, 0, fmt.Errorf("%s in namespace %q has %d revisions, and a difference needs two", h.Reference, h.Namespace, n)
	}
	return h.Revisions[n-2].Number, h.Revisions[n-1].Number, nil
}

// Before returns the revision that is kept before another one.
func (h History) Before(number int64) (int64, error) {
	if _, err := h.find(number); err != nil {
		return 0, err
	}
	i := slices.IndexFunc(h.Revisions, func(r Revision) bool { return r.Number == number })
	if i == 0 {
		return 0, fmt.Errorf("revision %d of %s is the first one that is kept: name two revisions", number, h.Reference)
	}
	return h.Revisions[i-1].Number, nil
}

// yaml returns the pod template, without its hash, which always differs.
func (r Revision) yaml() (string, error) {
	t, err := revision.Template[any](r.live)
	if err != nil {
		return "", err
	}
	doc, err := yaml.Marshal(revision.Plain(t))
	if err != nil {
		return "", fmt.Errorf("printing revision %d: %w", r.Number, err)
	}
	return string(doc), nil
}

// mostChanges is the number of changes of a revision that are printed.
const mostChanges = 5

// History writes the table of revisions.
func (p Printer) History(w io.Writer, h History) error {
	var b strings.Builder
	if len(h.Revisions) == 0 {
		fmt.Fprintf(&b, "%s in namespace %s has no revisions yet.\n", h.Reference, h.Namespace)
	} else {
		rows := []row{{cells: cells("REVISION", "AGE", "STATE", "CHANGE")}}
		for n, r := range h.Revisions {
			lines := r.Changes
			if more := len(lines) - mostChanges; more > 0 {
				lines = append(slices.Clone(lines[:mostChanges]), fmt.Sprintf("and %d more; --diff %d %d shows all", more, h.Revisions[n-1].Number, r.Number))
			}
			if len(lines) == 0 {
				lines = []string{"-"}
			}
			state, color := strings.Join(r.States, ", "), ""
			switch {
			case strings.Contains(state, "failed"):
				color = red
			case strings.Contains(state, "serving"):
				color = green
			}
			rows = append(rows, row{cells: []cell{{text: strconv.FormatInt(r.Number, 10)}, {text: p.age(r.Created.Time)}, {color, cmp.Or(state, "-")}, {text: lines[0]}}})
			for _, l := range lines[1:] {
				rows = append(rows, row{cells: cells("", "", "", l)})
			}
		}
		p.table(&b, "", rows)
	}
	if h.MissingPin != nil {
		p.notes(&b, []string{fmt.Sprintf("Revision %d (spec.rollout.pinnedRevision) does not exist.", *h.MissingPin)})
	}
	return write(w, b.String())
}

// Diff writes a unified diff.
func (p Printer) Diff(w io.Writer, diff string) error {
	var b strings.Builder
	for line := range strings.Lines(diff) {
		text := strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "+++"), strings.HasPrefix(line, "---"):
			text = p.paint(bold, text)
		case strings.HasPrefix(line, "+"):
			text = p.paint(green, text)
		case strings.HasPrefix(line, "-"):
			text = p.paint(red, text)
		}
		b.WriteString(text + "\n")
	}
	return write(w, b.String())
}
