package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/licenseclassifier/v2/assets"
)

func text(t *testing.T, path string) string {
	t.Helper()
	content, err := assets.ReadLicenseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestRead_FindsFilesOfLinkedFolders(t *testing.T) {
	root := t.TempDir()
	for _, file := range []string{
		"LICENSE", "NOTICE.txt", "README.md", "license.go", "linked/a.go", "linked/forked/COPYING", "not-linked/LICENSE-MIT",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("content of "+file+"\r\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	package1 := goPackage{ImportPath: "example.com/m/linked/forked", Dir: filepath.Join(root, "linked", "forked")}
	package1.Module = &goModule{Path: "example.com/m", Version: "v1.0.0", Dir: root}
	package2 := package1
	package2.Dir = filepath.Join(root, "linked")
	modules, err := collect([]goPackage{package1, package2, package1})
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != 1 || modules[0].name != "example.com/m v1.0.0" {
		t.Fatalf("modules %v, want one", modules)
	}
	want := map[string]string{
		"LICENSE": "content of LICENSE", "NOTICE.txt": "content of NOTICE.txt", "linked/forked/COPYING": "content of linked/forked/COPYING",
	}
	if diff := cmp.Diff(want, modules[0].files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestClassify(t *testing.T) {
	apache, mit, gpl := text(t, "License/Apache-2.0/pristine.txt"), text(t, "License/MIT/pristine.txt"), text(t, "License/GPL-2.0/a.txt")
	apacheHeader := text(t, "Header/Apache-2.0/header.txt")
	known, err := assets.DefaultClassifier()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		files   map[string]string
		want    []string
		wantErr string
	}{
		"one":            {files: map[string]string{"LICENSE": mit}, want: []string{"MIT"}},
		"two files":      {files: map[string]string{"LICENSE": mit, "forked/LICENSE": apache}, want: []string{"Apache-2.0", "MIT"}},
		"two in a file":  {files: map[string]string{"LICENSE": mit + "\n\n" + apache}, want: []string{"Apache-2.0", "MIT"}},
		"notice as well": {files: map[string]string{"LICENSE": mit, "NOTICE": "by the author"}, want: []string{"MIT"}},
		"short form":     {files: map[string]string{"LICENSE": mit + "\n\n" + apacheHeader}, want: []string{"Apache-2.0", "MIT"}},
		"refused":        {files: map[string]string{"LICENSE": gpl}, wantErr: "m v1: LICENSE is GPL-2.0; allowed are Apache-2.0, "},
		"refused below":  {files: map[string]string{"LICENSE": mit, "forked/COPYING": gpl}, wantErr: "m v1: forked/COPYING is GPL-2.0; "},
		"unknown":        {files: map[string]string{"LICENSE": "Do with it what you like."}, wantErr: "m v1: LICENSE is not a known licence"},
		"none":           {files: map[string]string{"NOTICE": "by the author"}, wantErr: "m v1: has no licence file"},
	} {
		t.Run(name, func(t *testing.T) {
			m := &module{name: "m v1", files: tc.files}
			err := classify(known, []*module{m})
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, m.licences); diff != "" {
				t.Errorf("licences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRender_WritesEachTextOnce(t *testing.T) {
	got := render([]*module{
		{name: "a v1", files: map[string]string{"LICENSE": "same"}, licences: []string{"MIT"}},
		{name: "b v2", files: map[string]string{"LICENSE": "same", "NOTICE": "by b"}, licences: []string{"MIT"}},
	})
	line := strings.Repeat("=", 80)
	want := "a v1: MIT\nb v2: MIT\n\n" +
		line + "\na v1: LICENSE\nb v2: LICENSE\n\nsame\n\n" +
		line + "\nb v2: NOTICE\n\nby b\n"
	if _, list, _ := strings.Cut(got, "\n\n"); list != want {
		t.Errorf("got:\n%s\nwant:\n%s", list, want)
	}
}

func TestCollect_ListsTheStandardLibrary(t *testing.T) {
	packages, err := linked(".", "strings", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	modules, err := collect(packages)
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) != 1 || !slices.Contains(slices.Collect(maps.Keys(modules[0].files)), "LICENSE") {
		t.Errorf("got %+v, want the standard library with its LICENSE", modules)
	}
}
