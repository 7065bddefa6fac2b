package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

// Printer prints for people.
type Printer struct {
	// Now is the time that ages refer to.
	Now time.Time
	// Color reports whether the output is a terminal that shows colours.
	Color bool
	// Width is the number of characters in a line of the terminal, or 0 for no limit. Longer
	// texts continue below, in the same column.
	Width int
}

// JSON writes a value as indented JSON.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}

const (
	red    = "\033[31m"
	green  = "\033[32m"
	yellow = "\033[33m"
	bold   = "\033[1m"
	plain  = "\033[0m"
)

// colours matches the sequences of a Printer.
var colours = regexp.MustCompile("\033\\[(?:31|32|33|1|0)m")

// Escape returns what a Printer printed without any other control characters.
func Escape(text string) string {
	var b strings.Builder
	for {
		at := colours.FindStringIndex(text)
		if at == nil {
			return b.String() + message.Visible(text)
		}
		b.WriteString(message.Visible(text[:at[0]]) + text[at[0]:at[1]])
		text = text[at[1]:]
	}
}

func (p Printer) paint(color, s string) string {
	if !p.Color || color == "" || s == "" {
		return s
	}
	return color + s + plain
}

func (p Printer) state(s State) string { return p.paint(stateColor(s), string(s)) }

func stateColor(s State) string {
	switch s {
	case StateReady:
		return green
	case StateProgressing, StatePaused, StateDeleting:
		return yellow
	}
	return red
}

// cell is a part of a row.
type cell struct{ color, text string }

// row is a row of a table, with lines below it that do not affect the columns.
type row struct {
	cells []cell
	notes []string
}

