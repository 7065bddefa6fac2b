package model

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Planted is a defect that the operator once had, as changes of its sources that
// reintroduce it.
type Planted struct {
	// Name is the name of its file.
	Name string `json:"-"`
	// Defect describes the effect on a user.
	Defect string `json:"defect"`
	// Sources are the changes.
	Sources []Substitution `json:"sources"`
}

// Substitution replaces a text, which must occur exactly once in the file.
type Substitution struct {
	File string `json:"file"`
	Old  string `json:"old"`
	New  string `json:"new"`
}

// LoadPlanted reads all planted defects in a folder.
func LoadPlanted(dir string) ([]Planted, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the planted defects: %w", err)
	}
	slices.Sort(files)
	var all []Planted
	for _, f := range files {
		raw, err := os.ReadFile(f) //nolint:gosec // test data
		if err != nil {
			return nil, fmt.Errorf("reading a planted defect: %w", err)
		}
		p := Planted{Name: strings.TrimSuffix(filepath.Base(f), ".yaml")}
		if err := yaml.UnmarshalStrict(raw, &p); err != nil {
			return nil, fmt.Errorf("reading %s: %w", f, err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Apply returns the changed files of the repository at root, by path. It fails if a
// text does not occur exactly once: then the code has changed, and the defect has
// to be planted in another way.
func (p Planted) Apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, s := range p.Sources {
		path := filepath.Join(root, s.File)
		text, ok := changed[path]
		if !ok {
			raw, err := os.ReadFile(path) //nolint:gosec // a source of this repository
			if err != nil {
				return nil, fmt.Errorf("planting %s: %w", p.Name, err)
			}
			text = string(raw)
		}
		if n := strings.Count(text, s.Old); n != 1 {
			return nil, fmt.Errorf("planting %s: %s holds this %d times, want once; change testdata/planted/%s.yaml so that it brings the defect back:\n%s", p.Name, s.File, n, p.Name, s.Old)
		}
		changed[path] = strings.Replace(text, s.Old, s.New, 1)
	}
	return changed, nil
}
