package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
)

//go:embed pause/main.go
var pauseSource []byte

// buildPause compiles the pause program into a folder.
func buildPause(ctx context.Context, cacheDir, into string) error {
	src, err := os.MkdirTemp(cacheDir, "build-*")
	if err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(src) }()
	for name, content := range map[string][]byte{"main.go": pauseSource, "go.mod": []byte("module pause\n\ngo 1.26.0\n")} {
		if err := os.WriteFile(filepath.Join(src, name), content, 0o644); err != nil {
			return fmt.Errorf("writing pause's source: %w", err)
		}
	}
	_, err = run(ctx, runOptions{env: goEnv(false)}, "go", "build", "-C", src, "-trimpath", "-ldflags", "-s -w",
		"-o", filepath.Join(into, "pause"), ".")
	return err
}
