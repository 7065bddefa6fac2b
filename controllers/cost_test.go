package controllers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// maxVisited is how many objects of the caches a reconcile may visit to find those
// that it lists.
const maxVisited = 50

// scenes are what the cost of a reconcile could depend on.
var scenes = []struct {
	name    string
	prepare func(*scene)
	// allocations is how many a reconcile may need if there is nothing to write. There are
	// thousands of such reconciles when the operator starts, and many in every rollout.
	allocations float64
}{
	{"fresh", func(*scene) {}, 6500},
	{"history", func(s *scene) { s.addHistory(10, 300<<10) }, 11_500},
	{"5000 other pods", func(s *scene) { s.addOtherPods(5000) }, 6500},
}

func TestReconcile_IsCheapIfNothingChanged(t *testing.T) {
	for _, k := range Kinds(config.Default()) {
		for _, sc := range scenes {
			t.Run(k.Log.Key+"/"+sc.name, func(t *testing.T) {
				s := newScene(t, k)
				sc.prepare(s)
				s.rest()
				if n := testing.AllocsPerRun(5, s.reconcile); n > sc.allocations {
					t.Errorf("a reconcile that changes nothing needs %.0f allocations, want at most %.0f", n, sc.allocations)
				}
				*s.cache.visited = 0
				if s.reconcile(); *s.cache.visited > maxVisited {
					t.Errorf("a reconcile visits %d objects of the caches, want at most %d", *s.cache.visited, maxVisited)
				}
			})
		}
	}
}

func BenchmarkReconcile_NothingChanged(b *testing.B) {
	for _, k := range Kinds(config.Default()) {
		for _, sc := range scenes {
			b.Run(k.Log.Key+"/"+sc.name, func(b *testing.B) {
				s := newScene(b, k)
				sc.prepare(s)
				s.rest()
				b.ReportAllocs()
				for b.Loop() {
					s.reconcile()
				}
			})
		}
	}
}

// After a restart of the operator, nothing is known about earlier writes.
func BenchmarkReconcile_AfterRestart(b *testing.B) {
	for _, k := range Kinds(config.Default()) {
		b.Run(k.Log.Key, func(b *testing.B) {
			s := newScene(b, k)
			s.rest()
			b.ReportAllocs()
			for b.Loop() {
				s.restart()
				s.reconcile()
			}
		})
	}
}

// scene is an object of a kind, with a fake API server and with a cache that
// reads as that of controller-runtime does.
type scene struct {
	testing.TB
	kind   converge.AnyKind
	key    types.NamespacedName
	scheme *runtime.Scheme
	api    client.Client
	cache  cache
	clock  time.Time
	writes int
	events *events.FakeRecorder
	// generations makes applying a Deployment raise its generation, as the API server does.
	generations bool
	// refused is how the API server answers when a pod is applied, if it is not nil.
	refused error
	// allocated counts the bytes that reconciles allocate outside of the fake API
	// server, if it is not nil.
	allocated *uint64
	*converge.Reconciler
}

func newScene(tb testing.TB, k converge.AnyKind) *scene {
	tb.Helper()
	s := &scene{TB: tb, kind: k, scheme: runtime.NewScheme(), clock: time.Now()}
	if err := AddToScheme(s.scheme); err != nil {
		tb.Fatal(err)
	}
	obj := s.sample()
	s.key = client.ObjectKeyFromObject(obj)
	s.api = fake.NewClientBuilder().WithScheme(s.scheme).WithReturnManagedFields().WithObjects(obj).WithStatusSubresource(obj).
		WithInterceptorFuncs(interceptor.Funcs{
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				s.writes++
				defer s.uncounted()()
				if in, ok := o.(interface{ GetKind() *string }); ok && *in.GetKind() == "Pod" && s.refused != nil {
					return s.refused
				}
				if s.generations {
					return applyWithGeneration(ctx, c, o, opts...)
				}
				return c.Apply(ctx, o, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				s.writes++
				raw, err := p.Data(o)
				if err != nil {
					return err
				}
				defer s.uncounted()()
				return c.SubResource(sub).Patch(ctx, o, client.RawPatch(p.Type(), raw), opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				defer s.uncounted()()
				return c.Delete(ctx, o, opts...)
			},
		}).Build()
	s.cache = cache{scheme: s.scheme, types: map[reflect.Type]toolscache.Indexer{}, visited: new(int)}
	for _, o := range append(k.Watched(), k.New()) {
		s.cache.types[reflect.TypeOf(o)] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, s.indexers())
	}
	s.restart()
	s.rest()
	return s
}

