package references

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretDigest identifies the content of a Secret.
type SecretDigest struct {
	Digest string
	// Err says why the Secret could not be read. Whether it exists is then unknown.
	Err error
}

// Secrets returns, by name, a digest of what is in each of these Secrets of
// owner's namespace. One that is not there has none. A failed read does not
// affect the others.
//
// A Secret is read when its version is new, once for all objects that refer to
// it; what is kept of it is the digest. After a restart each is read once more,
// for the digest is all that the pods say about it.
func (r *Reader) Secrets(ctx context.Context, owner client.Object, names []string) map[string]SecretDigest {
	r.secrets.keep(owner, names)
	found := map[string]SecretDigest{}
	for _, name := range names {
		d, err := r.secret(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name})
		if err != nil {
			err = fmt.Errorf("reading Secret %q: %w", name, err)
		}
		if d != "" || err != nil {
			found[name] = SecretDigest{Digest: d, Err: err}
		}
	}
	return found
}

func (r *Reader) secret(ctx context.Context, key client.ObjectKey) (string, error) {
	standing := &metav1.PartialObjectMetadata{}
	standing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
	if err := r.metadata.Get(ctx, key, standing); err != nil {
		return "", client.IgnoreNotFound(err)
	}
	at := versionOf(standing)
	known := r.secrets.of(key)
	known.mu.Lock() // whoever else wants it waits, and finds it
	defer known.mu.Unlock()
	if known.version.notBefore(at) {
		return known.digest, nil
	}
	live := &corev1.Secret{}
	if err := r.live.Get(ctx, key, live); err != nil {
		return "", client.IgnoreNotFound(err) // the cache will hear of it
	}
	known.version, known.digest = versionOf(live), digest(live)
	for _, content := range live.Data {
		clear(content)
	}
	return known.digest, nil
}

// digest tells contents of a Secret apart. Whoever may read pods sees it, and
// many Secrets are words that can be guessed; so its key is the Secret's UID,
// which nobody knows who may not read the Secret.
func digest(s *corev1.Secret) string {
	h := hmac.New(sha256.New, []byte(s.UID))
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		fmt.Fprintf(h, "%d %s %d ", len(k), k, len(s.Data[k])) // a hash never fails to write
		h.Write(s.Data[k])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// secrets is what is known of the Secrets that objects refer to.
type secrets struct {
	mu    sync.Mutex
	known map[client.ObjectKey]*secret
	users map[types.UID][]client.ObjectKey
}

// secret is what is known of one. Its version is empty before it was read.
type secret struct {
	users int // under the lock of all

	mu      sync.Mutex
	version version
	digest  string
}

// of returns what is known of a Secret that somebody refers to.
func (s *secrets) of(key client.ObjectKey) *secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[key]; k != nil {
		return k
	}
	return &secret{} // whoever referred to it has just gone
}

// keep notes what an object refers to, and drops what nobody does any longer.
func (s *secrets) keep(owner client.Object, names []string) {
	var keys []client.ObjectKey
	for _, name := range names {
		keys = append(keys, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name})
	}
	s.set(owner.GetUID(), keys)
}

func (s *secrets) set(owner types.UID, keys []client.ObjectKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.known == nil {
		s.known, s.users = map[client.ObjectKey]*secret{}, map[types.UID][]client.ObjectKey{}
	}
	for _, key := range keys {
		if s.known[key] == nil {
			s.known[key] = &secret{}
		}
		s.known[key].users++
	}
	for _, key := range s.users[owner] {
		if s.known[key].users--; s.known[key].users == 0 {
			delete(s.known, key)
		}
	}
	if s.users[owner] = keys; len(keys) == 0 {
		delete(s.users, owner)
	}
}
