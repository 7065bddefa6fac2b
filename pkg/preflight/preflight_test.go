package preflight

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// testModel is a model that consists of two functions.
type testModel struct {
	plan         func() (converge.Plan, error)
	updateStatus func(converge.Outcome)
}

func (m testModel) Plan() (converge.Plan, error) { return m.plan() }

func (m testModel) UpdateStatus(out converge.Outcome) {
	if m.updateStatus != nil {
		m.updateStatus(out)
	}
}

type app = demoapplicationv1.DemoApplication

// kind creates a Deployment with the spec's image. If keep is true, it reports
// the addition of env as pending: a small version of the template contract.
type kind struct {
	env  string // the addition of a newer operator's template
	keep bool   // whether the addition waits for the user's next change
	also []apply.Intent
	prune,
	err bool
}

func podLabels(a *app) map[string]string { return map[string]string{"app": a.Name} }

func (k kind) template(a *app) *corev1ac.PodTemplateSpecApplyConfiguration {
	c := corev1ac.Container().WithName("web").WithImage(a.Spec.Image)
	if k.env != "" && !k.keep {
		c.WithEnv(corev1ac.EnvVar().WithName(k.env).WithValue("1"))
	}
	return resources.Template(podLabels(a), resources.PodSpec().WithContainers(c))
}

func (k kind) kind() converge.Kind[*app, *appsv1.Deployment] {
	return converge.Kind[*app, *appsv1.Deployment]{
		New:      func() *app { return &app{} },
		Children: []client.Object{&appsv1.Deployment{}, &corev1.ConfigMap{}},
		Paused:   func(a *app) bool { return a.Spec.Paused },
		Observe: func(ctx context.Context, r converge.Reader, a *app) (*appsv1.Deployment, error) {
			return converge.GetOwned(ctx, r, a, a.Name, &appsv1.Deployment{})
		},
		Model: func(a *app, d *appsv1.Deployment) converge.Model {
			return testModel{plan: func() (converge.Plan, error) {
				plan := converge.Plan{Apply: append([]apply.Intent{resources.Deployment(resources.Rolling{
					Name: a.Name, Namespace: a.Namespace, Replicas: new(int32(3)), Selector: podLabels(a), Template: k.template(a),
				})}, k.also...)}
				if k.prune {
					plan = converge.Plan{Prune: []client.Object{d}}
				}
				if k.err {
					return plan, fault.Stalled(messages.New("NotFound", "there is no ConfigMap x"))
				}
				return plan, nil
			}, updateStatus: func(converge.Outcome) {
				if k.keep && k.env != "" {
					a.Status.PendingChanges = []string{"spec.containers[web].env would be added"}
				}
			}}
		},
	}
}

// server is an API server that records requests.
type server struct {
	client.Client
	asked  []string
	refuse func(verb, what string) error
}

func newServer(t *testing.T, objects ...client.Object) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), demoapplicationv1.AddToScheme(scheme), webserverv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	s := &server{}
	ask := func(verb string, o runtime.Object) error {
		what := typeName(o)
		s.asked = append(s.asked, verb+" "+what)
		if s.refuse != nil {
			return s.refuse(verb, what)
		}
		return nil
	}
	s.Client = interceptor.NewClient(
		fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(objects...).Build(),
		interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := ask("get", o); err != nil {
					return err
				}
				return c.Get(ctx, k, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				if err := ask("list", l); err != nil {
					return err
				}
				return c.List(ctx, l, opts...)
			},
		})
	return s
}

// typeName returns the name of a type without its package, and "metadata" for
// lists of metadata.
func typeName(o any) string {
	if _, ok := o.(*metav1.PartialObjectMetadataList); ok {
		return "metadata"
	}
	return reflect.TypeOf(o).Elem().Name()
}