// restart replaces the operator by a new process, which remembers nothing.
func (s *scene) restart() {
	c := cached{s.api, s.cache}
	s.events = events.NewFakeRecorder(1000)
	s.Reconciler = converge.NewReconciler(s.kind, c, configsource.NewReader(s.cache, s.api), apply.NewApplier(c, s.api, nil), s.events, func() time.Time { return s.clock })
}

// sample returns the object of the kind in config/samples.
func (s *scene) sample() converge.Object {
	s.Helper()
	files, err := filepath.Glob("../config/samples/*.yaml")
	if err != nil {
		s.Fatal(err)
	}
	obj := s.kind.New()
	gvk, err := apiutil.GVKForObject(obj, s.scheme)
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			s.Fatal(err)
		}
		var is metav1.TypeMeta
		if err := yaml.Unmarshal(raw, &is); err != nil {
			s.Fatal(err)
		}
		if is.GroupVersionKind() != gvk {
			continue
		}
		if err := yaml.UnmarshalStrict(raw, obj); err != nil {
			s.Fatal(err)
		}
		obj.SetNamespace("ns")
		obj.SetUID("owner")
		obj.SetGeneration(1)
		return obj
	}
	s.Fatalf("config/samples has no %s", gvk)
	return nil
}

func (s *scene) reconcile() {
	if s.allocated != nil {
		before := allocated()
		defer func() { *s.allocated += allocated() - before }()
	}
	if _, err := s.Reconcile(s.Context(), reconcile.Request{NamespacedName: s.key}); err != nil {
		s.Fatal(err)
	}
}

// uncounted returns a function that ends a time in which allocated counts nothing.
func (s *scene) uncounted() (end func()) {
	if s.allocated == nil {
		return func() {}
	}
	before := allocated()
	return func() { *s.allocated -= allocated() - before }
}

// allocated returns how many bytes this process has allocated.
func allocated() uint64 {
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return m.TotalAlloc
}

// rest reconciles until nothing is written, while the Deployment controller and
// the kubelet do their work.
func (s *scene) rest() {
	s.Helper()
	for range 20 {
		s.refresh()
		s.clock = s.clock.Add(time.Minute) // counts in the status are written late
		before := s.writes
		s.reconcile()
		if changed := s.runPods(); s.writes == before && !changed {
			s.refresh()
			s.reconcile()
			return
		}
	}
	s.Fatal("the object does not come to rest")
}

// runPods makes Deployments complete and pods ready, and reports whether that
// changed anything.
func (s *scene) runPods() (changed bool) {
	ctx := s.Context()
	var deployments appsv1.DeploymentList
	var pods corev1.PodList
	if err := errors.Join(s.api.List(ctx, &deployments), s.api.List(ctx, &pods)); err != nil {
		s.Fatal(err)
	}
	for _, d := range deployments.Items {
		n := *d.Spec.Replicas
		if d.Status.AvailableReplicas == n {
			continue
		}
		d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name + "-1", Labels: d.Spec.Template.Labels, Annotations: d.Spec.Template.Annotations}, Spec: d.Spec.Template.Spec}
		if err := errors.Join(s.api.Status().Update(ctx, &d), s.api.Create(ctx, pod)); err != nil {
			s.Fatal(err)
		}
		changed = true
	}
	for _, p := range pods.Items {
		if p.Status.Phase != "" || len(p.Spec.SchedulingGates) > 0 {
			continue
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Ready: true, Image: c.Image, ImageID: "sha256:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		if err := s.api.Status().Update(ctx, &p); err != nil {
			s.Fatal(err)
		}
		changed = true
	}
	return changed
}

