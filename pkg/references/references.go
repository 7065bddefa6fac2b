// Package references answers what stands in the ConfigMaps of users that an
// object refers to, at the price of no request as long as nothing changes.
//
// Which version of a ConfigMap there is, a cache of metadata says. What is in
// it, the object's own unchangeable copies say: each carries the version that
// it was made from. Only a version that nobody has copied yet is read from the
// API server, once. So memory holds what objects refer to, and not what else
// stands in their namespaces; and a restart of the operator reads nothing.
//
// Of Secrets, where the platform lets the operator read them, nobody keeps
// more than a digest: see Reader.Secrets.
package references

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

// Reference says that the content of a ConfigMap, in the object's own
// namespace, matters to the object.
type Reference struct {
	// Name is the ConfigMap's. An empty one refers to nothing.
	Name string
	// Key is all of it that matters; "" is everything.
	Key string
}

// Names returns the names in rs, each once, sorted.
func Names(rs []Reference) []string { return slices.Sorted(maps.Keys(wanted(rs))) }

// Source is a ConfigMap that is referred to.
type Source struct {
	// Found says that there is one.
	Found bool
	// Version is "<uid>/<resource version>" of Content.
	Version string
	// Content has name and namespace, and what of the content is referred to,
	// and nothing else. It is nil where there is no ConfigMap.
	Content *corev1.ConfigMap
	// Err says why it could not be read. Whether it exists is then unknown.
	Err error
}

// Whole is the value of the annotation naming.AnnotationSource on a copy whose
// data and binary data are all that is in the source.
func (s Source) Whole() string {
	if s.Content == nil {
		return ""
	}
	return claim{name: s.Content.Name, version: parseVersion(s.Version)}.String()
}

// Part is the value of that annotation on a copy whose key file is what the
// source has under key. One of several sources, or of several keys, is joined
// to the others by a comma.
func (s Source) Part(key, file string) string {
	if s.Content == nil {
		return ""
	}
	return claim{name: s.Content.Name, version: parseVersion(s.Version), key: key, file: file}.String()
}

// Reader finds sources for the objects of one kind. It is safe for concurrent
// use, as long as one object is reconciled by one worker at a time.
type Reader struct {
	metadata client.Reader // cached *metav1.PartialObjectMetadata
	live     client.Reader

	mu   sync.Mutex
	read map[types.UID]map[string]memo

	secrets secrets
}

// memo is what was read from the API server and is in no copy yet: the cache
// may not have seen the copy, or there will be none, because the content is not
// what it has to be. Losing it costs a request.
type memo struct {
	want    want
	version version
	content *corev1.ConfigMap
}

// NewReader returns a reader that looks for versions in metadata, a cache of
// every ConfigMap's and, where somebody asks for Secrets, of theirs, and for
// content that is in no copy in live.
func NewReader(metadata, live client.Reader) *Reader {
	return &Reader{metadata: metadata, live: live, read: map[types.UID]map[string]memo{}}
}

// Forget drops what is remembered for an object that is gone.
func (r *Reader) Forget(owner types.UID) {
	r.secrets.set(owner, nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.read, owner)
}

// ConfigMaps returns, by name, what owner refers to. copies are the ConfigMaps
// that belong to it. A failed read does not affect the others.
func (r *Reader) ConfigMaps(ctx context.Context, owner client.Object, refs []Reference, copies []*corev1.ConfigMap) map[string]Source {
	wanted := wanted(refs)
	r.keep(owner.GetUID(), wanted)
	if len(wanted) == 0 {
		return nil
	}
	claims := claimsOf(owner, copies)
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
	standing := &metav1.PartialObjectMetadata{}
	standing.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	if err := r.metadata.Get(ctx, key, standing); err != nil {
		// That none is there costs no request either: its creation is an event.
		r.remember(owner, name, nil)
		return Source{}, client.IgnoreNotFound(err)
	}
	at := versionOf(standing)
	if content, v, ok := fromCopies(claims, name, at, w); ok {
		r.remember(owner, name, nil)
		return sourceOf(key, v, content), nil
	}
	if m, ok := r.recall(owner, name); ok && m.want.equal(w) && m.version.notBefore(at) {
		return sourceOf(key, m.version, m.content), nil
	}
	live := &corev1.ConfigMap{}
	if err := r.live.Get(ctx, key, live); err != nil {
		if !apierrors.IsNotFound(err) {
			return Source{}, err
		}
		r.remember(owner, name, nil)
		return Source{}, nil // the cache will hear of it
	}
	// What was read may be later than what the cache knows: its own version
	// counts.
	m := memo{want: w, version: versionOf(live), content: w.of(live)}
	r.remember(owner, name, &m)
	return sourceOf(key, m.version, m.content), nil
}

// sourceOf leaves what is remembered as it is, whatever is done to the source.
func sourceOf(key client.ObjectKey, v version, content *corev1.ConfigMap) Source {
	c := content.DeepCopy()
	c.ObjectMeta = metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	return Source{Found: true, Version: v.String(), Content: c}
}

// keep drops what an object no longer refers to.
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

// remember keeps what was read; nil drops it.
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

// want is what of a ConfigMap matters.
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

// of returns the part of c's content that is wanted. What is not wanted must
// not be seen: a copy of a part could not tell it after a restart.
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

// put gives to what from has under a key, and tells whether it has any.
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
