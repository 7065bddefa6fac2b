package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// moduleSource finds a nested module (hyperkube, tools, traefik) of the checkout this
// binary was built from, or is started in.
//
// It is looked for on disk and not embedded: go:embed cannot reach into a
// nested module, and it has to be a real module, with a go.mod of that name,
// for the usual tools (go mod tidy, update bots, vulnerability scanners) to
// see what it pins. Once built, the sources are not needed again.
func moduleSource(module string) (string, error) {
	var starts []string
	if exe, err := os.Executable(); err == nil {
		if exe, err = filepath.EvalSymlinks(exe); err == nil {
			starts = append(starts, filepath.Dir(exe))
		}
	}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	for _, dir := range starts {
		for {
			for _, sub := range []string{module, "e2e/cluster/" + module} {
				candidate := filepath.Join(dir, sub)
				mod, err := os.ReadFile(filepath.Join(candidate, "go.mod"))
				if err == nil && strings.Contains(string(mod), "/e2e/cluster/"+module+"\n") {
					return candidate, nil
				}
			}
			parent := filepath.Dir(dir)
			if parent == dir {
				break
			}
			dir = parent
		}
	}
	return "", fmt.Errorf("cannot find e2e/cluster/%s above %s; run from inside the checkout", module, strings.Join(starts, " or "))
}

// hashFiles is a fingerprint of some files of a folder, and of whole folders
// below it.
func hashFiles(dir string, names ...string) (string, error) {
	h := sha256.New()
	for _, name := range names {
		err := fs.WalkDir(os.DirFS(dir), name, func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return err
			}
			fmt.Fprintf(h, "%s %d\n", file, len(content))
			h.Write(content)
			return nil
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
