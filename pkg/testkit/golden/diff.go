package golden

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The format of differences. patch reads only the part after the empty line:
//
//	# Differences from ../base/want.yaml. Unchanged documents are only listed.
//	= ConfigMap web
//	~ Deployment web
//	+ HorizontalPodAutoscaler web
//	- PodDisruptionBudget web
//
//	--- Deployment web
//	+++ Deployment web
//	@@ -7,3 +7,3 @@ spec
//	 spec:
//	-  replicas: 3
//	+  replicas: 2
//	   selector:
//	--- /dev/null
//	+++ HorizontalPodAutoscaler web
//	@@ -0,0 +1,9 @@
//	+apiVersion: autoscaling/v2
//	…
//
// The list has the order of the case's documents, with the deleted ones at its
// end, so that the exact bytes of the case can be reconstructed from the base and
// the difference.
const (
	contextLines = 2
	noDocument   = "/dev/null"
)

// document is one of several in a file.
type document struct {
	id    string // unique in its file
	kind  string // empty if the document is only a comment
	lines []string
}

// split returns the documents of a file.
func split(file []byte) ([]document, error) {
	if len(file) == 0 {
		return nil, nil
	}
	if !bytes.HasSuffix(file, []byte("\n")) {
		return nil, errors.New("the last line has no newline")
	}
	var docs []document
	seen := map[string]int{}
	add := func(lines []string) error {
		d, err := identify(lines)
		if err != nil {
			return err
		}
		if seen[d.id]++; seen[d.id] > 1 {
			d.id = fmt.Sprintf("%s (%d)", d.id, seen[d.id])
		}
		docs = append(docs, d)
		return nil
	}
	lines := strings.Split(strings.TrimSuffix(string(file), "\n"), "\n")
	for {
		end := slices.Index(lines, "---")
		if end < 0 {
			return docs, add(lines)
		}
		if err := add(lines[:end:end]); err != nil {
			return nil, err
		}
		lines = lines[end+1:]
	}
}

func identify(lines []string) (document, error) {
	var object metav1.PartialObjectMetadata
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "\n")), &object); err != nil {
		return document{}, fmt.Errorf("reading a document: %w", err)
	}
	if object.Kind != "" {
		return document{id: strings.TrimSpace(object.Kind + " " + object.Name), kind: object.Kind, lines: lines}, nil
	}
	id := "empty document"
	if len(lines) > 0 {
		id = strings.TrimSpace(strings.TrimPrefix(lines[0], "#"))
	}
	return document{id: id, lines: lines}, nil
}

func join(docs []document) []byte {
	var file bytes.Buffer
	for i, d := range docs {
		if i > 0 {
			file.WriteString("---\n")
		}
		for _, line := range d.lines {
			file.WriteString(line + "\n")
		}
	}
	return file.Bytes()
}

// difference returns what patch needs to reconstruct got from base.
func difference(baseName string, base, got []byte) ([]byte, error) {
	from, err := split(base)
	if err != nil {
		return nil, fmt.Errorf("the base: %w", err)
	}
	to, err := split(got)
	if err != nil {
		return nil, err
	}
	pairs := pair(from, to)
	var list, body strings.Builder
	fmt.Fprintf(&list, "# Differences from %s. Unchanged documents are only listed.\n", baseName)
	for i, d := range to {
		switch old := pairs[i]; {
		case old == nil:
			fmt.Fprintf(&list, "+ %s\n", d.id)
			fmt.Fprintf(&body, "--- %s\n+++ %s\n", noDocument, d.id)
			hunks(&body, nil, d.lines)
		case old.id == d.id && slices.Equal(old.lines, d.lines):
			fmt.Fprintf(&list, "= %s\n", d.id)
		default:
			fmt.Fprintf(&list, "~ %s\n", d.id)
			fmt.Fprintf(&body, "--- %s\n+++ %s\n", old.id, d.id)
			hunks(&body, old.lines, d.lines)
		}
	}
	for i := range from {
		if !slices.Contains(pairs, &from[i]) {
			fmt.Fprintf(&list, "- %s\n", from[i].id)
		}
	}
	if body.Len() > 0 {
		list.WriteString("\n")
	}
	diff := []byte(list.String() + body.String())
	if again, err := patch(base, diff); err != nil || !bytes.Equal(again, got) {
		return nil, errors.Join(errors.New("the difference does not give back what it was made from"), err)
	}
	return diff, nil
}

// pair returns, for each document of to, the document of from that it is compared
// with, or nil. Documents whose name depends on their content, such as revisions,
// are paired by kind.
func pair(from, to []document) []*document {
	pairs := make([]*document, len(to))
	match := func(same func(a, b document) bool) {
		for i, d := range to {
			for j := range from {
				if pairs[i] == nil && !slices.Contains(pairs, &from[j]) && same(from[j], d) {
					pairs[i] = &from[j]
				}
			}
		}
	}
	match(func(a, b document) bool { return a.id == b.id })
	match(func(a, b document) bool {
		return a.kind != "" && a.kind == b.kind && difflib.NewMatcherWithJunk(a.lines, b.lines, false, nil).Ratio() > 0.5
	})
	return pairs
}

