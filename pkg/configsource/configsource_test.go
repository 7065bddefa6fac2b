package configsource

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// cluster holds the ConfigMap "cfg" in the cache of metadata and in the API
// server. The two may differ.
type cluster struct {
	client.Reader
	cached, live *corev1.ConfigMap // nil if not found
	fails        error
	gets         int
}

func (c *cluster) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	from := c.cached
	into, whole := o.(*corev1.ConfigMap)
	if whole {
		c.gets++
		from = c.live
		if c.fails != nil {
			return c.fails
		}
	}
	if from == nil || key != client.ObjectKeyFromObject(from) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	if whole {
		from.DeepCopyInto(into)
	} else {
		o.SetUID(from.UID)
		o.SetResourceVersion(from.ResourceVersion)
	}
	return nil
}

func (c *cluster) set(cm *corev1.ConfigMap) { c.cached, c.live = cm, cm }

var owner = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "owner"}}

type texts = map[string]string

func source(uid types.UID, rv string, data texts) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cfg", UID: uid, ResourceVersion: rv, Labels: texts{"team": "a"}},
		Data:       data,
	}
}

// copied returns a snapshot that belongs to the owner.
func copied(claims string, data texts, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
	c := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-copy", Annotations: texts{naming.AnnotationSource: claims},
			OwnerReferences: []metav1.OwnerReference{{UID: "owner", Controller: new(true)}},
		},
		Immutable: new(true),
		Data:      data,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func snapshots(cs ...*corev1.ConfigMap) []*corev1.ConfigMap { return cs }

var whole = []Reference{{Name: "cfg"}}