// operate runs the older operator, which creates the children.
func (s *server) operate(t *testing.T) {
	t.Helper()
	var all demoapplicationv1.DemoApplicationList
	if err := s.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	a := apply.NewApplier(s.Client, s.Client, nil)
	for i := range all.Items {
		o := &all.Items[i]
		model, err := converge.Erase(kind{}.kind()).Offline(t.Context(), o, nil)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := model.Plan()
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range plan.Apply {
			if _, err := a.Apply(t.Context(), apply.Owner{Object: o, GVK: metav1.GroupVersionKind(demoapplicationv1.GroupVersion.WithKind("DemoApplication"))}, in); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.asked = nil
}

func object(change ...func(*app)) *app {
	a := &app{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-web", Generation: 1},
		Spec:       demoapplicationv1.DemoApplicationSpec{Image: "web:1"},
	}
	a.Status.ObservedGeneration = 1
	for _, c := range change {
		c(a)
	}
	return a
}

func TestReport(t *testing.T) {
	const env = "spec.template.spec.containers[web].env would be added"
	deployment := func(pods int32, action string, fields ...string) []Child {
		return []Child{{Kind: "Deployment", Name: "web", Action: action, Fields: fields, Pods: pods}}
	}
	for name, tc := range map[string]struct {
		object *app
		newer  kind
		fresh  bool // no operator has run yet
		want   Object
		code   int
	}{
		"the same operator":          {object(), kind{}, false, Object{}, 0},
		"another template, kept":     {object(), kind{env: "A", keep: true}, false, Object{Pending: []string{"spec.containers[web].env would be added"}}, 0},
		"another template, not kept": {object(), kind{env: "A"}, false, Object{Pods: 3, Children: deployment(3, "change", env)}, 1},
		"paused": {
			object(func(a *app) { a.Spec.Paused = true }),
			kind{env: "A"},
			false,
			Object{Paused: true, Children: deployment(3, "change", env)},
			0,
		},
		"nothing made yet": {object(), kind{}, true, Object{Children: deployment(0, "create")}, 0},
		"a child no longer wanted": {
			object(),
			kind{prune: true},
			false,
			Object{Pods: 3, Children: deployment(3, "delete")},
			1,
		},
		"an error of the kind": {
			object(),
			kind{err: true},
			false,
			Object{Notes: []string{"it would not be completed: there is no ConfigMap x"}},
			0,
		},
		"a change not yet acted on": {
			object(func(a *app) { a.Generation = 2 }),
			kind{},
			false,
			Object{Notes: []string{"the operator that runs now has not yet acted on the latest change of its spec, which is a part of this report"}},
			0,
		},
		"being deleted": {object(func(a *app) {
			a.DeletionTimestamp, a.Finalizers = new(metav1.Now()), []string{naming.Finalizer}
		}), kind{env: "A"}, true, Object{Notes: []string{"it is being deleted; it is left out"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, tc.object)
			if !tc.fresh {
				s.operate(t)
			}
			r := run(t.Context(), s, []converge.AnyKind{converge.Erase(tc.newer.kind())}, Options{Version: "v2"})
			tc.want.Kind, tc.want.Namespace, tc.want.Name = "DemoApplication", "shop", "web"
			tc.want.Children, tc.want.Pending = orNone(tc.want.Children), orNone(tc.want.Pending)
			if diff := cmp.Diff([]Object{tc.want}, r.Objects); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			if got := r.ExitCode(); got != tc.code {
				t.Errorf("exit code %d, want %d", got, tc.code)
			}
			// one LIST per type, and one read of each child that is in no list
			want := []string{"list DemoApplicationList", "list DeploymentList", "list ConfigMapList"}
			if tc.fresh && tc.object.DeletionTimestamp == nil {
				want = append(want, "get Deployment")
			}
			if diff := cmp.Diff(want, s.asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// The spec is that of the file. The status and the children are those in the cluster.
func TestRun_EvaluatesObjectsAsIfTheyWereApplied(t *testing.T) {
	for name, tc := range map[string]struct {
		wanted  *app
		actions []string
		pods    int32
	}{
		"unchanged": {object(), nil, 0},
		"changed":   {object(func(a *app) { a.UID, a.Spec.Image = "", "web:2" }), []string{"change Deployment web"}, 3},
		"new":       {object(func(a *app) { a.UID, a.Name = "", "fresh" }), []string{"create Deployment fresh"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, object(), object(func(a *app) { a.Name, a.UID = "other", "uid-other" }))
			s.operate(t)
			r := run(t.Context(), s, []converge.AnyKind{converge.Erase(kind{}.kind())}, Options{Namespaces: []string{"shop"}, Objects: []converge.Object{tc.wanted}})
			if len(r.Objects) != 1 {
				t.Fatalf("%d objects: %+v", len(r.Objects), r)
			}
			var actions []string
			for _, c := range r.Objects[0].Children {
				actions = append(actions, c.Action+" "+c.Kind+" "+c.Name)
			}
			if diff := cmp.Diff(tc.actions, actions); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if r.Objects[0].Pods != tc.pods {
				t.Errorf("%d pods would restart, want %d", r.Objects[0].Pods, tc.pods)
			}
		})
	}
}

// Applying a file removes what its earlier version stated, and keeps what admission added.
func TestMerge_KeepsWhatNoClientOwns(t *testing.T) {
	read := func(spec string) *app {
		t.Helper()
		a := object()
		if err := json.Unmarshal([]byte(spec), &a.Spec); err != nil {
			t.Fatal(err)
		}
		return a
	}
	live := read(`{"image":"web:1","replica":3,"paused":true,"networkPolicy":{"preset":"Isolated"},"pod":{"labels":{"team":"a"},"nodeSelector":{"disk":"ssd"}}}`)
	live.ManagedFields = []metav1.ManagedFieldsEntry{
		{Manager: "kubectl", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:image":{},"f:replica":{},"f:pod":{"f:nodeSelector":{}}}}`)},
		{Manager: "other", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:paused":{}}}`)},
		{Manager: "before-1.20"},
	}
	got, err := merge(&app{}, read(`{"image":"web:2","pod":{"nodeSelector":{"disk":"hdd"}}}`), live)
	if err != nil {
		t.Fatal(err)
	}
	want := read(`{"image":"web:2","networkPolicy":{"preset":"Isolated"},"pod":{"labels":{"team":"a"},"nodeSelector":{"disk":"hdd"}}}`)
	if diff := cmp.Diff(want.Spec, got.(*app).Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRun_ReportsConflicts(t *testing.T) {
	theirs := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	r := run(t.Context(), newServer(t, object(), theirs), []converge.AnyKind{converge.Erase(kind{}.kind())}, Options{})
	o := r.Objects[0]
	if len(o.Children) != 0 || len(o.Notes) != 1 || !strings.Contains(o.Notes[0], "exists already and has no owner") || r.ExitCode() != 0 {
		t.Errorf("got %+v", r)
	}
}

// If something cannot be read, the result is unknown, and everything else is
// still reported.
func TestRun_ReportsUnreadableResources(t *testing.T) {
	for name, tc := range map[string]struct {
		refused string
		lists   int // in the report
	}{
		"the objects":  {"DemoApplicationList", 1},
		"the children": {"DeploymentList", 1},
		"one child":    {"Deployment", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, object())
			s.refuse = func(_, what string) error {
				if what == tc.refused {
					return apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "things"}, "", errors.New("no"))
				}
				return nil
			}
			r := run(t.Context(), s, []converge.AnyKind{converge.Erase(kind{}.kind())}, Options{})
			if r.ExitCode() != 2 || len(r.Unread) != tc.lists {
				t.Errorf("exit code %d, unread %q", r.ExitCode(), r.Unread)
			}
			var out bytes.Buffer
			if err := r.Table(&out); err != nil || !strings.Contains(out.String(), "forbidden") || !strings.Contains(out.String(), "not known") {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}

// A kind that is introduced by the upgrade has no objects. A kind that the
// cluster serves only in other versions may have some. A cluster that serves none is
// probably another one.
func TestRun_KindThatIsNotServed(t *testing.T) {
	for name, tc := range map[string]struct {
		served, another bool
		code            int
	}{"at all": {false, true, 0}, "in this version": {true, true, 2}, "and no other": {false, false, 2}} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			s.refuse = func(_, what string) error {
				if what == "DemoApplicationList" {
					return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: demoapplicationv1.GroupVersion.Group, Kind: "DemoApplication"}, SearchedVersions: []string{"v1"}}
				}
				return nil
			}
			mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: demoapplicationv1.GroupVersion.Group, Version: "v9"}})
			if tc.served {
				mapper.Add(schema.GroupVersionKind{Group: demoapplicationv1.GroupVersion.Group, Version: "v9", Kind: "DemoApplication"}, meta.RESTScopeNamespace)
			}
			kinds := []converge.AnyKind{converge.Erase(kind{}.kind())}
			if tc.another {
				kinds = append(kinds, converge.Erase(converge.Kind[*webserverv1.WebServer, int]{New: func() *webserverv1.WebServer { return &webserverv1.WebServer{} }}))
			}
			r := run(t.Context(), mapped{s, mapper}, kinds, Options{})
			if r.ExitCode() != tc.code {
				t.Errorf("exit code %d, unread %q", r.ExitCode(), r.Unread)
			}
		})
	}
}

func TestRun_ReportsMisspelledNamespaces(t *testing.T) {
	s := newServer(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	r := run(t.Context(), s, []converge.AnyKind{converge.Erase(kind{}.kind())}, Options{Namespaces: []string{"shop", "shpo"}, MustExist: []string{"shop", "shpo"}})
	if diff := cmp.Diff([]string{`namespace "shpo" does not exist`}, r.Unread); r.ExitCode() != 2 || diff != "" {
		t.Errorf("exit code %d (-want +got):\n%s", r.ExitCode(), diff)
	}
}

type mapped struct {
	client.Client
	mapper meta.RESTMapper
}

func (m mapped) RESTMapper() meta.RESTMapper { return m.mapper }

func TestRun_ReadsConfigMapsLikeTheReconciler(t *testing.T) {
	k := kind{}.kind()
	var got map[string]configsource.Source
	k.References = func(*app) []configsource.Reference {
		return []configsource.Reference{{Name: "settings"}, {Name: "gone"}}
	}
	observe := k.Observe
	k.Observe = func(ctx context.Context, r converge.Reader, a *app) (*appsv1.Deployment, error) {
		got = r.Sources
		return observe(ctx, r, a)
	}
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"a": "b"}}
	s := newServer(t, object(), settings)
	r := run(t.Context(), s, []converge.AnyKind{converge.Erase(k)}, Options{})
	if r.ExitCode() != 0 || !got["settings"].Found || got["settings"].Content.Data["a"] != "b" || got["gone"].Found {
		t.Errorf("%+v %+v", got, r)
	}
	if n := len(slices.DeleteFunc(slices.Clone(s.asked), func(a string) bool { return a != "list metadata" })); n != 1 {
		t.Errorf("metadata was listed %d times: %q", n, s.asked)
	}
}

func TestRun_Namespaces(t *testing.T) {
	elsewhere := object(func(a *app) { a.Namespace, a.UID = "other", "y" })
	s := newServer(t, object(), elsewhere)
	for _, tc := range []struct {
		namespaces []string
		want       int
	}{{nil, 2}, {[]string{"shop"}, 1}, {[]string{"shop", "other"}, 2}, {[]string{"none"}, 0}} {
		r := run(t.Context(), s, []converge.AnyKind{converge.Erase(kind{}.kind())}, Options{Namespaces: tc.namespaces})
		if len(r.Objects) != tc.want {
			t.Errorf("%q: %d objects, want %d", tc.namespaces, len(r.Objects), tc.want)
		}
	}
}

func TestSnapshot_AnswersLikeTheCaches(t *testing.T) {
	ctx := t.Context()
	child := func(name, owner string, l map[string]string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: l, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "X", Name: "x", UID: types.UID("u-" + owner), Controller: new(true)},
		}}}
	}
	mine := map[string]string{naming.LabelManagedBy: naming.ManagedBy, "app": "web"}
	s := &snapshot{Client: newServer(t, child("a", "x", mine), child("b", "y", mine), child("foreign", "x", nil)), types: map[listed]*held{}, indexes: map[string]client.IndexerFunc{
		"by-name": func(o client.Object) []string { return []string{o.GetName()} },
	}}
	if _, err := s.load(ctx, &appsv1.ControllerRevision{}, ours); err != nil {
		t.Fatal(err)
	}
	names := func(opts ...client.ListOption) string {
		var l appsv1.ControllerRevisionList
		if err := s.List(ctx, &l, opts...); err != nil {
			return err.Error()
		}
		var all []string
		for _, i := range l.Items {
			all = append(all, i.Name)
		}
		slices.Sort(all)
		return strings.Join(all, " ")
	}
	for _, tc := range []struct {
		got, want string
	}{
		{names(), "a b"},
		{names(client.InNamespace("shop")), "a b"},
		{names(client.InNamespace("other")), ""},
		{names(client.MatchingLabels{"app": "web"}), "a b"},
		{names(client.MatchingLabels{"app": "other"}), ""},
		{names(client.MatchingFields{naming.IndexOwner: "u-x"}), "a"},
		{names(client.MatchingFields{"by-name": "b"}), "b"},
		{names(client.MatchingFields{"spec.x": "u-x"}), "there is no index for spec.x=u-x"},
	} {
		if tc.got != tc.want {
			t.Errorf("got %q, want %q", tc.got, tc.want)
		}
	}
	one := &appsv1.ControllerRevision{}
	if err := s.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "a"}, one); err != nil || one.Name != "a" {
		t.Errorf("%v %q", err, one.Name)
	}
	one.Labels["app"] = "changed" // the returned object is a copy
	if got := names(client.MatchingLabels{"app": "web"}); got != "a b" {
		t.Errorf("the snapshot changed: %q", got)
	}
	if err := s.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "foreign"}, one); !apierrors.IsNotFound(err) {
		t.Errorf("without our label: %v", err)
	}
	if err := s.Get(ctx, client.ObjectKey{Name: "x"}, &corev1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("a type that is not declared: %v", err)
	}
}

