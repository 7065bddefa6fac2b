package configsource

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// SecretDigest identifies the content of a Secret.
type SecretDigest struct {
	Digest string
	// Pair is why the certificate tls.crt and the key tls.key of the Secret cannot be used
	// together, or "" if they can, or if the Secret has neither.
	Pair string
	// Expires is when the certificate expires, if there is one that can be used.
	Expires time.Time
	// Err is the error of reading it. If it is set, it is unknown whether the
	// Secret exists.
	Err error
}

// Secrets returns a digest of the content of each of these Secrets in owner's
// namespace, by name. A Secret that does not exist has no entry. A failed read
// does not affect the others.
//
// A Secret is read once per version, for all objects that refer to it, and only
// the digest and the state of the pair are kept. After a restart, each is read once more, because the pods
// carry only a digest.
func (r *Reader) Secrets(ctx context.Context, owner client.Object, names []string) map[string]SecretDigest {
	r.secrets.keep(owner, names)
	found := map[string]SecretDigest{}
	for _, name := range names {
		d, err := r.secret(ctx, client.ObjectKey{Namespace: owner.GetNamespace(), Name: name})
		if err != nil {
			d.Err = fmt.Errorf("reading Secret %q: %w", name, err)
		}
		if d != (SecretDigest{}) {
			found[name] = d
		}
	}
	return found
}

func (r *Reader) secret(ctx context.Context, key client.ObjectKey) (SecretDigest, error) {
	at, err := r.current(ctx, "Secret", key)
	if err != nil {
		return SecretDigest{}, client.IgnoreNotFound(err)
	}
	known := r.secrets.of(key)
	known.mu.Lock() // concurrent callers wait, and then find the digest
	defer known.mu.Unlock()
	if known.version.notBefore(at) {
		return known.digest, nil
	}
	live := &corev1.Secret{}
	if err := r.live.Get(ctx, key, live); err != nil {
		return SecretDigest{}, client.IgnoreNotFound(err) // the cache will observe the deletion
	}
	known.version, known.digest = versionOf(live), SecretDigest{Digest: digest(live)}
	known.digest.Pair, known.digest.Expires = pair(live)
	for _, content := range live.Data {
		clear(content)
	}
	return known.digest, nil
}

// digest returns a string that changes with the content of a Secret. It is
// visible in pods, and many Secrets are words that can be guessed. Therefore it
// is keyed with the Secret's UID, which is unknown without permission to read
// the Secret.
func digest(s *corev1.Secret) string {
	h := hmac.New(sha256.New, []byte(s.UID))
	for _, k := range slices.Sorted(maps.Keys(s.Data)) {
		fmt.Fprintf(h, "%d %s %d ", len(k), k, len(s.Data[k])) // a hash never fails to write
		h.Write(s.Data[k])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// pair returns SecretDigest.Pair and Expires. The errors of the parser name kinds of keys and PEM
// blocks, but not their content.
func pair(s *corev1.Secret) (problem string, expires time.Time) {
	certificate, key := s.Data[corev1.TLSCertKey], s.Data[corev1.TLSPrivateKeyKey]
	if len(certificate) == 0 && len(key) == 0 {
		return "", time.Time{}
	}
	p, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return err.Error(), time.Time{}
	}
	return "", p.Leaf.NotAfter
}

// secrets remembers the digests of the Secrets that objects refer to.
type secrets struct {
	mu    sync.Mutex
	known map[client.ObjectKey]*secret
	users map[types.UID][]client.ObjectKey
}

// secret is the remembered state of one Secret. Its version is empty until the
// Secret was read.
type secret struct {
	users int // guarded by secrets.mu

	mu      sync.Mutex
	version version
	digest  SecretDigest
}

// of returns the state of a Secret that is referred to.
func (s *secrets) of(key client.ObjectKey) *secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.known[key]; k != nil {
		return k
	}
	return &secret{} // the last object that refers to it was just deleted
}

// keep records the references of an object, and drops the Secrets that are no
// longer referred to.
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
