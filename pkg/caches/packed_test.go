package caches

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	cachetesting "k8s.io/client-go/tools/cache/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// packerOf returns the packer of an object's type, or nil if it is not packed.
func packerOf(tb testing.TB, o any) *packer {
	tb.Helper()
	if !isPacked(o) {
		return nil
	}
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(o.(apiruntime.Object))
	if err != nil {
		tb.Fatal(err)
	}
	return &packer{of: reflect.TypeOf(o).Elem(), kind: kinds[0], names: &interner{}}
}

func TestPacker_LosesNothing(t *testing.T) {
	types := map[reflect.Type]bool{}
	for name, decode := range liveObjects(t) {
		o := decode()
		p := packerOf(t, o)
		if p == nil {
			continue
		}
		types[p.of] = true
		t.Run(name, func(t *testing.T) {
			c, err := p.pack(o)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := p.pack(c); again != c || err != nil {
				t.Errorf("a transform may run twice over the same object: got %v, %v", again, err)
			}
			want := o.DeepCopyObject().(client.Object)
			want.GetObjectKind().SetGroupVersionKind(p.kind)
			if diff := cmp.Diff(any(want), p.unpack(c)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			only := reflect.New(p.of).Interface().(client.Object)
			*only.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta) = *want.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
			if diff := cmp.Diff(any(only), p.identify(c)); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
	for _, o := range packedTypes() {
		if !isPacked(o) || !types[reflect.TypeOf(o).Elem()] {
			t.Errorf("%T is not packed, or not tested", o)
		}
	}
	if len(types) != len(packedTypes()) {
		t.Errorf("%d types are packed, want %d", len(types), len(packedTypes()))
	}
}

func TestDecodeMetadata_RefusesWhatIsNoObject(t *testing.T) {
	for _, raw := range [][]byte{nil, {0x12, 0}, {0x0a}, {0x0a, 5, 1}, {0x0a, 0xff}} {
		if err := decodeMetadata(raw, &metav1.ObjectMeta{}); err == nil {
			t.Errorf("%v: no error", raw)
		}
	}
}

// events are those that a handler received, with what the objects have.
type events chan string

func (e events) note(what string, o any) {
	d := o.(*appsv1.Deployment)
	if d.Spec.Replicas != nil {
		what += " with its spec"
	}
	e <- what + " " + d.Name + " " + d.Labels["app"]
}

func (e events) OnAdd(o any, _ bool) { e.note("added", o) }
func (e events) OnUpdate(before, after any) {
	e.note("before", before)
	e.note("after", after)
}

func (e events) OnDelete(o any) { e.note("deleted", o) }

func (e events) want(t *testing.T, all ...string) {
	t.Helper()
	for _, want := range all {
		select {
		case got := <-e:
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("no event, want %q", want)
		}
	}
}

func TestPackedInformer(t *testing.T) {
	deployment := func(app string) *appsv1.Deployment {
		return &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{"app": app}},
			Spec:       appsv1.DeploymentSpec{Replicas: new(int32(3))},
		}
	}
	source := cachetesting.NewFakeControllerSource()
	i := newPackedInformers(clientgoscheme.Scheme, nil).newInformer(source, &appsv1.Deployment{}, 0, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	seen := make(events, 10)
	_, err := i.AddEventHandler(seen)
	if err := errors.Join(err,
		i.SetTransform(func(o any) (any, error) { o.(*appsv1.Deployment).Annotations = nil; return o, nil }),
		i.AddIndexers(cache.Indexers{"field:app": func(o any) ([]string, error) {
			app := o.(*appsv1.Deployment).Labels["app"]
			return []string{"ns/" + app, allNamespaces + app}, nil
		}}),
	); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	go i.RunWithContext(ctx)
	first := deployment("a")
	first.Annotations = map[string]string{"x": "y"}
	source.Add(first)
	seen.want(t, "added web a")
	// Events arrive before the informer says that it has synced.
	if !cache.WaitForCacheSync(ctx.Done(), i.HasSynced) {
		t.Fatal("the informer has not synced")
	}
	source.Modify(deployment("b"))
	seen.want(t, "before web a", "after web b")

	read := func(what string, got []any, err error) {
		t.Helper()
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: got %v, %v", what, got, err)
		}
		d := got[0].(*appsv1.Deployment)
		if *d.Spec.Replicas != 3 || d.Labels["app"] != "b" || d.Annotations != nil || d.Kind != "Deployment" {
			t.Errorf("%s: got %+v", what, d)
		}
		d.Labels["app"] = "changed by the reader"
	}
	x := i.GetIndexer()
	byKey, _, err := x.GetByKey("ns/web")
	read("GetByKey", []any{byKey}, err)
	same, _, err := x.Get(deployment("b"))
	read("Get", []any{same}, err)
	read("List", x.List(), nil)
	read("GetStore", i.GetStore().List(), nil)
	found, err := x.ByIndex("field:app", "ns/b")
	read("ByIndex", found, err)
	found, err = x.Index("field:app", deployment("b"))
	read("Index", found, err)
	if got := x.ListIndexFuncValues("field:app"); !slices.Equal(got, []string{"ns/b"}) {
		t.Errorf("values of the index: got %v", got)
	}
	if _, err := x.ByIndex("field:app", allNamespaces+"b"); err == nil {
		t.Error("no error for an index over all namespaces, which would be empty")
	}
	if _, ok, err := x.GetByKey("ns/other"); ok || err != nil {
		t.Errorf("another one: got %v, %v", ok, err)
	}

	source.Delete(deployment("b"))
	seen.want(t, "deleted web b")
}

func TestIdentifying_HandlesTombstones(t *testing.T) {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}
	p := packerOf(t, d)
	c, err := p.pack(d)
	if err != nil {
		t.Fatal(err)
	}
	got := p.identify(cache.DeletedFinalStateUnknown{Key: "web", Obj: c}).(cache.DeletedFinalStateUnknown)
	if o := got.Obj.(*appsv1.Deployment); o.Name != "web" || o.Spec.Replicas != nil {
		t.Errorf("got %+v", o)
	}
}