func TestReader_ConfigMapsReusesSnapshots(t *testing.T) {
	keyed := []Reference{{"cfg", "a"}, {"cfg", "b"}}
	for name, tc := range map[string]struct {
		cached, live *corev1.ConfigMap // live defaults to cached
		refs         []Reference
		copies       []*corev1.ConfigMap
		gets         int
		version      string // "" if not found
		want         texts
	}{
		"nothing there":           {refs: whole},
		"gone since":              {nil, source("u", "5", texts{"a": "x"}), whole, nil, 0, "", nil},
		"no copy":                 {source("u", "5", texts{"a": "x"}), nil, whole, nil, 1, "u/5", texts{"a": "x"}},
		"a copy":                  {source("u", "5", texts{"a": "?"}), nil, whole, snapshots(copied("cfg@u/5", texts{"a": "x"})), 0, "u/5", texts{"a": "x"}},
		"an empty copy":           {source("u", "5", texts{"a": "?"}), nil, whole, snapshots(copied("cfg@u/5", nil)), 0, "u/5", nil},
		"of an earlier version":   {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("cfg@u/4", texts{"a": "w"})), 1, "u/5", texts{"a": "x"}},
		"among earlier ones":      {source("u", "5", nil), nil, whole, snapshots(copied("cfg@u/4", texts{"a": "w"}), copied("cfg@u/5", texts{"a": "x"})), 0, "u/5", texts{"a": "x"}},
		"of another of that name": {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("cfg@v/5", texts{"a": "w"})), 1, "u/5", texts{"a": "x"}},
		"of another one":          {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("other@u/5", texts{"a": "w"})), 1, "u/5", texts{"a": "x"}},
		"the cache is behind":     {source("u", "5", nil), source("u", "7", nil), whole, snapshots(copied("cfg@u/7", texts{"a": "y"}), copied("cfg@u/5", texts{"a": "x"})), 0, "u/7", texts{"a": "y"}},
		"versions are no text":    {source("u", "10", nil), nil, whole, snapshots(copied("cfg@u/9", texts{"a": "w"}), copied("cfg@u/10", texts{"a": "x"})), 0, "u/10", texts{"a": "x"}},
		"read later than cached":  {source("u", "5", nil), source("u", "6", texts{"a": "y"}), whole, nil, 1, "u/6", texts{"a": "y"}},
		"two sources in a copy":   {source("u", "5", nil), nil, whole, snapshots(copied("other@w/1,cfg@u/5", texts{"a": "x"})), 0, "u/5", texts{"a": "x"}},

		"part of the source":          {source("u", "5", texts{"a": "x", "b": "y", "c": "z"}), nil, keyed, nil, 1, "u/5", texts{"a": "x", "b": "y"}},
		"part of a copy":              {source("u", "5", nil), nil, keyed, snapshots(copied("cfg@u/5", texts{"a": "x", "b": "y", "c": "z"})), 0, "u/5", texts{"a": "x", "b": "y"}},
		"no such key in a copy":       {source("u", "5", nil), nil, keyed, snapshots(copied("cfg@u/5", texts{"a": "x"})), 0, "u/5", texts{"a": "x"}},
		"parts":                       {source("u", "5", nil), nil, keyed, snapshots(copied("cfg@u/5#a=1.conf,cfg@u/5#b=2.conf", texts{"1.conf": "x", "2.conf": "y", "3.conf": "z"})), 0, "u/5", texts{"a": "x", "b": "y"}},
		"parts in several":            {source("u", "5", nil), nil, keyed, snapshots(copied("cfg@u/5#a=f", texts{"f": "x"}), copied("cfg@u/5#b=f", texts{"f": "y"})), 0, "u/5", texts{"a": "x", "b": "y"}},
		"a part is missing":           {source("u", "5", texts{"a": "x", "b": "y"}), nil, keyed, snapshots(copied("cfg@u/5#a=f", texts{"f": "x"})), 1, "u/5", texts{"a": "x", "b": "y"}},
		"a part's file is missing":    {source("u", "5", texts{"a": "x", "b": "y"}), nil, keyed, snapshots(copied("cfg@u/5#a=f,cfg@u/5#b=g", texts{"f": "x"})), 1, "u/5", texts{"a": "x", "b": "y"}},
		"a part is of earlier":        {source("u", "5", texts{"a": "x", "b": "y"}), nil, keyed, snapshots(copied("cfg@u/5#a=f,cfg@u/4#b=f", texts{"f": "x"})), 1, "u/5", texts{"a": "x", "b": "y"}},
		"parts do for no whole":       {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("cfg@u/5#a=f", texts{"f": "x"})), 1, "u/5", texts{"a": "x"}},
		"whole and part are wanted":   {source("u", "5", texts{"a": "x", "b": "y"}), nil, []Reference{{"cfg", "a"}, {"cfg", ""}}, nil, 1, "u/5", texts{"a": "x", "b": "y"}},
		"a copy that can be changed":  {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("cfg@u/5", texts{"a": "w"}, func(c *corev1.ConfigMap) { c.Immutable = nil })), 1, "u/5", texts{"a": "x"}},
		"an unowned copy":             {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("cfg@u/5", texts{"a": "w"}, func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "other" })), 1, "u/5", texts{"a": "x"}},
		"what says nothing":           {source("u", "5", texts{"a": "x"}), nil, whole, snapshots(copied("", texts{"a": "w"}), copied("cfg", nil), copied("cfg@u/5#a", texts{"a": "w"}), copied("@,#=,cfg@#=a", nil)), 1, "u/5", texts{"a": "x"}},
		"a reference without a name":  {source("u", "5", texts{"a": "x"}), nil, []Reference{{}}, nil, 0, "-", nil},
		"no reference (but a source)": {source("u", "5", texts{"a": "x"}), nil, nil, nil, 0, "-", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{cached: tc.cached, live: tc.live}
			if c.live == nil {
				c.live = c.cached
			}
			got := NewReader(c, c).ConfigMaps(t.Context(), owner, tc.refs, tc.copies)
			if err := got["cfg"].Err; err != nil {
				t.Fatal(err)
			}
			if tc.version == "-" {
				if len(got) > 0 {
					t.Errorf("got %v", got)
				}
				return
			}
			want := map[string]Source{"cfg": {}}
			if tc.version != "" {
				want["cfg"] = Source{Found: true, Version: tc.version, Content: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cfg"}, Data: tc.want}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if c.gets != tc.gets {
				t.Errorf("%d requests, want %d", c.gets, tc.gets)
			}
		})
	}
}

// The annotation values that a Source returns are those that claimsOf reads.
func TestReader_FindsASourceInItsSnapshots(t *testing.T) {
	c := &cluster{}
	c.set(source("5e9c-u", "5", texts{"server.conf": "x", "b": "y"}))
	c.live.BinaryData = map[string][]byte{"logo.png": {0, 255}}
	read := func(refs []Reference, cs ...*corev1.ConfigMap) Source {
		t.Helper()
		got := NewReader(c, c).ConfigMaps(t.Context(), owner, refs, cs)
		if err := got["cfg"].Err; err != nil {
			t.Fatal(err)
		}
		return got["cfg"]
	}
	s := read(whole)
	full := copied(s.Whole(), s.Content.Data, func(c *corev1.ConfigMap) { c.BinaryData = s.Content.BinaryData })
	parts := copied(s.Part("server.conf", "snippet")+","+s.Part("logo.png", "l"), texts{"snippet": "x"},
		func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"l": {0, 255}} })
	keyed := []Reference{{"cfg", "server.conf"}, {"cfg", "logo.png"}}
	want := read(keyed)
	c.gets = 0
	if diff := cmp.Diff(s, read(whole, full)); diff != "" {
		t.Errorf("whole:\n%s", diff)
	}
	if diff := cmp.Diff(want, read(keyed, parts)); diff != "" {
		t.Errorf("parts:\n%s", diff)
	}
	if c.gets != 0 {
		t.Errorf("%d requests", c.gets)
	}
	if none := (Source{}); none.Whole() != "" || none.Part("a", "b") != "" {
		t.Error("what is not there says something")
	}
}

