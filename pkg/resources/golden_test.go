package resources

import (
	"path/filepath"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// asFile compares the text with a golden file.
func asFile(t *testing.T, name, got string) {
	t.Helper()
	golden.File(t, filepath.Join("testdata", name+".golden.yaml"), []byte(got))
}