// A kind checks whether a type is served by the cluster, and must get the same
// answer as from the operator's cache.
func TestRun_TypeThatIsNotServed(t *testing.T) {
	srv := newServer(t, object())
	srv.refuse = func(_, what string) error {
		if what == "StatefulSetList" {
			return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, SearchedVersions: []string{"v1"}}
		}
		return nil
	}
	k := kind{}.kind()
	unknown := 0
	observe := k.Observe
	k.Observe = func(ctx context.Context, r converge.Reader, a *app) (*appsv1.Deployment, error) {
		_, no, err := converge.GetOwnedIfServed(ctx, r, a, "web", &appsv1.StatefulSet{})
		if err != nil || !no {
			t.Errorf("unknown %v, %v", no, err)
		}
		unknown++
		return observe(ctx, r, a)
	}
	r := run(t.Context(), mapped{srv, meta.NewDefaultRESTMapper(nil)}, []converge.AnyKind{converge.Erase(k)}, Options{})
	if r.ExitCode() != 0 || unknown != 1 {
		t.Errorf("asked %d times: %+v", unknown, r)
	}
}

// A child whose API is not served by the cluster is omitted, as by the
// operator, and without a note if the child is optional.
func TestRun_ChildThatIsNotServed(t *testing.T) {
	for name, tc := range map[string]struct {
		ifKnown bool
		notes   []string
	}{
		"can be done without": {true, nil},
		"is asked for":        {false, []string{"it would not be completed: StatefulSet is not available in this cluster."}},
	} {
		t.Run(name, func(t *testing.T) {
			in := apply.New(appsv1ac.StatefulSet("web", "shop"), func() *appsv1.StatefulSet { return &appsv1.StatefulSet{} })
			in.Optional = tc.ifKnown
			srv := newServer(t, object())
			srv.operate(t)
			srv.refuse = func(_, what string) error {
				if what == "StatefulSetList" || what == "StatefulSet" {
					return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, SearchedVersions: []string{"v1"}}
				}
				return nil
			}
			r := run(t.Context(), mapped{srv, meta.NewDefaultRESTMapper(nil)}, []converge.AnyKind{converge.Erase(kind{also: []apply.Intent{in}}.kind())}, Options{})
			if r.ExitCode() != 0 || len(r.Objects) != 1 || len(r.Objects[0].Unread) != 0 {
				t.Errorf("exit code %d: %+v", r.ExitCode(), r)
			}
			if diff := cmp.Diff(tc.notes, r.Objects[0].Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_ReadsSecretsLikeTheReconciler(t *testing.T) {
	k := kind{}.kind()
	var got map[string]configsource.SecretDigest
	k.Secrets = func(*app) []string { return []string{"password", "gone"} }
	observe := k.Observe
	k.Observe = func(ctx context.Context, r converge.Reader, a *app) (*appsv1.Deployment, error) {
		got = r.Secrets
		return observe(ctx, r, a)
	}
	s := newServer(t, object(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "password"}, Data: map[string][]byte{"a": []byte("b")}})
	s.operate(t)
	if r := run(t.Context(), s, []converge.AnyKind{converge.Erase(k)}, Options{}); r.ExitCode() != 0 {
		t.Errorf("unread %q", r.Unread)
	}
	if len(got) != 1 || got["password"].Digest == "" {
		t.Errorf("got digests of %v, want one of the existing Secret", got)
	}
	want := []string{"list DemoApplicationList", "list DeploymentList", "list ConfigMapList", "list metadata", "get Secret"}
	if diff := cmp.Diff(want, s.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// Some types matter regardless of their owner, so all their objects are read.
func TestRun_ReadsUnownedObjects(t *testing.T) {
	k := kind{}.kind()
	k.Children = append(k.Children, &policyv1.PodDisruptionBudget{})
	k.Unowned = []client.Object{&policyv1.PodDisruptionBudget{}}
	var names []string
	observe := k.Observe
	k.Observe = func(ctx context.Context, r converge.Reader, a *app) (*appsv1.Deployment, error) {
		var l policyv1.PodDisruptionBudgetList
		if err := converge.ListUnowned(ctx, r, a, &l); err != nil {
			t.Error(err)
		}
		for _, b := range l.Items {
			names = append(names, b.Name)
		}
		return observe(ctx, r, a)
	}
	budget := func(ns, name string, change func(*metav1.ObjectMeta)) client.Object {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}}
		change(&b.ObjectMeta)
		return b
	}
	labelled := func(m *metav1.ObjectMeta) { m.Labels = map[string]string{naming.LabelManagedBy: naming.ManagedBy} }
	by := func(uid types.UID) func(*metav1.ObjectMeta) {
		return func(m *metav1.ObjectMeta) {
			labelled(m)
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "X", Name: "x", UID: uid, Controller: new(true)}}
		}
	}
	s := newServer(t, object(),
		budget("shop", "theirs", func(*metav1.ObjectMeta) {}),
		budget("shop", "copied", labelled),
		budget("shop", "ours", by("uid-web")),
		budget("shop", "ours-without-label", func(m *metav1.ObjectMeta) { by("uid-web")(m); m.Labels = nil }),
		budget("shop", "ours-without-owner", func(m *metav1.ObjectMeta) {
			labelled(m)
			m.Annotations = map[string]string{naming.AnnotationOwner: "uid-web"}
		}),
		budget("shop", "of-another-of-ours", by("other")),
		budget("elsewhere", "theirs", func(*metav1.ObjectMeta) {}))
	s.operate(t)
	run(t.Context(), s, []converge.AnyKind{converge.Erase(k)}, Options{})
	slices.Sort(names)
	if diff := cmp.Diff([]string{"copied", "theirs"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestReadOnly_SendsOnlyReads(t *testing.T) {
	var sent []string
	cfg := &rest.Config{Host: "https://nowhere.invalid", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		sent = append(sent, r.Method)
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("{}"))}, nil
	})}
	hc, err := rest.HTTPClientFor(ReadOnly(cfg))
	if err != nil {
		t.Fatal(err)
	}
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "PROPFIND"} {
		req, err := http.NewRequestWithContext(t.Context(), method, "https://nowhere.invalid/apis/apps/v1/x", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := hc.Do(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		if (err == nil) != (method == http.MethodGet) {
			t.Errorf("%s: %v", method, err)
		}
		if err != nil && !strings.Contains(err.Error(), method+" /apis/apps/v1/x is refused") {
			t.Errorf("%s: %v", method, err)
		}
	}
	if !slices.Equal(sent, []string{"GET"}) {
		t.Errorf("sent %q", sent)
	}
	if cfg.WrapTransport != nil {
		t.Error("the caller's configuration was changed")
	}
}

func TestPodsOf_CountsRestarts(t *testing.T) {
	running := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	ended := &corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed}}
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(4))}}
	for name, tc := range map[string]struct {
		live client.Object
		path string
		want int32
	}{
		"template":            {deployment, "spec.template.spec.containers[a].image", 4},
		"template, all of it": {deployment, "spec.template", 4},
		"not the template":    {deployment, "spec.templates", 0},
		"replicas":            {deployment, "spec.replicas", 0},
		"unset replicas":      {&appsv1.Deployment{}, "spec.template.metadata.annotations.x", 1},
		"to zero scaled":      {&appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(0))}}, "spec.template.x", 0},
		"StatefulSet":         {&appsv1.StatefulSet{}, "spec.template.x", 1},
		"DaemonSet":           {&appsv1.DaemonSet{Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 7}}, "spec.template.x", 7},
		"pod":                 {running, "spec.containers[a].image", 1},
		"pod, its label":      {running, "metadata.labels.a", 0},
		"pod, its gate":       {running, "spec.schedulingGates[a]", 0},
		"pod that ended":      {ended, "spec.containers[a].image", 0},
		"Service":             {&corev1.Service{}, "spec.ports[80]", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var o Object
			o.change("K", "n", apply.Preview{Action: apply.Changed, Live: tc.live, Differences: []apply.Difference{{Path: "metadata.labels.b", Verb: "change"}, {Path: tc.path, Verb: "change"}}})
			if o.Pods != tc.want {
				t.Errorf("%d pods, want %d", o.Pods, tc.want)
			}
		})
	}
}

