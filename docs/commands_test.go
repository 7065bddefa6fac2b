package docs

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/pkg/testkit/commands"
)

// TestCommands_AreRunOrExcepted checks that each command of the README, the tasks and the
// runbooks is one that TestDocumentation_CommandsRun can run, or an exception with tests or a
// reason.
func TestCommands_AreRunOrExcepted(t *testing.T) {
	t.Parallel()
	all, err := commands.All("..")
	if err != nil || len(all) < 50 {
		t.Fatalf("%d commands, error %v", len(all), err)
	}
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	used := map[*commands.Exception]bool{}
	for _, c := range all {
		e := commands.Except(c.Line)
		used[e] = true
		if e == nil && !strings.HasPrefix(c.Line, "kubectl ") {
			t.Errorf("%s: no test runs %q: add it to pkg/testkit/commands, with a test or a reason", c.Page, c.Line)
		}
		for target := range strings.FieldsSeq(strings.TrimPrefix(c.Line, "make ")) {
			if strings.HasPrefix(c.Line, "make ") && !strings.Contains(target, "=") && !strings.Contains(string(makefile), "\n"+target+":") {
				t.Errorf("%s: the Makefile has no target %s", c.Page, target)
			}
		}
	}
	tests := testSources(t)
	for i := range commands.Exceptions {
		e := &commands.Exceptions[i]
		if !used[e] || (len(e.Tests) > 0) == (e.Why != "") {
			t.Errorf("%s is used by no page, or has tests and a reason, or neither", e.Line)
		}
		for _, test := range e.Tests {
			if !strings.Contains(tests, "\nfunc "+test+"(") {
				t.Errorf("%s: there is no %s", e.Line, test)
			}
		}
	}
}

func TestCommands_AreFound(t *testing.T) {
	t.Parallel()
	const page = "Run `kubectl get\nnodes`, not `kubectl`.\n\n```sh\n# a remark\na \\\n  b   # c\n```\n\n```console\n$ d\ne\n```\n\n```yaml\nf: g\n```\n"
	got := commands.Of(strings.Replace(page, "# a remark\n", "", 1))
	if diff := cmp.Diff([]string{"a b", "d", "kubectl get nodes"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for line, excepted := range map[string]bool{"make test": true, "make tests": false, "kubectl get nodes": false, "curl example.com": false} {
		if got := commands.Except(line) != nil; got != excepted {
			t.Errorf("%s: excepted %v", line, got)
		}
	}
}
