// Package configsource returns the content of the users' ConfigMaps that an
// object refers to. As long as nothing changes, it sends no request.
//
// The current version of a ConfigMap is read from a cache of metadata. Its
// content is read from the object's own immutable snapshots, each of which is
// annotated with the version that it was created from. Only a version without a
// snapshot is read from the API server, once for all objects of a kind. So memory
// holds only what objects refer to, not the other ConfigMaps in their namespaces,
// and a restart of the operator causes no reads of ConfigMaps that have a snapshot
// of their current version.
//
// A new version with the same content, for example because only an annotation
// changed, causes that read, but no write: the latest snapshot is used as it is.
// A restart reads such a ConfigMap once more.
//
// Of Secrets, if the platform configuration allows the operator to read them,
// only a digest is kept: see Reader.Secrets.
//
// The functions about snapshots are pure: they return the immutable copies of
// content that pods mount.
package configsource

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reference declares that an object depends on the content of a ConfigMap in
// its own namespace.
type Reference struct {
	// Name is the name of the ConfigMap. If empty, the reference is ignored.
	Name string
	// Key is the only key that the object depends on. If empty, it depends on all
	// of them.
	Key string
}

// Names returns the distinct names in rs, sorted.
func Names(rs []Reference) []string { return slices.Sorted(maps.Keys(wanted(rs))) }

// Source is the state of a ConfigMap that an object refers to.
type Source struct {
	// Found reports whether the ConfigMap exists.
	Found bool
	// Version is "<uid>/<resource version>" of Content.
	Version string
	// Content holds the namespace, the name and the content that is referred to,
	// and nothing else. Its values must not be modified. It is nil if there is no
	// ConfigMap.
	Content *corev1.ConfigMap
	// Err is the error of reading it. If it is set, it is unknown whether the
	// ConfigMap exists.
	Err error
}

// Whole returns the value of the annotation naming.AnnotationSource for a
// snapshot whose data and binary data are those of the source.
func (s Source) Whole() string {
	if s.Content == nil {
		return ""
	}
	return claim{name: s.Content.Name, version: parseVersion(s.Version)}.String()
}

// Part returns the value of that annotation for a snapshot whose key file has
// the value of key in the source. The values for several sources or keys are
// joined with commas.
func (s Source) Part(key, file string) string {
	if s.Content == nil {
		return ""
	}
	return claim{name: s.Content.Name, version: parseVersion(s.Version), key: key, file: file}.String()
}

// Reader reads the sources of the objects of one kind. It is safe for
// concurrent use, as long as one object is reconciled by one worker at a time.
type Reader struct {
	metadata client.Reader // cached *metav1.PartialObjectMetadata
	live     client.Reader

	mu   sync.Mutex
	read map[types.UID]map[string]memo

	shared  shared
	secrets secrets
}

// memo is content that was read from the API server and that no observed
// snapshot holds yet: either the cache has not observed the snapshot, or there
// will be none, because the content is invalid. Losing a memo costs one
// request.
type memo struct {
	want    want
	version version
	content *corev1.ConfigMap
	// unchangedSince, if set, is an earlier version with the same content, of
	// which there is a snapshot. Then the memo holds no content.
	unchangedSince version
}

// NewReader returns a Reader. Versions are read from metadata, a cache of the
// metadata of all ConfigMaps, and of all Secrets if Secrets is called. Content
// that no snapshot holds is read from live.
func NewReader(metadata, live client.Reader) *Reader {
	return &Reader{metadata: metadata, live: live, read: map[types.UID]map[string]memo{}}
}

// Forget drops the state that is remembered for a deleted object.
func (r *Reader) Forget(owner types.UID) {
	r.secrets.set(owner, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.read, owner)
}

// ConfigMaps returns the ConfigMaps that owner refers to, by name. snapshots are
// the ConfigMaps that belong to owner. A failed read does not affect the
// others.
func (r *Reader) ConfigMaps(ctx context.Context, owner client.Object, refs []Reference, snapshots []*corev1.ConfigMap) map[string]Source {
	wanted := wanted(refs)
	r.keep(owner.GetUID(), wanted)
	if len(wanted) == 0 {
		return nil
	}
	claims := claimsOf(owner, snapshots)
	found := make(map[string]Source, len(wanted))
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		s, err := r.configMap(ctx, owner, name, wanted[name], claims)
		if err != nil {
			s = Source{Err: fmt.Errorf("reading ConfigMap %q: %w", name, err)}
		}
		found[name] = s
	}
	return found
}

