package registry

import (
	"context"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
)

// A registry that is stopped and started again still has its images.
func TestStore_SurvivesRestart(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	im, err := random.Image(16, 1)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := Push(ctx, before.Transport(), "library/x:1", im); err != nil {
		t.Fatal(err)
	}

	copied := t.TempDir()
	if err := Seed(dir, copied); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{dir, copied} {
		after, err := Open(d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Pull(ctx, after.Transport(), "library/x:1")
		if err != nil {
			t.Fatal(err)
		}
		want, _ := im.Digest()
		if digest, err := got.Digest(); err != nil || digest != want {
			t.Errorf("digest %s, %v; want %s", digest, err, want)
		}
		pulled, err := got.Layers()
		if err != nil {
			t.Fatal(err)
		}
		if r, err := pulled[0].Compressed(); err != nil {
			t.Errorf("the layer cannot be read: %v", err)
		} else {
			_ = r.Close()
		}
	}
}
