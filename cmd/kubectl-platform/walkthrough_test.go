package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// transcript is a command with its output, which is that of a golden file, or its first lines.
var transcript = regexp.MustCompile("(?s)<!-- ((?:../platform-operator/)?testdata/[^ ]+)(?:, first ([0-9]+) lines)? -->\n```console\n(\\$ [^\n]*)\n(.*?)```\n")

// The outputs in the documentation are those of the golden files. The file sorts
// after those with the tests that update the golden files.
func TestDocumentation_ShowsTheGoldenFiles(t *testing.T) {
	page := filepath.Join("..", "..", "docs", "command-line.md")
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	want := transcript.ReplaceAllFunc(raw, func(block []byte) []byte {
		found++
		m := transcript.FindSubmatch(block)
		output, err := os.ReadFile(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		marker := string(m[1])
		if n, err := strconv.Atoi(string(m[2])); err == nil {
			lines := bytes.SplitAfterN(output, []byte("\n"), n+1)
			marker, output = fmt.Sprintf("%s, first %d lines", marker, n), append(bytes.Join(lines[:n], nil), "…\n"...)
		}
		return fmt.Appendf(nil, "<!-- %s -->\n```console\n%s\n%s```\n", marker, m[3], output)
	})
	if found < 5 {
		t.Errorf("only %d transcripts", found)
	}
	golden.File(t, page, want)
}