// table writes rows with aligned columns.
func (p Printer) table(b *strings.Builder, indent string, rows []row) {
	var widths []int
	for _, r := range rows {
		for i, c := range r.cells {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, r := range rows {
		var line strings.Builder
		line.WriteString(indent)
		column := utf8.RuneCountInString(indent)
		for i, c := range r.cells {
			if i < len(r.cells)-1 {
				line.WriteString(p.paint(c.color, c.text) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
				column += widths[i] + 2
				continue
			}
			for n, part := range p.fold(c.text, column) {
				if n > 0 {
					line.WriteString("\n" + strings.Repeat(" ", column))
				}
				line.WriteString(p.paint(c.color, part))
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		for _, n := range r.notes {
			for _, part := range p.fold(n, len(indent)+2) {
				b.WriteString(indent + "  " + part + "\n")
			}
		}
	}
}

// fewest is how many characters a folded line has at least, on a narrow terminal.
const fewest = 20

// fold splits a text that begins in a column into lines. Words stay whole.
func (p Printer) fold(text string, column int) []string {
	width := max(p.Width-column, fewest)
	if p.Width == 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && utf8.RuneCountInString(line+" "+word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func cells(texts ...string) []cell {
	var all []cell
	for _, t := range texts {
		all = append(all, cell{text: t})
	}
	return all
}

// Report writes the table of objects.
func (p Printer) Report(w io.Writer, r Report, allNamespaces bool) error {
	var b strings.Builder
	if len(r.Objects) == 0 {
		b.WriteString("No objects.\n")
	} else {
		header := []string{"OBJECT", "STATE", "REASON", "PODS", "REVISION", "AGE"}
		if allNamespaces {
			header = append([]string{"NAMESPACE"}, header...)
		}
		rows := []row{{cells: cells(header...)}}
		for _, o := range r.Objects {
			texts := cells(o.Reference)
			if allNamespaces {
				texts = cells(o.Namespace, o.Reference)
			}
			line := row{cells: append(texts, cell{stateColor(o.State), string(o.State)}, cell{text: o.Reason}, cell{text: o.readiness()}, cell{text: cmp.Or(o.serving(), "-")}, cell{text: p.age(o.Created.Time)})}
			if o.State != StateReady {
				for _, n := range []string{oneLine(o.Cause), o.PodCause, o.Remedy} {
					if n != "" {
						line.notes = append(line.notes, n)
					}
				}
			}
			switch n := len(o.PendingChanges); n {
			case 0:
			case 1:
				line.notes = append(line.notes, "A change is pending until the next change of the spec.")
			default:
				line.notes = append(line.notes, fmt.Sprintf("%d changes are pending until the next change of the spec.", n))
			}
			rows = append(rows, line)
		}
		p.table(&b, "", rows)
	}
	p.notes(&b, r.Notes)
	return write(w, b.String())
}

func (p Printer) notes(b *strings.Builder, notes []string) {
	if len(notes) == 0 {
		return
	}
	b.WriteString("\n")
	for _, n := range notes {
		b.WriteString(p.paint(yellow, "Note: ") + n + "\n")
	}
}

// Object writes all that is known about an object: first its state and the
// cause, and then the details.
func (p Printer) Object(w io.Writer, o Object) error {
	var b strings.Builder
	title := p.state(o.State)
	if o.Reason != "" && o.Reason != string(o.State) {
		title += ", " + o.Reason
	}
	fmt.Fprintf(&b, "%s in namespace %s: %s\n", p.paint(bold, o.Reference), o.Namespace, title)
	var rows []row
	add := func(name, text string) {
		if text != "" {
			rows = append(rows, row{cells: cells(name, text)})
		}
	}
	add("Cause:", oneLine(o.Cause))
	add("", o.PodCause)
	add("Remedy:", o.Remedy)
	if o.ReadyReplicas != nil && o.Replicas != nil {
		add("Pods:", fmt.Sprintf("%d of %d ready", *o.ReadyReplicas, *o.Replicas))
	}
	if o.StartTimes != nil {
		add("Starts:", fmt.Sprintf("%d of pods, and %d restarts in the last one", *o.StartTimes, o.ContainerRestarts))
	}
	add("Revision:", o.serving())
	add("Canary:", p.canary(o.Canary))
	if o.Paused {
		add("Paused:", "children are not changed until spec.paused is false")
	}
	for i, c := range o.PendingChanges {
		add(first(i, "Pending:"), c)
	}
	if len(o.PendingChanges) > 0 {
		add("", "These changes take effect with the next change of the spec, or of rollout.restartedAt.")
	}
	for i, a := range o.LastActions {
		if i == 3 {
			add("", fmt.Sprintf("and %d earlier actions, which -o json prints", len(o.LastActions)-i))
			break
		}
		add(first(i, "Actions:"), p.action(a, o.Cause))
	}
	generation := fmt.Sprintf("%s, generation %d", p.age(o.Created.Time), o.Generation)
	if o.ObservedGeneration != o.Generation {
		generation += fmt.Sprintf(", of which the operator has processed %d", max(0, o.ObservedGeneration))
	}
	add("Age:", generation)
	p.table(&b, "  ", rows)
	p.conditions(&b, o)
	p.tree(&b, o)
	p.notes(&b, o.Notes)
	return write(w, b.String())
}

// action returns an action without its message if the cause quotes that, as it usually does of
// the latest one.
func (p Printer) action(a common.Action, cause string) string {
	text := fmt.Sprintf("%s ago: %s", p.age(a.Time.Time), a.Type)
	if a.Revision != 0 {
		text += fmt.Sprintf(" of revision %d", a.Revision)
	}
	text += ", " + a.Reason
	if m := oneLine(a.Message); m != "" && !strings.Contains(oneLine(cause), strings.TrimSuffix(m, ".")) {
		text += ": " + m
	}
	return text
}

// canary describes a canary, or returns "" if there is none.
func (p Printer) canary(c *common.CanaryStatus) string {
	if c == nil {
		return ""
	}
	s := fmt.Sprintf("revision %d, %d ready, %d%% of the traffic", c.Revision, c.ReadyPods, c.TrafficPercent)
	if c.Since != nil {
		s += fmt.Sprintf(", for %s", p.age(c.Since.Time))
	}
	if c.Until != nil {
		s += fmt.Sprintf(", until %s", c.Until.UTC().Format(time.TimeOnly)+" UTC")
	}
	if c.Verdict != "" {
		s += fmt.Sprintf(", %s", c.Verdict)
	}
	if c.Requests > 0 {
		s += fmt.Sprintf(" (%d of %d requests failed)", c.Errors, c.Requests)
	}
	return s
}

func first(i int, name string) string {
	if i == 0 {
		return name
	}
	return ""
}

func (p Printer) conditions(b *strings.Builder, o Object) {
	if len(o.Conditions) == 0 {
		return
	}
	b.WriteString("\nConditions\n")
	var rows []row
	for _, c := range o.Conditions {
		text := oneLine(c.Message)
		if text != "" && text == oneLine(o.Cause) {
			text = "(see the cause)"
		}
		color := ""
		if bad := c.Type == "Stalled" || c.Type == "Reconciling"; bad == (c.Status == "True") {
			color = yellow
		}
		rows = append(rows, row{cells: []cell{{text: c.Type}, {color, string(c.Status)}, {text: c.Reason}, {text: p.age(c.LastTransitionTime.Time)}, {text: text}}})
	}
	p.table(b, "  ", rows)
}

func (p Printer) tree(b *strings.Builder, o Object) {
	if len(o.Children) == 0 {
		return
	}
	b.WriteString("\nObjects\n")
	rows := []row{{cells: cells(o.Reference)}}
	var walk func(prefix string, children []Child)
	walk = func(prefix string, children []Child) {
		for i, c := range children {
			branch, below := "├─ ", "│  "
			if i == len(children)-1 {
				branch, below = "└─ ", "   "
			}
			name := c.Kind
			since := ""
			if c.Name != "" {
				name, since = c.Kind+"/"+c.Name, p.age(c.Created.Time)
			}
			color := ""
			if c.Problem {
				color = red
			}
			rows = append(rows, row{cells: []cell{{text: prefix + branch + name}, {text: since}, {color, c.State}}})
			walk(prefix+below, c.Children)
		}
	}
	walk("", o.Children)
	p.table(b, "  ", rows)
}

func (p Printer) age(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return duration.HumanDuration(p.Now.Sub(t))
}

func write(w io.Writer, s string) error {
	if _, err := io.WriteString(w, s); err != nil {
		return fmt.Errorf("writing: %w", err)
	}
	return nil
}
