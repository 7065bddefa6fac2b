// Package commands finds the commands that pages tell users to run. The end-to-end test
// TestDocumentation_CommandsRun runs them, except for those that are listed here.
package commands

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Command is a line of a page.
type Command struct{ Page, Line string }

// Exception is a command that the test does not run.
type Exception struct {
	// Line matches whole commands.
	Line string
	// Tests are the functions that run it, or what it is about.
	Tests []string
	// Why is the reason why no test runs it.
	Why string
}

// Exceptions are all of them.
var Exceptions = []Exception{
	{Line: `make (verify|test|test-e2e .*|campaign-\S+|site)`, Why: "it runs the tests, or is run by CI"},
	{Line: `make (demo|demo-down|build)`, Why: "CI builds both programs; the demo is tried by hand before a release"},
	{Line: `make (image-push|deploy|run|uninstall) .*`, Why: "it needs a container engine and a registry, or another cluster; TestInstall and TestChart_EqualsKustomize install the same manifests"},
	{Line: `sudo install bin/.*`, Why: "it changes the machine"},
	{Line: `helm upgrade --install platform-operator .*`, Tests: []string{"TestInstall"}},
	{Line: `helm (upgrade|install|uninstall|rollback)( --rollback-on-failure)?`, Tests: []string{"TestInstall", "TestCampaignOperations"}},
	{Line: `kubectl (apply|delete) -k config/samples`, Tests: []string{"TestDefaults_ChangeNoExistingObject"}},
	{Line: `hack/quickstart/quickstart.sh kind`, Tests: []string{"TestScript_InstallsIntoItsOwnCluster"}},
	{Line: `platform-operator (render|validate|preflight).*`, Tests: []string{"TestRender", "TestRender_RefusesWhatAdmissionRefuses", "TestExecute_ErrorsContainTheRemedy"}},
	{Line: `kubectl platform (undo|promote) .*`, Tests: []string{"TestChanges"}},
	{Line: `kubectl (wait|platform status|platform restart)`, Why: "it names a command, without its arguments"},
	{Line: `kubectl -n platform-operator-system delete secret .*`, Tests: []string{"TestOperator_RestoresTheCertificate"}},
	{Line: `kubectl -n platform-operator-system rollout restart .*`, Tests: []string{"TestCampaignOperations"}},
}

// Except returns the exception that a command is, or nil.
func Except(line string) *Exception {
	for i := range Exceptions {
		if regexp.MustCompile(`^(?:` + Exceptions[i].Line + `)$`).MatchString(line) {
			return &Exceptions[i]
		}
	}
	return nil
}

var (
	block   = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```")
	inline  = regexp.MustCompile("`((?:kubectl|helm|make|platform-operator|hack/\\S+) [^`]*)`")
	remark  = regexp.MustCompile(`\s+# .*`)
	newline = regexp.MustCompile(`\s*\\?\n\s*`)
)

// All returns the commands of the README, the tasks and the runbooks below a folder.
func All(root string) ([]Command, error) {
	pages, err := filepath.Glob(filepath.Join(root, "docs", "runbooks", "*.md"))
	if err != nil {
		return nil, fmt.Errorf("finding runbooks: %w", err)
	}
	var all []Command
	for _, path := range append(pages, filepath.Join(root, "README.md"), filepath.Join(root, "docs", "tasks.md")) {
		raw, err := os.ReadFile(path) //nolint:gosec // a page of this repository
		if err != nil {
			return nil, fmt.Errorf("reading a page: %w", err)
		}
		for _, line := range Of(string(raw)) {
			all = append(all, Command{filepath.Base(path), line})
		}
	}
	return all, nil
}

// Of returns the commands of a page: the lines of its scripts, those after a prompt, and those
// in its text.
func Of(page string) []string {
	var all []string
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(strings.ReplaceAll(m[2], "\\\n", " ")) {
			line, prompt := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			line = strings.Join(strings.Fields(remark.ReplaceAllString(line, "")), " ")
			if line != "" && (m[1] == "sh" || m[1] == "console" && prompt) {
				all = append(all, line)
			}
		}
	}
	for _, m := range inline.FindAllStringSubmatch(block.ReplaceAllString(page, ""), -1) {
		all = append(all, newline.ReplaceAllString(m[1], " "))
	}
	return all
}
