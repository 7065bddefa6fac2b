package preflight

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Report describes what an upgrade to this version would do.
type Report struct {
	// Version is the version of the operator that created the report.
	Version string `json:"version"`
	// Configuration is where the platform configuration is from.
	Configuration string `json:"configuration,omitempty"`
	// Objects are all objects of all kinds, sorted.
	Objects []Object `json:"objects"`
	// Unmanaged describes the objects of kinds that are disabled.
	Unmanaged []string `json:"unmanaged,omitempty"`
	Summary   Summary  `json:"summary"`
	// Unread lists what could not be listed.
	Unread []string `json:"unread,omitempty"`
}

// Summary holds totals.
type Summary struct {
	Objects int `json:"objects"`
	// Children is the number of children that would be written, of objects that
	// are not paused.
	Children int `json:"childrenThatWouldChange"`
	// Pods is the number of pods that would restart.
	Pods int32 `json:"podsThatWouldRestart"`
	// Addresses is the number of node ports and load balancers that would be lost.
	Addresses int32 `json:"addressesThatWouldBeLost"`
	// Pending is the number of objects with pending changes.
	Pending int `json:"objectsWithPendingChanges"`
	// Unread is the number of lists and objects that could not be read.
	Unread int `json:"unread"`
}

// Object describes what would happen to one object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Paused reports that the object is paused, so that Children are not written.
	Paused bool `json:"paused,omitempty"`
	// Children are the children that would be written.
	Children []Child `json:"childrenThatWouldChange"`
	// Pods is the number of pods that would restart.
	Pods int32 `json:"podsThatWouldRestart"`
	// Addresses is the number of node ports and load balancers that would be lost.
	Addresses int32 `json:"addressesThatWouldBeLost"`
	// Pending lists differences of pod templates that take effect with the user's
	// next change.
	Pending []string `json:"pendingChanges"`
	// Notes holds further information.
	Notes []string `json:"notes,omitempty"`
	// Unread lists what could not be read, so that the other fields may be
	// incomplete.
	Unread []string `json:"unread,omitempty"`
}

// Child is a child that would be written.
type Child struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Action is create, change, take over or delete.
	Action string `json:"action"`
	// Fields lists the reasons.
	Fields []string `json:"fields,omitempty"`
	// Pods is the number of pods that would restart.
	Pods int32 `json:"podsThatWouldRestart"`
	// Addresses is the number of node ports and load balancers that would be lost.
	Addresses int32 `json:"addressesThatWouldBeLost"`
}

// disabled describes the objects of a kind that is disabled.
func (r *Report) disabled(kind string, objects map[client.ObjectKey]client.Object) {
	if len(objects) == 0 {
		return
	}
	held := 0
	for _, o := range objects {
		if controllerutil.ContainsFinalizer(o, naming.Finalizer) {
			held++
		}
	}
	text := fmt.Sprintf("%s is disabled: %s would keep running unmanaged.", kind, count(len(objects), "object"))
	if held > 0 {
		text += fmt.Sprintf(" The deletion of %d, with deletionPolicy Orphan, would wait until platform-operator release --kinds %s removes the finalizer.", held, kind)
	}
	r.Unmanaged = append(r.Unmanaged, text)
}

// sum sorts the objects and computes the summary.
func (r *Report) sum() {
	slices.SortFunc(r.Objects, byName)
	s := Summary{Objects: len(r.Objects), Unread: len(r.Unread)}
	for i := range r.Objects {
		o := &r.Objects[i]
		o.Children, o.Pending = orNone(o.Children), orNone(o.Pending)
		if !o.Paused {
			s.Children += len(o.Children)
		}
		s.Pods += o.Pods
		s.Addresses += o.Addresses
		if len(o.Pending) > 0 {
			s.Pending++
		}
		if len(o.Unread) > 0 {
			s.Unread++
		}
	}
	r.Summary = s
}

// orNone makes an empty list encode as [] rather than null.
func orNone[E any](l []E) []E {
	if l == nil {
		return []E{}
	}
	return l
}

// ExitCode returns 0 if no pod would restart and no address would be lost, 1 otherwise,
// and 2 if something could not be read, so that the result is unknown.
func (r Report) ExitCode() int {
	switch {
	case r.Summary.Unread > 0:
		return 2
	case r.Summary.Pods > 0, r.Summary.Addresses > 0:
		return 1
	default:
		return 0
	}
}

