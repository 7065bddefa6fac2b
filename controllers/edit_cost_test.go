package controllers

import (
	"fmt"
	"strings"
	"testing"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers/webserver"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// contentBytes is the maximum size of spec.content.files of a WebServer.
const contentBytes = 256 << 10

// maxCopies is how many times the content of a WebServer may be copied when a
// user changes it, until nothing is left to do: each encoding and each decoding
// copies it. Most of them are of the snapshots of the earlier revisions, which each
// reconcile encodes unless nothing has changed. Requests are not included.
const maxCopies = 145

func TestReconcile_CopiesContentFewTimes(t *testing.T) {
	s := newEdited(t)
	s.edit() // fills what is kept between reconciles
	before := s.allocated
	const edits = 3
	for range edits {
		s.edit()
	}
	got := float64(s.allocated-before) / edits / contentBytes
	t.Logf("an edit of %d KiB allocates %.1f times as much", contentBytes>>10, got)
	if got > maxCopies {
		t.Errorf("an edit of %d KiB allocates %.1f times as much, want at most %d", contentBytes>>10, got, maxCopies)
	}
}

func BenchmarkReconcile_EditedContent(b *testing.B) {
	s := newEdited(b)
	s.edit()
	before := s.allocated
	for b.Loop() {
		s.edit()
	}
	b.ReportMetric(float64(s.allocated-before)/float64(b.N), "allocated-B/op")
}

// edited is a WebServer whose content has been changed until the history is
// full.
type edited struct {
	*scene
	edits     int
	allocated uint64
}

func newEdited(tb testing.TB) *edited {
	tb.Helper()
	e := &edited{scene: newScene(tb, webserver.Kind(config.Default()))}
	for range 15 {
		e.edit()
	}
	e.scene.allocated = &e.allocated
	return e
}

// edit changes the content, and reconciles until nothing is left to do.
func (e *edited) edit() {
	e.Helper()
	e.edits++
	w := &webserverv1.WebServer{}
	if err := e.api.Get(e.Context(), e.key, w); err != nil {
		e.Fatal(err)
	}
	text := fmt.Sprintf("%d<p>%s", e.edits, strings.Repeat("x", contentBytes-20))
	w.Spec.Content = &webserverv1.ContentSource{Files: map[string]webserverv1.FileText{"index.html": webserverv1.FileText(text)}}
	w.Generation++
	if err := e.api.Update(e.Context(), w); err != nil {
		e.Fatal(err)
	}
	e.rest()
}