// addHistory adds earlier revisions that are kept, each of which mounts a
// snapshot of that many bytes, if the kind has snapshots.
func (s *scene) addHistory(n, size int) {
	s.Helper()
	ctx := s.Context()
	var revisions appsv1.ControllerRevisionList
	if err := s.api.List(ctx, &revisions); err != nil {
		s.Fatal(err)
	}
	if len(revisions.Items) == 0 {
		return // the kind has no revisions
	}
	current := revisions.Items[0]
	snapshot := s.kind.References != nil
	for i := range n {
		var data struct {
			Template *corev1.PodTemplateSpec `json:"template"`
			Revision int64                   `json:"revision"`
		}
		if err := json.Unmarshal(current.Data.Raw, &data); err != nil {
			s.Fatal(err)
		}
		old := current.DeepCopy()
		old.ResourceVersion, old.UID = "", ""
		old.Name = fmt.Sprintf("%s-old%d", s.key.Name, i)
		data.Revision, old.Revision = int64(100+i), int64(100+i)
		data.Template.Annotations[naming.AnnotationTemplate] = fmt.Sprintf("old%d", i)
		data.Template.Annotations["filler"] = strings.Repeat("x", 50<<10)
		if snapshot {
			c := configsource.NewSnapshot(s.key.Name, "content", "site", map[string]string{"index.html": fmt.Sprintf("%*d", size, i)}, nil)
			data.Template.Spec.Volumes = append(data.Template.Spec.Volumes, corev1.Volume{Name: "content", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: c.Name}},
			}})
			cm := &corev1.ConfigMap{ObjectMeta: old.ObjectMeta, Data: c.Data, Immutable: new(true)}
			cm.Name, cm.Annotations = c.Name, map[string]string{naming.AnnotationOwner: "owner", naming.AnnotationSource: fmt.Sprintf("site@u/%d", i+1)}
			if err := s.api.Create(ctx, cm); err != nil {
				s.Fatal(err)
			}
		}
		raw, err := json.Marshal(data)
		if err != nil {
			s.Fatal(err)
		}
		old.Data.Raw = raw
		if err := s.api.Create(ctx, old); err != nil {
			s.Fatal(err)
		}
	}
	s.rest()
	if err := s.api.List(ctx, &revisions); err != nil {
		s.Fatal(err)
	}
	if len(revisions.Items) < n {
		s.Fatalf("%d of %d revisions are kept: the test shows nothing", len(revisions.Items), n)
	}
}

// addOtherPods adds pods of other objects in the same namespace, only to the
// cache.
func (s *scene) addOtherPods(n int) {
	s.Helper()
	pods := s.cache.types[reflect.TypeFor[*corev1.Pod]()]
	for i := range n {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("other-%d", i), UID: types.UID(fmt.Sprintf("other-%d", i)), ResourceVersion: "1", Labels: map[string]string{
			naming.LabelManagedBy: naming.ManagedBy, "app": "other",
		}}}
		if err := pods.Add(p); err != nil {
			s.Fatal(err)
		}
	}
}

// refresh brings the cache up to date with the fake API server, which assigns
// no UIDs.
func (s *scene) refresh() {
	s.Helper()
	for t, indexer := range s.cache.types {
		gvk, err := apiutil.GVKForObject(reflect.New(t.Elem()).Interface().(runtime.Object), s.scheme)
		if err != nil {
			s.Fatal(err)
		}
		list, err := s.scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err != nil {
			s.Fatal(err)
		}
		if err := s.api.List(s.Context(), list.(client.ObjectList)); err != nil {
			s.Fatal(err)
		}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			if o.GetUID() == "" {
				o.SetUID(types.UID(gvk.Kind + "-" + o.GetName()))
				if err := s.api.Update(s.Context(), o); err != nil {
					return err
				}
			}
			compare.ReduceManagedFields(o)
			return indexer.Add(o.DeepCopyObject())
		})
		if err != nil {
			s.Fatal(err)
		}
	}
}

