package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func TestHistory_ShowsRevisionsAndTheirDifferences(t *testing.T) {
	world(t, golden.Cases(t)["rolled-back"])
	for file, args := range map[string][]string{
		"history.txt":   {"history", "webserver/shop"},
		"history.json":  {"history", "webserver/shop", "-o", "json"},
		"diff.txt":      {"history", "webserver/shop", "--diff", "1", "3"},
		"diff-last.txt": {"history", "ws/shop", "--diff"},
	} {
		got, err := execute(t, args...)
		if err != nil {
			t.Fatal(err)
		}
		golden.File(t, filepath.Join("testdata", "rolled-back", file), []byte(got))
	}
	one, err := execute(t, "history", "webserver/shop", "--diff", "3")
	if err != nil {
		t.Fatal(err)
	}
	if two, err := execute(t, "history", "webserver/shop", "--diff", "2", "3"); err != nil || one != two {
		t.Errorf("--diff 3 is not --diff 2 3: %v\n%s\n%s", err, one, two)
	}
}

func TestHistory_ErrorsContainTheRemedy(t *testing.T) {
	for name, tc := range map[string]struct {
		of   string
		args []string
		want string
	}{
		"kind without revisions": {"container-keeps-exiting", []string{"immortal/worker"}, "objects of kind ImmortalContainer have no revisions"},
		"unknown object":         {"rolled-back", []string{"ws/shpo"}, "webserver/shpo does not exist"},
		"unknown revision":       {"rolled-back", []string{"ws/shop", "--diff", "1", "7"}, "revision 7 of webserver/shop is not kept: use one of 1, 2, 3"},
		"first revision":         {"rolled-back", []string{"ws/shop", "--diff", "1"}, "revision 1 of webserver/shop is the first one that is kept: name two revisions"},
		"no revisions":           {"ready", []string{"ws/shop", "--diff"}, "has 0 revisions, and a difference needs two"},
		"no number":              {"rolled-back", []string{"ws/shop", "--diff", "x"}, `"x" is not the number of a revision`},
		"numbers alone":          {"rolled-back", []string{"ws/shop", "1", "2"}, "need --diff"},
		"JSON diff":              {"rolled-back", []string{"ws/shop", "--diff", "-o", "json"}, "remove -o"},
	} {
		t.Run(name, func(t *testing.T) {
			world(t, golden.Cases(t)[tc.of])
			out, err := execute(t, append([]string{"history"}, tc.args...)...)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") || out != "" {
				t.Errorf("got %v, want %q\n%s", err, tc.want, out)
			}
		})
	}
	world(t, golden.Cases(t)["bad-pin"])
	if got, err := execute(t, "history", "ws/shop"); err != nil || !strings.Contains(got, "Revision 9 (spec.rollout.pinnedRevision) does not exist.") {
		t.Errorf("got %v\n%s", err, got)
	}
}