// Content is not read again until its snapshot is observed, or while there is
// none.
func TestReader_KeepsContentUntilItsSnapshotIsObserved(t *testing.T) {
	c := &cluster{}
	r := NewReader(c, c)
	var cs []*corev1.ConfigMap
	refs, who := whole, owner
	read := func(gets int, want string) {
		t.Helper()
		c.gets, r.shared.reads = 0, nil // other objects have not read it
		got := r.ConfigMaps(t.Context(), who, refs, cs)
		if err := got["cfg"].Err; err != nil {
			t.Fatal(err)
		}
		text := "none"
		if s := got["cfg"]; s.Found {
			text = s.Content.Data["a"]
			s.Content.Data["a"] = "changed by the caller"
		}
		if text != want || c.gets != gets {
			t.Errorf("%d requests and %q, want %d and %q", c.gets, text, gets, want)
		}
	}
	read(0, "none")
	c.set(source("u", "5", texts{"a": "x"}))
	read(1, "x")
	read(0, "x")
	who = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", UID: "other"}}
	read(1, "x")
	r.Forget("other")
	who = owner

	c.live = source("u", "7", texts{"a": "y"})
	c.cached = source("u", "6", nil)
	read(1, "y")
	read(0, "y") // already at version 7
	c.cached = source("u", "7", nil)
	read(0, "y")
	refs = []Reference{{"cfg", "a"}}
	read(1, "y")
	read(0, "y")
	refs = whole
	read(1, "y")

	cs = snapshots(copied("cfg@u/7", texts{"a": "y"}))
	read(0, "y")
	if len(r.read) != 0 {
		t.Errorf("got %v remembered for a ConfigMap with a snapshot, want none", r.read)
	}
	cs = nil
	read(1, "y")
	c.set(nil)
	read(0, "none")
	if len(r.read) != 0 {
		t.Errorf("got %v remembered for a deleted ConfigMap, want none", r.read)
	}
	c.set(source("v", "9", texts{"a": "z"}))
	read(1, "z")
	refs = nil
	read(0, "none")
	if len(r.read) != 0 {
		t.Errorf("got %v remembered for an unreferenced ConfigMap, want none", r.read)
	}
	refs = whole
	read(1, "z")
	r.Forget("owner")
	read(1, "z")
	c.live, c.cached = nil, source("v", "10", nil)
	read(1, "none")
	if len(r.read) != 0 {
		t.Errorf("got %v remembered for a deleted ConfigMap, want none", r.read)
	}
}

// Objects that refer to the same ConfigMap share one read of each version.
// Every reconcile reads the content, which may have a mebibyte.
func TestReader_DoesNotCopyContent(t *testing.T) {
	of := source("u", "5", nil)
	c := &cluster{cached: of, live: of}
	snapshot := copied("cfg@u/5", nil, func(c *corev1.ConfigMap) { c.BinaryData = map[string][]byte{"a": []byte("x")} })
	got := NewReader(c, c).ConfigMaps(t.Context(), owner, whole, snapshots(snapshot))["cfg"].Content.BinaryData["a"]
	if &got[0] != &snapshot.BinaryData["a"][0] {
		t.Error("the content was copied")
	}
}

func TestReader_ReadsAVersionOnceForAllObjects(t *testing.T) {
	c := &cluster{}
	r := NewReader(c, c)
	other := []Reference{{"cfg", "a"}}
	read := func(n int, gets int, want string) {
		t.Helper()
		c.gets = 0
		for i := range n {
			refs := whole
			if i%2 == 1 {
				refs = other
			}
			who := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: types.UID(fmt.Sprint("owner", i))}}
			s := r.ConfigMaps(t.Context(), who, refs, nil)["cfg"]
			if s.Err != nil || s.Content.Data["a"] != want {
				t.Fatalf("object %d: got %v, %v, want %q", i, s.Content, s.Err, want)
			}
			s.Content.Data["a"] = "changed by the caller"
		}
		if c.gets != gets {
			t.Errorf("%d requests for %d objects, want %d", c.gets, n, gets)
		}
	}
	c.set(source("u", "5", texts{"a": "x"}))
	read(10, 1, "x")
	c.set(source("u", "6", texts{"a": "y"}))
	read(10, 1, "y")
	c.set(source("v", "7", texts{"a": "z"})) // deleted and created again
	read(10, 1, "z")
}

