package configsource

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// keepShared is how long the content of a ConfigMap is kept after it was last
	// needed. The objects that refer to a ConfigMap are reconciled one after the
	// other when it changes.
	keepShared = time.Minute
	// maxShared limits the bytes of content that are kept. The content of one
	// ConfigMap has at most 1 MiB.
	maxShared = 4 << 20
)

// shared holds content that was just read from the API server, so that all
// objects that refer to a ConfigMap need one read for each of its versions.
type shared struct {
	mu    sync.Mutex
	reads map[client.ObjectKey]*sharedRead
	size  int
}

// sharedRead is the latest version of one ConfigMap that was read.
type sharedRead struct {
	timer *time.Timer // guarded by shared.mu
	size  int         // guarded by shared.mu

	mu   sync.Mutex // held during a read: concurrent callers wait for its result
	read *corev1.ConfigMap
}

// get returns a ConfigMap in the given version or a later one. The caller must
// not modify it.
func (s *shared) get(ctx context.Context, live client.Reader, key client.ObjectKey, at version) (*corev1.ConfigMap, error) {
	e := s.of(key)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.read != nil && versionOf(e.read).notBefore(at) {
		return e.read, nil
	}
	read := &corev1.ConfigMap{}
	if err := live.Get(ctx, key, read); err != nil {
		return nil, err
	}
	e.read = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{UID: read.UID, ResourceVersion: read.ResourceVersion},
		Data:       read.Data, BinaryData: read.BinaryData,
	}
	s.resize(key, e, contentSize(read))
	return e.read, nil
}

// of returns the entry of a ConfigMap, and keeps it for keepShared.
func (s *shared) of(key client.ObjectKey) *sharedRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.reads[key]; e != nil {
		e.timer.Reset(keepShared)
		return e
	}
	if s.reads == nil {
		s.reads = map[client.ObjectKey]*sharedRead{}
	}
	e := &sharedRead{}
	e.timer = time.AfterFunc(keepShared, func() { s.drop(key, e) })
	s.reads[key] = e
	return e
}

// resize records the size of an entry, and drops others while there is too much
// content. A dropped entry costs a read if it is needed again.
func (s *shared) resize(key client.ObjectKey, e *sharedRead, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[key] != e {
		return // dropped meanwhile
	}
	s.size += size - e.size
	e.size = size
	for k, other := range s.reads {
		if s.size <= maxShared {
			return
		}
		if k != key {
			s.remove(k, other)
		}
	}
}

func (s *shared) drop(key client.ObjectKey, e *sharedRead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reads[key] == e {
		s.remove(key, e)
	}
}

// remove removes an entry. The caller holds mu.
func (s *shared) remove(key client.ObjectKey, e *sharedRead) {
	e.timer.Stop()
	s.size -= e.size
	delete(s.reads, key)
}
