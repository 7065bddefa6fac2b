package images

import (
	"debug/elf"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// FromBinary returns an image that contains one program only and runs it as an
// unprivileged user.
func FromBinary(binary, entrypoint string) (v1.Image, error) {
	if entrypoint == "" {
		entrypoint = "/" + filepath.Base(binary)
	}
	if !path.IsAbs(entrypoint) || path.Clean(entrypoint) != entrypoint || entrypoint == "/" {
		return nil, fmt.Errorf("--entrypoint %q: must be an absolute path inside the image, like /manager", entrypoint)
	}
	if err := checkStatic(binary); err != nil {
		return nil, err
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, fmt.Errorf("reading the program: %w", err)
	}
	layer, err := filesLayer([]layerFile{{path: strings.TrimPrefix(entrypoint, "/"), mode: 0o755, content: content}})
	if err != nil {
		return nil, err
	}
	return assemble(v1.Config{
		Entrypoint: []string{entrypoint},
		User:       "65532:65532", // what distroless images call nonroot
		WorkingDir: "/",
		Env:        []string{"PATH=/"},
	}, layer)
}

// checkStatic refuses programs that could not start in an empty image.
func checkStatic(binary string) error {
	f, err := elf.Open(binary)
	if err != nil {
		return fmt.Errorf("%s is not a Linux program: %w", binary, err)
	}
	defer func() { _ = f.Close() }()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is dynamically linked and cannot run alone in an image; build it with CGO_ENABLED=0", binary)
		}
	}
	return nil
}