// indexers are those of the operator's caches.
func (s *scene) indexers() toolscache.Indexers {
	all := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	add := func(name string, values func(client.Object) []string) {
		all[name] = func(in any) ([]string, error) {
			o := in.(client.Object)
			var keys []string
			for _, v := range values(o) {
				keys = append(keys, o.GetNamespace()+"/"+v)
			}
			return keys, nil
		}
	}
	add(naming.IndexOwner, func(o client.Object) []string { return []string{string(naming.OwnerUID(o))} })
	add(naming.IndexDisowned, func(o client.Object) []string {
		if naming.IsDisowned(o) {
			return []string{naming.Disowned}
		}
		return nil
	})
	add(naming.IndexUnowned, func(o client.Object) []string {
		if naming.IsChild(o) {
			return nil
		}
		return []string{naming.Unowned}
	})
	for _, w := range s.kind.Watches {
		if w.Index != "" {
			add(w.Index, w.IndexValues)
		}
	}
	return all
}

// cache reads like the cache of controller-runtime.
type cache struct {
	scheme *runtime.Scheme
	types  map[reflect.Type]toolscache.Indexer
	// visited counts the objects that were visited by lists.
	visited *int
}

func (c cache) Get(_ context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	options := (&client.GetOptions{}).ApplyOptions(opts)
	indexer, known := c.types[reflect.TypeOf(into)]
	var found any
	if known {
		found, known, _ = indexer.GetByKey(key.String())
	}
	if !known {
		return apierrors.NewNotFound(schema.GroupResource{Resource: reflect.TypeOf(into).String()}, key.Name)
	}
	found = read(found.(client.Object), options.UnsafeDisableDeepCopy)
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(found).Elem())
	return nil
}

func (c cache) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	items, _ := reflect.TypeOf(into).Elem().FieldByName("Items")
	indexer := c.types[reflect.PointerTo(items.Type.Elem())]
	index, value := toolscache.NamespaceIndex, options.Namespace
	if options.FieldSelector != nil {
		r := options.FieldSelector.Requirements()[0]
		index, value = r.Field, options.Namespace+"/"+r.Value
	}
	found, err := indexer.ByIndex(index, value)
	if err != nil {
		return err
	}
	*c.visited += len(found)
	all := make([]runtime.Object, 0, len(found))
	for _, f := range found {
		o := f.(client.Object)
		if options.LabelSelector != nil && !options.LabelSelector.Matches(labels.Set(o.GetLabels())) {
			continue
		}
		all = append(all, read(o, options.UnsafeDisableDeepCopy))
	}
	return meta.SetList(into, all)
}

// read returns a copy of a cached object, or else the object itself. Of the types
// that the operator's cache holds encoded, that has only its metadata.
func read(o client.Object, shared *bool) client.Object {
	if shared == nil || !*shared {
		return o.DeepCopyObject().(client.Object)
	}
	switch o := o.(type) {
	case *appsv1.Deployment:
		return &appsv1.Deployment{ObjectMeta: o.ObjectMeta}
	case *appsv1.ControllerRevision:
		return &appsv1.ControllerRevision{ObjectMeta: o.ObjectMeta}
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: o.ObjectMeta}
	case *corev1.Service:
		return &corev1.Service{ObjectMeta: o.ObjectMeta}
	case *policyv1.PodDisruptionBudget:
		return &policyv1.PodDisruptionBudget{ObjectMeta: o.ObjectMeta}
	}
	return o
}

// cached is a client that reads from a cache.
type cached struct {
	client.Client
	cache client.Reader
}

func (c cached) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return c.cache.Get(ctx, key, o, opts...)
}

func (c cached) List(ctx context.Context, l client.ObjectList, opts ...client.ListOption) error {
	return c.cache.List(ctx, l, opts...)
}
