package benchmark

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWriteSection_ReplacesOnlyTheMarkedText(t *testing.T) {
	for name, tc := range map[string]struct{ before, want string }{
		"no file":      {"", "# Title\n\nBEGIN\n\nnew\n\nEND\n"},
		"no section":   {"# A\n", "# A\n\nBEGIN\n\nnew\n\nEND\n"},
		"with section": {"# A\nkept\nBEGIN\nold\nEND\nkept too\n", "# A\nkept\nBEGIN\n\nnew\n\nEND\nkept too\n"},
		"twice":        {"# A\n\nBEGIN\n\nnew\n\nEND\n", "# A\n\nBEGIN\n\nnew\n\nEND\n"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "page.md")
			if tc.before != "" {
				if err := os.WriteFile(file, []byte(tc.before), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := WriteSection(file, "# Title", "BEGIN", "END", "new\n"); err != nil {
				t.Fatal(err)
			}
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteSection_RefusesASectionWithoutEnd(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(file, []byte("BEGIN old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := WriteSection(file, "# Title", "BEGIN", "END", "new"); err == nil {
		t.Error("a file without an end was written")
	}
}