func TestLost_CountsAddresses(t *testing.T) {
	service := func(kind corev1.ServiceType, nodePorts ...int32) *corev1.Service {
		s := &corev1.Service{Spec: corev1.ServiceSpec{Type: kind}}
		for i, p := range nodePorts {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: strconv.Itoa(i), Port: 80 + int32(i), NodePort: p})
		}
		return s
	}
	becomes := func(kind corev1.ServiceType) map[string]any {
		return map[string]any{"spec": map[string]any{"type": string(kind)}}
	}
	change := func(paths ...string) []apply.Difference {
		var all []apply.Difference
		for _, p := range paths {
			path, verb, _ := strings.Cut(p, " ")
			all = append(all, apply.Difference{Path: path, Verb: verb})
		}
		return all
	}
	for name, tc := range map[string]struct {
		live        client.Object
		stated      map[string]any
		differences []apply.Difference
		want        int32
	}{
		"not a Service":              {live: &appsv1.Deployment{}, differences: change("spec.ports[80].nodePort change")},
		"an annotation":              {live: service("NodePort", 30010), stated: becomes("NodePort"), differences: change("metadata.annotations.a change")},
		"NodePort to ClusterIP":      {live: service("NodePort", 30010, 30011), stated: becomes("ClusterIP"), differences: change("spec.type change"), want: 2},
		"NodePort to LoadBalancer":   {live: service("NodePort", 30010), stated: becomes("LoadBalancer"), differences: change("spec.type change")},
		"LoadBalancer to NodePort":   {live: service("LoadBalancer", 30010), stated: becomes("NodePort"), differences: change("spec.type change"), want: 1},
		"LoadBalancer to ClusterIP":  {live: service("LoadBalancer", 30010), stated: becomes("ClusterIP"), differences: change("spec.type change"), want: 2},
		"ClusterIP to NodePort":      {live: service("ClusterIP", 0), stated: becomes("NodePort"), differences: change("spec.type change", "spec.ports[80].nodePort be added")},
		"ClusterIP, another port":    {live: service("ClusterIP", 0), stated: becomes("ClusterIP"), differences: change("spec.ports[80] be removed", "spec.ports[81] be added")},
		"another node port":          {live: service("NodePort", 30010, 30011), stated: becomes("NodePort"), differences: change("spec.ports[80].nodePort change"), want: 1},
		"no node port is stated":     {live: service("NodePort", 30010), differences: change("spec.ports[80].nodePort be removed"), want: 1},
		"a port is removed":          {live: service("NodePort", 30010, 30011), stated: becomes("NodePort"), differences: change("spec.ports[81] be removed"), want: 1},
		"a port leads somewhere new": {live: service("NodePort", 30010), stated: becomes("NodePort"), differences: change("spec.ports[80].targetPort change")},
	} {
		t.Run(name, func(t *testing.T) {
			var o Object
			o.change("Service", "web", apply.Preview{Action: apply.Changed, Live: tc.live, Stated: tc.stated, Differences: tc.differences})
			if o.Addresses != tc.want {
				t.Errorf("%d addresses, want %d", o.Addresses, tc.want)
			}
			r := Report{Objects: []Object{o}}
			r.sum()
			if got, want := r.ExitCode(), min(int(tc.want), 1); got != want {
				t.Errorf("exit code %d, want %d", got, want)
			}
		})
	}
}