// hunks writes the differences of two documents, each with the YAML path of the
// first line that differs.
func hunks(out *strings.Builder, from, to []string) {
	if len(from) == 0 || len(to) == 0 {
		fmt.Fprintf(out, "@@ -%s +%s @@\n", lineRange(0, len(from)), lineRange(0, len(to)))
		prefixed(out, "-", from)
		prefixed(out, "+", to)
		return
	}
	for _, group := range difflib.NewMatcherWithJunk(from, to, false, nil).GetGroupedOpCodes(contextLines) {
		first, last := group[0], group[len(group)-1]
		fmt.Fprintf(out, "@@ -%s +%s @@", lineRange(first.I1, last.I2), lineRange(first.J1, last.J2))
		changed := group[slices.IndexFunc(group, func(op difflib.OpCode) bool { return op.Tag != 'e' })]
		lines, at := to, changed.J1
		if changed.Tag == 'd' {
			lines, at = from, changed.I1
		}
		fmt.Fprintln(out, strings.TrimSuffix(" "+path(lines, at), " "))
		for _, op := range group {
			if op.Tag == 'e' {
				prefixed(out, " ", from[op.I1:op.I2])
				continue
			}
			prefixed(out, "-", from[op.I1:op.I2])
			prefixed(out, "+", to[op.J1:op.J2])
		}
	}
}

func prefixed(out *strings.Builder, prefix string, lines []string) {
	for _, line := range lines {
		out.WriteString(prefix + line + "\n")
	}
}

// lineRange formats a range of lines as in unified diffs: an empty one has the
// number of the line before it.
func lineRange(start, end int) string {
	if start == end {
		return fmt.Sprintf("%d,0", start)
	}
	return fmt.Sprintf("%d,%d", start+1, end-start)
}

// path returns the keys above a line of YAML, joined by dots.
func path(lines []string, at int) string {
	column := func(line string) (spaces int, item bool) {
		text := strings.TrimLeft(line, " ")
		return len(line) - len(text), strings.HasPrefix(text, "- ")
	}
	var keys []string
	indent, item := column(lines[at])
	for i := at - 1; i >= 0; i-- {
		spaces, isItem := column(lines[i])
		// The items of a list have the same indentation as the key above them.
		if spaces > indent || spaces == indent && (!item || isItem) {
			continue
		}
		if key, _, ok := strings.Cut(strings.TrimLeft(lines[i], " -"), ":"); ok && (!isItem || spaces+2 < indent || spaces+2 == indent && item) {
			keys = append(keys, key)
		}
		indent, item = spaces, isItem
	}
	slices.Reverse(keys)
	return strings.Join(keys, ".")
}

// patch reverses difference: it returns got.
func patch(base, diff []byte) ([]byte, error) {
	from, err := split(base)
	if err != nil {
		return nil, fmt.Errorf("the base: %w", err)
	}
	byID := map[string]document{}
	for _, d := range from {
		byID[d.id] = d
	}
	list, body, _ := strings.Cut(string(diff), "\n\n")
	rest := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	if body == "" {
		rest = nil
	}
	var to []document
	for line := range strings.Lines(list) {
		line = strings.TrimSuffix(line, "\n")
		sign, id, _ := strings.Cut(line, " ")
		if sign == "=" || sign == "-" {
			if _, ok := byID[id]; !ok {
				return nil, fmt.Errorf("the base has no %s", id)
			}
		}
		switch sign {
		case "#", "-":
		case "=":
			to = append(to, byID[id])
		case "~", "+":
			var d document
			if d, rest, err = patchDocument(byID, id, rest); err != nil {
				return nil, fmt.Errorf("%s: %w", id, err)
			}
			to = append(to, d)
		default:
			return nil, fmt.Errorf("%q is neither a comment nor a document", line)
		}
	}
	if len(rest) > 0 {
		return nil, fmt.Errorf("%q belongs to no document", rest[0])
	}
	return join(to), nil
}

// patchDocument applies the hunks at the beginning of rest, which are those of the
// document, and returns what follows them.
func patchDocument(base map[string]document, id string, rest []string) (document, []string, error) {
	to := document{id: id}
	if len(rest) < 2 || !strings.HasPrefix(rest[0], "--- ") || rest[1] != "+++ "+id {
		return to, nil, errors.New("its changes are missing")
	}
	was := strings.TrimPrefix(rest[0], "--- ")
	from, ok := base[was]
	if !ok && was != noDocument {
		return to, nil, fmt.Errorf("the base has no %s", was)
	}
	at := 0 // the lines of from that have been processed
	for rest = rest[2:]; len(rest) > 0 && strings.HasPrefix(rest[0], "@@ "); {
		header := rest[0]
		var start, removed, first, added int
		if _, err := fmt.Sscanf(header, "@@ -%d,%d +%d,%d @@", &start, &removed, &first, &added); err != nil {
			return to, nil, fmt.Errorf("%q: %w", header, err)
		}
		if removed > 0 {
			start--
		}
		if start < at || start+removed > len(from.lines) {
			return to, nil, fmt.Errorf("%q: the base has no such lines", header)
		}
		to.lines = append(to.lines, from.lines[at:start]...)
		at = start
		for rest = rest[1:]; removed > 0 || added > 0; rest = rest[1:] {
			if len(rest) == 0 || rest[0] == "" {
				return to, nil, fmt.Errorf("%q: lines are missing", header)
			}
			sign, line := rest[0][0], rest[0][1:]
			if sign != '+' {
				if at >= len(from.lines) || from.lines[at] != line {
					return to, nil, fmt.Errorf("%q: the base has no line %q there", header, line)
				}
				at, removed = at+1, removed-1
			}
			if sign != '-' {
				to.lines, added = append(to.lines, line), added-1
			}
			if removed < 0 || added < 0 {
				return to, nil, fmt.Errorf("%q: there are more lines", header)
			}
		}
	}
	to.lines = append(to.lines, from.lines[at:]...)
	return to, rest, nil
}
