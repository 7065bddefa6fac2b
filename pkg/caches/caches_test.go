package caches

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// asked is a cache that records the calls.
type asked struct {
	cache.Cache
	calls []string
	ends  error // returned by Start immediately; nil: it runs until it is stopped
	sync  bool
}

func (a *asked) note(what string) error { a.calls = append(a.calls, what); return nil }

func (a *asked) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.note("get")
}

func (a *asked) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return a.note("list")
}

func (a *asked) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return nil, a.note("informer")
}

func (a *asked) RemoveInformer(context.Context, client.Object) error { return a.note("remove") }

func (a *asked) IndexField(context.Context, client.Object, string, client.IndexerFunc) error {
	return a.note("index")
}

func (a *asked) Start(ctx context.Context) error {
	if a.ends == nil {
		<-ctx.Done()
	}
	return a.ends
}

func (a *asked) WaitForCacheSync(context.Context) bool { return a.sync }

func TestCaches_ReadMetadataFromASeparateCache(t *testing.T) {
	whole, metadata := &asked{}, &asked{}
	c := caches{Cache: whole, metadata: metadata}
	all := func(o client.Object, l client.ObjectList) {
		ctx := t.Context()
		_, err := c.GetInformer(ctx, o)
		if err := errors.Join(err, c.Get(ctx, client.ObjectKey{}, o), c.List(ctx, l), c.IndexField(ctx, o, "f", nil), c.RemoveInformer(ctx, o)); err != nil {
			t.Error(err)
		}
	}
	want := []string{"informer", "get", "list", "index", "remove"}
	all(&corev1.ConfigMap{}, &corev1.ConfigMapList{})
	if !slices.Equal(whole.calls, want) || len(metadata.calls) > 0 {
		t.Errorf("whole objects: %v and %v", whole.calls, metadata.calls)
	}
	whole.calls = nil
	all(&metav1.PartialObjectMetadata{}, &metav1.PartialObjectMetadataList{})
	if !slices.Equal(metadata.calls, want) || len(whole.calls) > 0 {
		t.Errorf("metadata: %v and %v", whole.calls, metadata.calls)
	}
}

func TestCaches_StartAndStopTogether(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]caches{
		"whole": {Cache: &asked{ends: broken}, metadata: &asked{}}, "metadata": {Cache: &asked{}, metadata: &asked{ends: broken}},
	} {
		if err := c.Start(t.Context()); !errors.Is(err, broken) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (caches{Cache: &asked{}, metadata: &asked{}}).Start(ctx); err != nil {
		t.Errorf("got %v", err)
	}
	for _, tc := range [][2]bool{{false, false}, {true, false}, {false, true}, {true, true}} {
		c := caches{Cache: &asked{sync: tc[0]}, metadata: &asked{sync: tc[1]}}
		if got := c.WaitForCacheSync(t.Context()); got != (tc[0] && tc[1]) {
			t.Errorf("%v: got %v", tc, got)
		}
	}
}

func TestStripToVersion(t *testing.T) {
	m := &metav1.PartialObjectMetadata{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "cfg", UID: "u", ResourceVersion: "5", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "secret"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}, Finalizers: []string{"f"},
		},
	}
	want := &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "cfg", UID: "u", ResourceVersion: "5"},
	}
	got, err := stripToVersion(m)
	if diff := cmp.Diff(any(want), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	gone := toolscache.DeletedFinalStateUnknown{Key: "ns/web"}
	if got, err := stripToVersion(gone); err != nil || got != any(gone) {
		t.Errorf("got %v, %v", got, err)
	}
}
