package images

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
)

// compile compiles a program of one file into a folder.
func compile(ctx context.Context, work, into, program string, source []byte) error {
	src, err := os.MkdirTemp(work, "build-*")
	if err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(src) }()
	for name, content := range map[string][]byte{"main.go": source, "go.mod": []byte("module " + program + "\n\ngo 1.26.0\n")} {
		if err := os.WriteFile(filepath.Join(src, name), content, 0o644); err != nil {
			return fmt.Errorf("writing the source of %s: %w", program, err)
		}
	}
	_, err = host.Run(ctx, host.Options{Env: build.GoEnv(false)}, "go", "build", "-C", src, "-trimpath", build.NoDWARF, "-ldflags", "-s -w",
		"-o", filepath.Join(into, program), ".")
	return err
}