// The first objects are the dictionary of all others.
func TestPacker_CompressesWhatIsFrequent(t *testing.T) {
	live := liveObjects(t)["deployment"]
	p := packerOf(t, live())
	var all []any
	for range 50 {
		o := live(another)
		want := o.DeepCopyObject().(client.Object)
		want.GetObjectKind().SetGroupVersionKind(p.kind)
		c, err := p.pack(o)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		if diff := cmp.Diff(any(want), p.unpack(c)); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if got := p.identify(c).(client.Object); got.GetUID() != want.GetUID() {
			t.Errorf("got the UID %s, want %s", got.GetUID(), want.GetUID())
		}
	}
	first, last := len(all[0].(*packed).raw), len(all[49].(*packed).raw)
	if last > first/4 {
		t.Errorf("the last of 50 objects has %d bytes, the first one %d", last, first)
	}
	// An object that differs from all that were seen.
	odd := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "odd", Annotations: map[string]string{"x": strings.Repeat("y", 100<<10)}}}
	c, err := p.pack(odd)
	if err != nil {
		t.Fatal(err)
	}
	if got := p.unpack(c).(*appsv1.Deployment); got.Annotations["x"] != odd.Annotations["x"] {
		t.Error("an object that differs from the others was damaged")
	}
}

func TestCompressor_ReportsDamage(t *testing.T) {
	var c compressor
	object := bytes.Repeat([]byte("metadata"), dictionaryBytes/8)
	c.compress(object)
	compressed, ok := c.compress(object)
	if !ok || len(compressed) > 100 {
		t.Fatalf("got %d bytes, %v", len(compressed), ok)
	}
	if err := c.read(compressed[:len(compressed)-1], func([]byte) error { return nil }); err == nil {
		t.Error("a part was read as a whole")
	}
}

// A large ConfigMap is held as it is, so that reading it without a copy costs nothing.
func TestPacker_KeepsLargeConfigMaps(t *testing.T) {
	for size, want := range map[int]bool{100: true, largestConfigMap: false} {
		o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Data: map[string]string{"a": strings.Repeat("b", size)}}
		p := packerOf(t, o)
		c, err := p.pack(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := c.(*packed); got != want {
			t.Errorf("%d bytes of data: packed %v, want %v", size, got, want)
		}
		if got := p.unpack(c).(*corev1.ConfigMap); got.Data["a"] != o.Data["a"] {
			t.Errorf("%d bytes of data: got %d", size, len(got.Data["a"]))
		}
	}
}

func BenchmarkPacker(b *testing.B) {
	live := liveObjects(b)["deployment"]
	o := live().(*appsv1.Deployment)
	p := packerOf(b, o)
	var c any
	for range 50 {
		in, err := new(trimmer).trim(live(another))
		if err != nil {
			b.Fatal(err)
		}
		if c, err = p.pack(in); err != nil {
			b.Fatal(err)
		}
	}
	for name, do := range map[string]func(){
		"pack": func() { _, _ = p.pack(o) }, "unpack": func() { p.unpack(c) }, "identify": func() { p.identify(c) }, "copy": func() { o.DeepCopy() },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				do()
			}
		})
	}
}

// The object that completes the dictionary is searched for in it, prefix by prefix.
func TestCompressor_MakesTheDictionaryOfALargeObjectAtOnce(t *testing.T) {
	var noise []byte
	for sum := sha256.Sum256(nil); len(noise) < 250_000; sum = sha256.Sum256(sum[:]) {
		noise = append(noise, sum[:]...)
	}
	for name, raw := range map[string][]byte{"random": noise, "text": bytes.Repeat([]byte("argument "), 30_000)} {
		c := &compressor{}
		began := time.Now()
		c.compress(raw)
		if took := time.Since(began); c.dictionary == nil || took > 10*time.Second {
			t.Errorf("%s: %s, dictionary %t", name, took, c.dictionary != nil)
		}
	}
}
