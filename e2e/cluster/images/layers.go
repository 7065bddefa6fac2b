package images

import (
	"archive/tar"
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// assemble makes an OCI image. No clock is read: the same content always has
// the same digest.
func assemble(config v1.Config, layers ...v1.Layer) (v1.Image, error) {
	im := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	im, err := mutate.AppendLayers(im, layers...)
	if err != nil {
		return nil, fmt.Errorf("adding layers: %w", err)
	}
	file, err := im.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image configuration: %w", err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", runtime.GOARCH, config
	return mutate.ConfigFile(im, file)
}

// layerFile is one file of a layer.
type layerFile struct {
	path     string
	mode     int64
	modified time.Time // zero: the epoch
	content  []byte
}

// tagTime is a modification time that depends on nothing but the tag. Web
// servers make a page's ETag from its time and size, and two tags' pages must
// not pass for the same page.
func tagTime(tag string) time.Time {
	h := fnv.New32a()
	h.Write([]byte(tag))
	return time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(h.Sum32()%(1<<24)) * time.Second)
}

func filesLayer(files []layerFile) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true}
	for _, f := range files {
		if err := writeParents(w, path.Dir(f.path), made); err != nil {
			return nil, err
		}
		modified := f.modified
		if modified.IsZero() {
			modified = time.Unix(0, 0)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.path, Mode: f.mode, Size: int64(len(f.content)), ModTime: modified}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("writing a layer: %w", err)
		}
	}
	return finishLayer(w, &b)
}

func writeParents(w *tar.Writer, dir string, made map[string]bool) error {
	if made[dir] {
		return nil
	}
	if err := writeParents(w, path.Dir(dir), made); err != nil {
		return err
	}
	made[dir] = true
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: time.Unix(0, 0)})
	if err != nil {
		return fmt.Errorf("writing a layer: %w", err)
	}
	return nil
}

// folderLayer packs a folder: sorted, everything root's, all times zero.
func folderLayer(root string) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(p); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		if header.Name, err = filepath.Rel(root, p); err != nil {
			return err
		}
		if d.IsDir() {
			header.Name += "/"
		}
		header.Uid, header.Gid, header.Uname, header.Gname = 0, 0, "", ""
		header.ModTime, header.AccessTime, header.ChangeTime = time.Unix(0, 0), time.Time{}, time.Time{}
		if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(p) //nolint:gosec // G122: a folder we just made, in a place only root can write
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("packing %s: %w", filepath.Base(root), err)
	}
	return finishLayer(w, &b)
}

func finishLayer(w *tar.Writer, b *bytes.Buffer) (v1.Layer, error) {
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("finishing a layer: %w", err)
	}
	content := b.Bytes()
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(content)), nil
	}, tarball.WithMediaType(types.OCILayer))
}
