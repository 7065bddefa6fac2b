package golden

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/textdiff"
)

// The format of differences:
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
// end, so that two cases with the same difference are the same.
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

// difference returns how the documents of got differ from those of base.
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
	return []byte(list.String() + body.String()), nil
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
		return a.kind != "" && a.kind == b.kind && textdiff.Similar(a.lines, b.lines)
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
	for _, h := range textdiff.Hunks(from, to, contextLines) {
		lines, at := to, h.To.Changed
		if h.OnlyDeletes {
			lines, at = from, h.From.Changed
		}
		fmt.Fprintf(out, "@@ -%s +%s @@", lineRange(h.From.Start, h.From.End), lineRange(h.To.Start, h.To.End))
		fmt.Fprintln(out, strings.TrimSuffix(" "+path(lines, at), " "))
		prefixed(out, "", h.Lines)
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