func TestLost_CountsDeletedServices(t *testing.T) {
	k := kind{}.kind()
	model := k.Model
	k.Model = func(a *app, d *appsv1.Deployment) converge.Model {
		return testModel{plan: func() (converge.Plan, error) {
			s := &corev1.Service{Spec: corev1.ServiceSpec{Type: "LoadBalancer", Ports: []corev1.ServicePort{{Port: 80, NodePort: 30010}}}}
			s.Namespace, s.Name, s.OwnerReferences = d.Namespace, "web", d.OwnerReferences
			return converge.Plan{Prune: []client.Object{s}}, nil
		}, updateStatus: model(a, d).UpdateStatus}
	}
	s := newServer(t, object())
	s.operate(t)
	r := run(t.Context(), s, []converge.AnyKind{converge.Erase(k)}, Options{})
	if r.Summary.Addresses != 2 || r.ExitCode() != 1 {
		t.Errorf("%d addresses and exit code %d, want 2 and 1", r.Summary.Addresses, r.ExitCode())
	}
}

func report() Report {
	r := Report{Version: "v2", Objects: []Object{
		{Kind: "WebServer", Namespace: "shop", Name: "front", Pods: 3, Children: []Child{
			{Kind: "Deployment", Name: "front", Action: "change", Fields: []string{"spec.template.spec.containers[web].env would be added"}, Pods: 3},
			{Kind: "Service", Name: "front-service", Action: "create"},
			{Kind: "Service", Name: "front-old", Action: "delete", Addresses: 1},
		}, Addresses: 1},
		{Kind: "DemoApplication", Namespace: "shop", Name: "web", Pending: []string{"spec.containers[web].lifecycle would be added", "spec.x would change"}},
		{Kind: "DemoApplication", Namespace: "shop", Name: "api"},
		{Kind: "DemoApplication", Namespace: "blog", Name: "b", Paused: true, Children: []Child{{Kind: "Deployment", Name: "b", Action: "change", Pods: 2}}, Notes: []string{"something"}},
	}}
	r.sum()
	return r
}