// JSON writes the report as JSON.
func (r Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Table writes the report for people: one line per object, the reasons if there
// are any, and a summary.
func (r Report) Table(w io.Writer) error {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(t, "KIND\tNAMESPACE/NAME\tCHILDREN THAT WOULD CHANGE\tPODS THAT WOULD RESTART\tPENDING")
	for _, o := range r.Objects {
		pods := fmt.Sprint(o.Pods)
		if len(o.Unread) > 0 {
			pods = "unknown"
		}
		fmt.Fprintf(t, "%s\t%s/%s\t%s\t%s\t%s\n", o.Kind, o.Namespace, o.Name, o.names(), pods, o.waits())
	}
	_ = t.Flush() // a strings.Builder never fails
	if len(r.Objects) == 0 {
		b.Reset()
		b.WriteString("There are no objects.\n")
	}
	for _, o := range r.Objects {
		o.why(&b)
	}
	for _, u := range r.Unmanaged {
		fmt.Fprintf(&b, "\n%s\n", u)
	}
	for _, u := range r.Unread {
		fmt.Fprintf(&b, "\nnot read: %s\n", u)
	}
	fmt.Fprintf(&b, "\n%s\n", r.verdict())
	_, err := io.WriteString(w, b.String())
	return err
}

// names returns the children for one cell of the table.
func (o Object) names() string {
	if len(o.Children) == 0 {
		return "-"
	}
	var names []string
	for _, c := range o.Children {
		names = append(names, c.Action+" "+c.Kind+" "+c.Name)
	}
	s := strings.Join(names, ", ")
	if o.Paused {
		s = "held (paused): " + s
	}
	return s
}

func (o Object) waits() string {
	if len(o.Pending) == 0 {
		return "-"
	}
	return count(len(o.Pending), "field")
}

// why writes the reasons for one object, or nothing if there are none.
func (o Object) why(b *strings.Builder) {
	if len(o.Children)+len(o.Pending)+len(o.Notes)+len(o.Unread) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s %s/%s\n", o.Kind, o.Namespace, o.Name)
	list := func(title string, lines []string) {
		fmt.Fprintf(b, "  %s\n", title)
		for _, l := range lines {
			fmt.Fprintf(b, "    %s\n", l)
		}
	}
	for _, c := range o.Children {
		title := fmt.Sprintf("would %s %s %s", c.Action, c.Kind, c.Name)
		if o.Paused {
			title += ", were it not paused"
		}
		if effects := c.effects(); effects != "" {
			title += ": " + effects
		}
		list(title, c.Fields)
	}
	if len(o.Pending) > 0 {
		list("pending until the next change of its spec", o.Pending)
	}
	for _, n := range o.Notes {
		list("note: "+n, nil)
	}
	for _, u := range o.Unread {
		list("not read: "+u, nil)
	}
}

// effects says what users notice, or "" if they notice nothing.
func (c Child) effects() string {
	var all []string
	if c.Pods > 0 {
		all = append(all, count(int(c.Pods), "pod")+" would restart")
	}
	if c.Addresses > 0 {
		all = append(all, count(int(c.Addresses), "address")+" would be lost")
	}
	return strings.Join(all, ", and ")
}

func (r Report) verdict() string {
	s := r.Summary
	var verdict string
	switch r.ExitCode() {
	case 0:
		verdict = "No pod would restart, and no address would be lost."
	case 1:
		verdict = Child{Pods: s.Pods, Addresses: s.Addresses}.effects() + "."
	default:
		verdict = "Not everything could be read, so how many pods would restart is not known."
	}
	by := "version " + r.Version
	if r.Configuration != "" {
		by += " with the platform configuration of " + r.Configuration
	}
	return fmt.Sprintf("%s, evaluated by %s: %s would change, %s pending. %s",
		count(s.Objects, "object"), by, count(s.Children, "child"), count(s.Pending, "object")+" with changes", verdict)
}

func count(n int, what string) string {
	switch {
	case n == 1:
		return "1 " + what
	case what == "child":
		what = "children"
	case what == "address":
		what = "addresses"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