func (r *Reader) configMap(ctx context.Context, owner client.Object, name string, w want, claims []claim) (Source, error) {
	key := client.ObjectKey{Namespace: owner.GetNamespace(), Name: name}
	at, err := r.current(ctx, "ConfigMap", key)
	if err != nil {
		// A missing ConfigMap costs no request either: its creation triggers an
		// event.
		r.remember(owner, name, nil)
		return Source{}, client.IgnoreNotFound(err)
	}
	if content, v, ok := fromCopies(claims, name, at, w); ok {
		r.remember(owner, name, nil)
		return sourceOf(key, v, content), nil
	}
	if m, ok := r.recall(owner, name); ok && m.want.equal(w) && m.version.notBefore(at) {
		if m.content != nil {
			return sourceOf(key, m.version, m.content), nil
		}
		if content, ok := assemble(claims, name, m.unchangedSince, w); ok {
			return sourceOf(key, m.unchangedSince, content), nil
		}
	}
	live, err := r.shared.get(ctx, r.live, key, at)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			return Source{}, err
		}
		r.remember(owner, name, nil)
		return Source{}, nil // the cache will observe the deletion
	}
	// The object may be later than the version in the cache, so its own version
	// is used.
	m := memo{want: w, version: versionOf(live), content: w.of(live)}
	source := sourceOf(key, m.version, m.content)
	if content, v, ok := latestCopy(claims, name, m.version, w); ok && sameContent(content, m.content) {
		source = sourceOf(key, v, content)
		m.content, m.unchangedSince = nil, v
	}
	r.remember(owner, name, &m)
	return source, nil
}

// current returns the version of a ConfigMap or Secret in the cache.
func (r *Reader) current(ctx context.Context, kind string, key client.ObjectKey) (version, error) {
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	err := r.metadata.Get(ctx, key, m)
	return versionOf(m), err
}

// sourceOf returns the content in maps of its own, so that changes to the source
// do not affect the remembered content. The values are not copied: they may have
// a mebibyte, and are read in every reconcile.
func sourceOf(key client.ObjectKey, v version, content *corev1.ConfigMap) Source {
	c := &corev1.ConfigMap{Data: maps.Clone(content.Data), BinaryData: maps.Clone(content.BinaryData)}
	c.Namespace, c.Name = key.Namespace, key.Name
	return Source{Found: true, Version: v.String(), Content: c}
}

// keep drops the remembered content that an object no longer refers to.
func (r *Reader) keep(owner types.UID, wanted map[string]want) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.read[owner], func(name string, _ memo) bool { _, still := wanted[name]; return !still })
	if len(r.read[owner]) == 0 {
		delete(r.read, owner)
	}
}

func (r *Reader) recall(owner client.Object, name string) (memo, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.read[owner.GetUID()][name]
	return m, ok
}

// remember stores content that was read, or drops it if m is nil.
func (r *Reader) remember(owner client.Object, name string, m *memo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := owner.GetUID()
	if m == nil {
		if delete(r.read[uid], name); len(r.read[uid]) == 0 {
			delete(r.read, uid)
		}
		return
	}
	if r.read[uid] == nil {
		r.read[uid] = map[string]memo{}
	}
	r.read[uid][name] = *m
}

// want is the part of a ConfigMap that an object depends on.
type want struct {
	all  bool
	keys []string // sorted, each once
}

func wanted(refs []Reference) map[string]want {
	all := map[string]want{}
	for _, r := range refs {
		if r.Name == "" {
			continue
		}
		w := all[r.Name]
		switch {
		case r.Key == "" || w.all:
			w = want{all: true}
		default:
			w.keys = append(w.keys, r.Key)
			slices.Sort(w.keys)
			w.keys = slices.Compact(w.keys)
		}
		all[r.Name] = w
	}
	return all
}

func (w want) equal(o want) bool { return w.all == o.all && slices.Equal(w.keys, o.keys) }

// of returns the wanted part of c's content. The rest is left out, because a
// snapshot of the part could not provide it after a restart.
func (w want) of(c *corev1.ConfigMap) *corev1.ConfigMap {
	if w.all {
		return &corev1.ConfigMap{Data: c.Data, BinaryData: c.BinaryData}
	}
	part := &corev1.ConfigMap{}
	for _, k := range w.keys {
		put(part, k, c, k)
	}
	return part
}

// put copies the value of file in from to key in to, and reports whether it
// exists.
func put(to *corev1.ConfigMap, key string, from *corev1.ConfigMap, file string) bool {
	if text, ok := from.Data[file]; ok {
		if to.Data == nil {
			to.Data = map[string]string{}
		}
		to.Data[key] = text
		return true
	}
	raw, ok := from.BinaryData[file]
	if ok {
		if to.BinaryData == nil {
			to.BinaryData = map[string][]byte{}
		}
		to.BinaryData[key] = raw
	}
	return ok
}