func TestReport_Table(t *testing.T) {
	var out bytes.Buffer
	if err := report().Table(&out); err != nil {
		t.Fatal(err)
	}
	want := `KIND              NAMESPACE/NAME   CHILDREN THAT WOULD CHANGE                                                        PODS THAT WOULD RESTART   PENDING
DemoApplication   blog/b           held (paused): change Deployment b                                                0                         -
DemoApplication   shop/api         -                                                                                 0                         -
DemoApplication   shop/web         -                                                                                 0                         2 fields
WebServer         shop/front       change Deployment front, create Service front-service, delete Service front-old   3                         -

DemoApplication blog/b
  would change Deployment b, were it not paused: 2 pods would restart
  note: something

DemoApplication shop/web
  pending until the next change of its spec
    spec.containers[web].lifecycle would be added
    spec.x would change

WebServer shop/front
  would change Deployment front: 3 pods would restart
    spec.template.spec.containers[web].env would be added
  would create Service front-service
  would delete Service front-old: 1 address would be lost

4 objects, evaluated by version v2: 3 children would change, 1 object with changes pending. 3 pods would restart, and 1 address would be lost.
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestRun_ReportsObjectsOfDisabledKinds(t *testing.T) {
	held := object()
	held.Finalizers = []string{naming.Finalizer}
	disabled := Options{Disabled: []converge.AnyKind{converge.Erase(kind{}.kind())}}
	r := run(t.Context(), newServer(t, held), nil, disabled)
	want := []string{"DemoApplication is disabled: 1 object would keep running unmanaged. The deletion of 1, with deletionPolicy Orphan, would wait until platform-operator release --kinds DemoApplication removes the finalizer."}
	if diff := cmp.Diff(want, r.Unmanaged); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if code := r.ExitCode(); code != 0 {
		t.Errorf("exit code %d: no pod would restart", code)
	}
	var table bytes.Buffer
	if err := r.Table(&table); err != nil || !strings.Contains(table.String(), want[0]) {
		t.Errorf("%v:\n%s", err, table.String())
	}
	if r := run(t.Context(), newServer(t), nil, disabled); len(r.Unmanaged) > 0 {
		t.Errorf("without objects: %q", r.Unmanaged)
	}
}

func TestReport_EmptyTable(t *testing.T) {
	var out bytes.Buffer
	r := Report{Version: "v2", Configuration: "ConfigMap ops/c"}
	r.sum()
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	want := "There are no objects.\n\n0 objects, evaluated by version v2 with the platform configuration of ConfigMap ops/c: 0 children would change, 0 objects with changes pending. No pod would restart, and no address would be lost.\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestReport_JSON(t *testing.T) {
	var out bytes.Buffer
	if err := report().JSON(&out); err != nil {
		t.Fatal(err)
	}
	var back Report
	if err := json.Unmarshal(out.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report(), back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	for _, w := range []string{`"podsThatWouldRestart": 3`, `"pendingChanges": []`, `"childrenThatWouldChange": []`, `"objectsWithPendingChanges": 1`} {
		if !strings.Contains(out.String(), w) {
			t.Errorf("%s is not in\n%s", w, out.String())
		}
	}
}
