// Command licenses writes the licences of all modules that are linked into a
// program, and fails if one of them is not in the list of allowed licences.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed lists, by their SPDX names, the licences that are compatible with linking
// into a program under Apache-2.0.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

// architectures are those that the operator is built for, because some modules are
// linked on one of them only.
var architectures = []string{"amd64", "arm64"}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: licenses MODULE-FOLDER PACKAGE FILE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(folder, pkg, file string) error {
	var packages []goPackage
	for _, arch := range architectures {
		listed, err := linked(folder, pkg, arch)
		if err != nil {
			return err
		}
		packages = append(packages, listed...)
	}
	modules, err := collect(packages)
	if err != nil {
		return err
	}
	known, err := assets.DefaultClassifier()
	if err != nil {
		return fmt.Errorf("loading the known licences: %w", err)
	}
	if err := classify(known, modules); err != nil {
		return err
	}
	text := render(modules)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // G306: the file is published
		return fmt.Errorf("writing the licences: %w", err)
	}
	return nil
}

// goPackage contains the fields of the output of go list that are used.
type goPackage struct {
	ImportPath, Dir string

	Standard bool
	// Root is GOROOT for the standard library, except for its vendored packages.
	Root   string
	Module *goModule
}

type goModule struct {
	Path, Version, Dir string
	Main               bool
	Replace            *struct{ Path, Version string }
}

// linked lists the packages that are linked into the program on Linux.
func linked(folder, pkg, arch string) ([]goPackage, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Root,Module", pkg) //nolint:gosec // G204: the package is an argument of the caller
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the packages linked into %s for %s: %w", pkg, arch, err)
	}
	var packages []goPackage
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return packages, nil
		case err != nil:
			return nil, fmt.Errorf("reading the output of go list: %w", err)
		}
		packages = append(packages, p)
	}
}

// module is a linked module with its licence files.
type module struct {
	name     string
	files    map[string]string // path below the module's folder to content
	licences []string
}

// collect finds the licence files of each module: those in the folders of linked
// packages, and those in their parent folders.
func collect(packages []goPackage) ([]*module, error) {
	byName := map[string]*module{}
	seen := map[string]bool{}
	for _, p := range packages {
		// The modules that the standard library vendors are under Go's licence.
		if p.Standard && strings.HasPrefix(p.ImportPath, "vendor/") {
			continue
		}
		// The version of Go depends on the build environment, so it is omitted.
		name, root, dir := "Go's standard library", p.Root, p.Root
		if !p.Standard {
			switch m := p.Module; {
			case m == nil:
				return nil, fmt.Errorf("%s belongs to no module", p.Dir)
			case m.Main:
				continue
			case m.Replace != nil:
				return nil, fmt.Errorf("%s is replaced: its licence is not what its name says; release without replace", m.Path)
			default:
				name, root, dir = m.Path+" "+m.Version, m.Dir, p.Dir
			}
		}
		m := byName[name]
		if m == nil {
			m = &module{name: name, files: map[string]string{}}
			byName[name] = m
		}
		for ; !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			if err := m.read(root, dir); err != nil {
				return nil, err
			}
			if dir == root {
				break
			}
		}
	}
	return slices.SortedFunc(maps.Values(byName), func(a, b *module) int { return strings.Compare(a.name, b.name) }), nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)([-.].*)?$`)

// isNotice reports whether a file is a NOTICE, which Apache-2.0 requires to be
// distributed and which is not a licence.
func isNotice(path string) bool {
	return strings.HasPrefix(strings.ToLower(filepath.Base(path)), "notice")
}

func (m *module) read(root, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("looking for the licence of %s: %w", m.name, err)
	}
	for _, e := range entries {
		if e.IsDir() || filepath.Ext(e.Name()) == ".go" || !licenceFile.MatchString(e.Name()) {
			continue
		}
		content, err := fs.ReadFile(os.DirFS(dir), e.Name())
		if err != nil {
			return fmt.Errorf("reading the licence of %s: %w", m.name, err)
		}
		path, err := filepath.Rel(root, filepath.Join(dir, e.Name()))
		if err != nil {
			return fmt.Errorf("reading the licence of %s: %w", m.name, err)
		}
		text := strings.ReplaceAll(string(content), "\r\n", "\n")
		m.files[path] = strings.Trim(text, "\n")
	}
	return nil
}

// classify identifies the licences of each module. It returns all errors at once.
func classify(known *classifier.Classifier, modules []*module) error {
	named := map[string][]string{} // by text, because most modules have the same texts
	var wrong []error
	for _, m := range modules {
		found := map[string]bool{}
		for _, path := range slices.Sorted(maps.Keys(m.files)) {
			if isNotice(path) {
				continue
			}
			text := m.files[path]
			names, ok := named[text]
			if !ok {
				names = licences(known.Match([]byte(text)))
				named[text] = names
			}
			if len(names) == 0 {
				wrong = append(wrong, fmt.Errorf("%s: %s is not a known licence: review it", m.name, path))
			}
			for _, name := range names {
				found[name] = true
				if !slices.Contains(allowed, name) {
					wrong = append(wrong, fmt.Errorf("%s: %s is %s; allowed are %s", m.name, path, name, strings.Join(allowed, ", ")))
				}
			}
		}
		if m.licences = slices.Sorted(maps.Keys(found)); len(m.licences) == 0 && len(wrong) == 0 {
			wrong = append(wrong, fmt.Errorf("%s: has no licence file, so its use is not permitted", m.name))
		}
	}
	return errors.Join(wrong...)
}

func licences(results classifier.Results) []string {
	names := map[string]bool{}
	for _, m := range results.Matches {
		// A header is the short form: "licensed under …".
		if m.MatchType == "License" || m.MatchType == "Header" {
			names[m.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// render writes the list, followed by each text once.
func render(modules []*module) string {
	var b strings.Builder
	b.WriteString("The operator contains the modules below, for Linux on " + strings.Join(architectures, " and ") + ".\n" +
		"Their licences and notices follow. Written by make generate.\n\n")
	users := map[string][]string{}
	var texts []string
	for _, m := range modules {
		fmt.Fprintf(&b, "%s: %s\n", m.name, strings.Join(m.licences, ", "))
		for _, path := range slices.Sorted(maps.Keys(m.files)) {
			text := m.files[path]
			if users[text] == nil {
				texts = append(texts, text)
			}
			users[text] = append(users[text], m.name+": "+path)
		}
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 80), strings.Join(users[text], "\n"), text)
	}
	return b.String()
}
