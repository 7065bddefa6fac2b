package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"
)

func (r release) program(name, goos, arch string) string {
	return filepath.Join(r.programs, name+"-"+goos+"-"+arch)
}

func (r release) licences(folder string) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES"} {
		content, err := os.ReadFile(filepath.Join(r.root, name)) //nolint:gosec // G304: one of two constant names
		if err != nil {
			return nil, err
		}
		files = append(files, file{folder + name, 0o644, content})
	}
	return files, nil
}

//go:embed krew.yaml
var krew string

// archive is the plugin for one platform, as the krew manifest needs it.
type archive struct{ OS, Arch, Name, SHA256 string }

// writePlugin writes an archive of the plugin for each platform, and the manifest by
// which krew installs them.
func (r release) writePlugin() error {
	licences, err := r.licences("")
	if err != nil {
		return err
	}
	var archives []archive
	for _, a := range []archive{{OS: "darwin", Arch: "amd64"}, {OS: "darwin", Arch: "arm64"}, {OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}} {
		program, err := os.ReadFile(r.program("kubectl-platform", a.OS, a.Arch))
		if err != nil {
			return err
		}
		var content bytes.Buffer
		z := gzip.NewWriter(&content)
		if err := writeTar(z, r.created, append(slices.Clip(licences), file{"kubectl-platform", 0o755, program})); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		a.Name = fmt.Sprintf("kubectl-platform_%s_%s_%s.tar.gz", r.version, a.OS, a.Arch)
		sum := sha256.Sum256(content.Bytes())
		a.SHA256 = hex.EncodeToString(sum[:])
		if err := r.write(a.Name, content.Bytes()); err != nil {
			return err
		}
		archives = append(archives, a)
	}
	return r.writeTemplate("platform.yaml", krew, map[string]any{"Version": r.version, "Source": r.source, "Archives": archives})
}

//go:embed notes.tmpl
var notes string

// writeNotes writes the section of the changelog about this version, or about what is
// not released yet, with the commands that install it.
func (r release) writeNotes() error {
	content, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	changes, err := section(string(content), r.version)
	if err != nil {
		return err
	}
	changes = strings.ReplaceAll(changes, "](docs/", "]("+r.source+"/blob/v"+r.version+"/docs/")
	return r.writeTemplate("RELEASE_NOTES.md", notes, map[string]any{
		"Version": r.version, "Registry": r.registry, "Source": r.source, "Changes": changes,
	})
}

var heading = regexp.MustCompile(`(?m)^## .*\n`)

func section(changelog, version string) (string, error) {
	for _, wanted := range []string{version, "Unreleased"} {
		_, rest, found := strings.Cut("\n"+changelog, "\n## ["+wanted+"]")
		if !found {
			continue
		}
		_, rest, _ = strings.Cut(rest, "\n")
		if next := heading.FindStringIndex(rest); next != nil {
			rest = rest[:next[0]]
		}
		return strings.TrimSpace(rest), nil
	}
	return "", fmt.Errorf("CHANGELOG.md has neither the section [%s] nor [Unreleased]", version)
}

// writeSums writes the checksums of all files of dist, sorted, as sha256sum reads them.
func (r release) writeSums() error {
	var sums strings.Builder
	err := filepath.WalkDir(r.dist, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path) //nolint:gosec // G122: dist is written by the same user
		if err != nil {
			return err
		}
		name, err := filepath.Rel(r.dist, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return fmt.Errorf("computing checksums: %w", err)
	}
	return r.write("SHA256SUMS", []byte(sums.String()))
}

func (r release) writeTemplate(name, text string, data any) error {
	t, err := template.New(name).Parse(text)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return err
	}
	return r.write(name, b.Bytes())
}

func (r release) write(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.dist, name), content, 0o644) //nolint:gosec // G306: the files are published
}
