// Package registry is the container registry of the cluster, with its content
// in a folder: it serves pulls and pushes, keeps what was pushed, and fills new
// registries with links to existing content.
package registry

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
)

// Store is a container registry with its content in a folder. The library
// keeps layers on disk but manifests only in memory; here they are written
// down too, and read back at the start, so that a killed registry loses
// nothing.
type Store struct {
	dir     string
	inner   http.Handler
	writing sync.Mutex
}

// savedManifest is one successful upload of a manifest.
type savedManifest struct {
	Path        string // /v2/<repository>/manifests/<tag or digest>
	ContentType string
	Body        []byte
}

// Open returns the registry in a folder, which it creates if it does not
// exist.
func Open(dir string) (*Store, error) {
	if err := safefile.MakeDirs(filepath.Join(dir, "blobs"), filepath.Join(dir, "manifests")); err != nil {
		return nil, err
	}
	s := &Store{dir: dir, inner: registry.New(
		registry.WithBlobHandler(registry.NewDiskBlobHandler(filepath.Join(dir, "blobs"))),
		registry.WithReferrersSupport(true),
		registry.Logger(log.New(io.Discard, "", 0)),
	)}
	return s, s.replay()
}

// replay uploads what was written down. Lists go last: they are refused before
// the manifests they list are there.
func (s *Store) replay() error {
	files, err := filepath.Glob(filepath.Join(s.dir, "manifests", "*.json"))
	if err != nil {
		return fmt.Errorf("listing manifests: %w", err)
	}
	var saved []savedManifest
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a manifest: %w", err)
		}
		var m savedManifest
		if err := json.Unmarshal(raw, &m); err != nil {
			return fmt.Errorf("reading manifest %s: %w", file, err)
		}
		saved = append(saved, m)
	}
	sort.SliceStable(saved, func(i, j int) bool {
		return !types.MediaType(saved[i].ContentType).IsIndex() && types.MediaType(saved[j].ContentType).IsIndex()
	})
	for _, m := range saved {
		req := httptest.NewRequest(http.MethodPut, m.Path, bytes.NewReader(m.Body))
		req.Header.Set("Content-Type", m.ContentType)
		recorder := httptest.NewRecorder()
		s.inner.ServeHTTP(recorder, req)
		if recorder.Code != http.StatusCreated {
			return fmt.Errorf("restoring %s: status %d: %s", m.Path, recorder.Code, recorder.Body)
		}
	}
	return nil
}

// ServeHTTP answers as the registry, and writes down what was uploaded.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
		s.inner.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	answer := httptest.NewRecorder()
	s.inner.ServeHTTP(answer, r)
	if answer.Code == http.StatusCreated {
		if err := s.save(savedManifest{r.URL.Path, r.Header.Get("Content-Type"), body}); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	maps.Copy(w.Header(), answer.Header())
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes())
}

func (s *Store) save(m savedManifest) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	raw, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("encoding a manifest: %w", err)
	}
	key := sha256.Sum256([]byte(m.Path))
	return safefile.Write(filepath.Join(s.dir, "manifests", hex.EncodeToString(key[:])+".json"), raw, 0o600)
}

// Transport lets a registry client talk to the store without a network.
func (s *Store) Transport() http.RoundTripper { return handlerTransport{s} }

type handlerTransport struct{ handler http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	// A server's request differs from a client's in small ways; going through
	// the URL's text yields a server's.
	in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
	in.Header = r.Header.Clone()
	in.ContentLength = r.ContentLength
	recorder := httptest.NewRecorder()
	t.handler.ServeHTTP(recorder, in)
	resp := recorder.Result()
	resp.Request = r
	return resp, nil
}
