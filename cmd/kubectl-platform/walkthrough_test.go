package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// transcript is a command with its output, which is that of a golden file.
var transcript = regexp.MustCompile("(?s)<!-- ((?:../platform-operator/)?testdata/[^ ]+) -->\n```console\n(\\$ [^\n]*)\n(.*?)```\n")

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
		return fmt.Appendf(nil, "<!-- %s -->\n```console\n%s\n%s```\n", m[1], m[2], output)
	})
	if found < 5 {
		t.Errorf("only %d transcripts", found)
	}
	golden.File(t, page, want)
}
