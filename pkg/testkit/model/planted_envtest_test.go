//go:build envtest

package model

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestPlanted_AreFound builds the operator with one planted defect at a time, and
// runs an undirected campaign on each until its first violation. MODEL_PLANTED is
// the time limit for each; MODEL_PLANTED_ONLY is a part of the names of those to
// bring back, or several, separated by commas; MODEL_PLANTED_TABLE is a file that
// each result is written to, where it replaces the earlier one of the same defect.
func TestPlanted_AreFound(t *testing.T) {
	if os.Getenv("MODEL_PLANTED") == "" {
		t.Skip("MODEL_PLANTED is not set; make campaign-planted sets it")
	}
	limit := duration(t, "MODEL_PLANTED", 0)
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := LoadPlanted("testdata/planted")
	if err != nil {
		t.Fatal(err)
	}
	only := strings.Split(os.Getenv("MODEL_PLANTED_ONLY"), ",")
	for _, p := range all {
		if !slices.ContainsFunc(only, func(part string) bool { return strings.Contains(p.Name, part) }) {
			continue
		}
		row, err := hunt(t, p, root, limit)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		t.Log(row)
		if path := os.Getenv("MODEL_PLANTED_TABLE"); path != "" && row != "" {
			if err := writeRow(path, all, p, row); err != nil {
				t.Fatal(err)
			}
		}
	}
}

var firstViolation = regexp.MustCompile(`VIOLATION of "([^"]*)" after (\S+) and (\d+) operations \(seed \d+; it repeats\)`)

// ranOperations matches the summary, and not a line of progress.
var ranOperations = regexp.MustCompile(`\d+ chains, (\d+) operations, \d+ refused`)

// runsWithout is how often a chain runs without the planted defect: a violation that
// depends on timing does not occur each time.
const runsWithout = 3

func hunt(t *testing.T, p Planted, root string, limit time.Duration) (string, error) {
	t.Helper()
	changed, err := p.Apply(root)
	if err != nil {
		return "", err
	}
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{map[string]string{}}
	for path, text := range changed {
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[path] = copied
	}
	raw, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "model.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-tags=envtest", "-overlay="+list, "-c", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building: %w\n%s", err, out)
	}
	// A violation that also occurs without the planted defect has another cause:
	// then the next seed is tried.
	began, operations := time.Now(), 0
	for seed := uint64(1); time.Since(began) < limit; seed += 1000 {
		found, err := huntOnce(t, binary, seed, limit-time.Since(began))
		if err != nil {
			return "", err
		}
		operations += found.operations
		if found.chain == "" {
			continue // nothing, or a violation that does not repeat, which may have another cause
		}
		c, err := ParseChain(found.chain)
		if err != nil {
			return "", err
		}
		other := false
		for range runsWithout {
			without, err := Run(t.Context(), env, c)
			if err != nil {
				return "", err
			}
			other = other || len(without.Violations) > 0
		}
		if other {
			t.Logf("%s: this is not what was planted: %s: %s", p.Name, found.promise, found.chain)
			continue
		}
		return fmt.Sprintf("| %s | `%s` | %d | %.0f | `%s` |\n", p.Defect, found.promise, operations, time.Since(began).Seconds(), found.chain), nil
	}
	return fmt.Sprintf("| %s | **not found** | %d | %.0f | |\n", p.Defect, operations, time.Since(began).Seconds()), fmt.Errorf("not found in %s", limit)
}

type hunted struct {
	promise, chain string
	operations     int
}

func huntOnce(t *testing.T, binary string, seed uint64, limit time.Duration) (hunted, error) {
	t.Helper()
	run := exec.CommandContext(t.Context(), binary, "-test.run=^TestCampaign$", "-test.timeout=0")
	run.Env = append(os.Environ(), fmt.Sprintf("MODEL_SEED=%d", seed), "MODEL_TIME="+limit.String(), "MODEL_UNTIL=violation", "MODEL_PLANTED=")
	if os.Getenv("MODEL_SHRINK") == "" {
		run.Env = append(run.Env, "MODEL_SHRINK=1m")
	}
	out, _ := run.CombinedOutput() // it fails if it has found something
	found := firstViolation.FindSubmatch(out)
	if found == nil {
		if ran := ranOperations.FindSubmatch(out); ran != nil {
			n, err := strconv.Atoi(string(ran[1]))
			return hunted{operations: n}, err
		}
		return hunted{}, nil
	}
	operations, err := strconv.Atoi(string(found[3]))
	if err != nil {
		return hunted{}, err
	}
	_, rest, _ := strings.Cut(string(out), "MODEL_CHAIN='")
	chain, _, _ := strings.Cut(rest, "'")
	return hunted{string(found[1]), chain, operations}, nil
}

// writeRow writes the result of one defect into the table between two marks of a
// file. The results of all other defects stay.
func writeRow(path string, all []Planted, p Planted, row string) error {
	const begin, end = "<!-- planted: begin -->\n", "<!-- planted: end -->"
	const head = "| planted defect | broken promise | operations | seconds | shortest chain |\n|---|---|---|---|---|\n"
	raw, err := os.ReadFile(path) //nolint:gosec // a path in the Makefile
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(raw), begin)
	table, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks for the table", path)
	}
	rows := map[string]string{}
	for line := range strings.Lines(table) {
		for _, other := range all {
			if strings.HasPrefix(line, "| "+other.Defect+" |") {
				rows[other.Name] = line
			}
		}
	}
	rows[p.Name] = row
	var sorted strings.Builder
	for _, other := range all {
		sorted.WriteString(rows[other.Name])
	}
	return os.WriteFile(path, []byte(before+begin+head+sorted.String()+end+after), 0o600) //nolint:gosec // as above
}