// The content of a ConfigMap is kept for other objects only for a while, and
// only a limited amount.
func TestReader_DropsSharedContent(t *testing.T) {
	c := &cluster{}
	r := NewReader(c, c)
	for i := range 6 {
		cm := source("u", "5", texts{"a": strings.Repeat("x", 1<<20)})
		cm.Name = fmt.Sprint("cfg", i)
		c.set(cm)
		if s := r.ConfigMaps(t.Context(), owner, []Reference{{Name: cm.Name}}, nil)[cm.Name]; s.Err != nil {
			t.Fatal(s.Err)
		}
	}
	if n := len(r.shared.reads); n == 0 || r.shared.size > maxShared {
		t.Errorf("%d ConfigMaps with %d bytes are kept, want some, and at most %d bytes", n, r.shared.size, maxShared)
	}
	for key, s := range r.shared.reads {
		r.shared.drop(key, s) // as its timer does
	}
	if n := len(r.shared.reads); n != 0 || r.shared.size != 0 {
		t.Errorf("%d ConfigMaps with %d bytes are kept, want none", n, r.shared.size)
	}
}

// If the metadata of a ConfigMap has changed, or a key that the object does not
// refer to, its latest snapshot is used as it is, so that nothing is written.
func TestReader_KeepsTheVersionOfUnchangedContent(t *testing.T) {
	full := copied("cfg@u/4", texts{"a": "x"})
	part := copied("cfg@u/4#a=f", texts{"f": "x"})
	keyed := []Reference{{"cfg", "a"}}
	for name, tc := range map[string]struct {
		live   texts
		refs   []Reference
		copies []*corev1.ConfigMap
		want   string
	}{
		"an annotation":          {texts{"a": "x"}, whole, snapshots(full), "u/4"},
		"another key":            {texts{"a": "x", "b": "y"}, keyed, snapshots(part), "u/4"},
		"the content":            {texts{"a": "y"}, whole, snapshots(full), "u/5"},
		"a further key":          {texts{"a": "x", "b": "y"}, whole, snapshots(full), "u/5"},
		"back to an earlier one": {texts{"a": "x"}, whole, snapshots(copied("cfg@u/3", texts{"a": "x"}), copied("cfg@u/4", texts{"a": "y"})), "u/5"},
		"the latest of several":  {texts{"a": "y"}, whole, snapshots(copied("cfg@u/3", texts{"a": "x"}), copied("cfg@u/4", texts{"a": "y"})), "u/4"},
		"the latest is no whole": {texts{"a": "x"}, whole, snapshots(copied("cfg@u/3", texts{"a": "x"}), part), "u/5"},
		"an earlier object":      {texts{"a": "x"}, whole, snapshots(copied("cfg@v/4", texts{"a": "x"})), "u/5"},
		"a key was removed":      {texts{}, keyed, snapshots(part), "u/5"},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{}
			c.set(source("u", "5", tc.live))
			r := NewReader(c, c)
			for range 3 {
				s := r.ConfigMaps(t.Context(), owner, tc.refs, tc.copies)["cfg"]
				if s.Err != nil || s.Version != tc.want {
					t.Fatalf("got version %q (%v), want %q", s.Version, s.Err, tc.want)
				}
				if got := s.Content.Data["a"]; got != tc.live["a"] {
					t.Errorf("got %q, want %q", got, tc.live["a"])
				}
			}
			if c.gets != 1 {
				t.Errorf("%d requests, want 1", c.gets)
			}
		})
	}
}

func TestReader_ConfigMapsReportsFailedReads(t *testing.T) {
	refused := errors.New("refused")
	c := &cluster{fails: refused}
	c.set(source("u", "5", nil))
	got := NewReader(c, c).ConfigMaps(t.Context(), owner, whole, nil)
	if err := got["cfg"].Err; !errors.Is(err, refused) || err.Error() != `reading ConfigMap "cfg": refused` {
		t.Errorf("got %v", err)
	}
}

func TestNames(t *testing.T) {
	got := Names([]Reference{{"z", "k"}, {"a", ""}, {"z", "l"}, {"", "k"}})
	if diff := cmp.Diff([]string{"a", "z"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOwnedConfigMaps_ListsThoseOfTheOwner(t *testing.T) {
	named := func(ns, name string, of types.UID) *corev1.ConfigMap {
		return copied("", nil, func(c *corev1.ConfigMap) { c.Namespace, c.Name, c.OwnerReferences[0].UID = ns, name, of })
	}
	b := fake.NewClientBuilder().
		WithObjects(named("ns", "a", "owner"), named("ns", "b", "owner"), named("ns", "c", "other"), named("elsewhere", "d", "owner")).
		WithIndex(&corev1.ConfigMap{}, naming.IndexOwner, func(o client.Object) []string { return []string{string(o.GetOwnerReferences()[0].UID)} })
	if _, err := OwnedConfigMaps(t.Context(), fake.NewFakeClient(), owner); err == nil {
		t.Error("without an index it found some")
	}
	got, err := OwnedConfigMaps(t.Context(), b.Build(), owner)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range got {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
