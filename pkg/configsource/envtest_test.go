//go:build envtest

package configsource_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// testModel is a model that consists of two functions.
type testModel struct {
	plan         func() (converge.Plan, error)
	updateStatus func(converge.Outcome)
}

func (m testModel) Plan() (converge.Plan, error) { return m.plan() }

func (m testModel) UpdateStatus(out converge.Outcome) { m.updateStatus(out) }

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), webserverv1.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

// passes counts reconciles by object.
type passes struct {
	mu sync.Mutex
	of map[client.ObjectKey]int
}

func (p *passes) note(o client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[client.ObjectKeyFromObject(o)]++
}

func (p *passes) count(ns, name string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[client.ObjectKey{Namespace: ns, Name: name}]
}

// reader returns a kind whose objects copy the key "text" of the ConfigMap with
// the name of their image, and report the text in their status.
func reader(p *passes) converge.AnyKind {
	return converge.Erase(converge.Kind[*webserverv1.WebServer, configsource.Source]{
		New:      func() *webserverv1.WebServer { return &webserverv1.WebServer{} },
		NewList:  func() client.ObjectList { return &webserverv1.WebServerList{} },
		Children: []client.Object{&corev1.ConfigMap{}},
		Log:      converge.LogText{Logger: "reader", Key: "Reader"},
		References: func(w *webserverv1.WebServer) []configsource.Reference {
			return []configsource.Reference{{Name: w.Spec.Image, Key: "text"}}
		},
		Observe: func(_ context.Context, r converge.Reader, w *webserverv1.WebServer) (configsource.Source, error) {
			p.note(w)
			return r.Sources[w.Spec.Image], nil
		},
		Model: func(w *webserverv1.WebServer, s configsource.Source) converge.Model {
			return testModel{plan: func() (converge.Plan, error) {
				if !s.Found {
					return converge.Plan{}, fault.Stalled(messages.New("ReferenceNotFound", "there is no {name}"), w.Spec.Image)
				}
				text := s.Content.Data["text"]
				h := fnv.New32()
				_, _ = h.Write([]byte(text))
				ac := corev1ac.ConfigMap(fmt.Sprintf("%s-%x", w.Name, h.Sum32()), w.Namespace).
					WithAnnotations(map[string]string{naming.AnnotationSource: s.Part("text", "copy")}).
					WithImmutable(true).WithData(map[string]string{"copy": text})
				in := apply.New(ac, func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
				in.NeverCreated = true // the text is new, so its snapshot was not deleted
				return converge.Plan{Apply: []apply.Intent{in}}, nil
			}, updateStatus: func(out converge.Outcome) {
				f := conditions.Condition{Status: true, Reason: "Read", Message: "none"}
				if s.Found {
					f.Message = "text " + s.Content.Data["text"]
				}
				conditions.Report(&w.Status.Status, w.Generation, out.Now, conditions.State{Available: f, Ready: f}, out.Problem)
			}}
		},
	})
}

func subject(p *passes) testkit.Subject {
	s := testkit.SubjectOf(func() converge.AnyKind { return reader(p) })
	s.Messages = nil // those of this test
	return s
}

func object(ns, name, refers string) *webserverv1.WebServer {
	return &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: webserverv1.WebServerSpec{Image: refers}}
}

func source(ns, name, text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Data: map[string]string{"text": text, "other": "1"}}
}

// told waits until the status of an object contains a text.
func told(l *testkit.Sandbox, name, text string) {
	l.Helper()
	w := &webserverv1.WebServer{}
	l.Until(name+" to tell "+text, w, name, func() bool {
		c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady)
		return c != nil && c.Status == metav1.ConditionTrue && c.Message == "text "+text
	})
}

const (
	read    = "get configmaps 200"
	created = "patch configmaps 201"
	changed = "patch configmaps 200"
	status  = "patch webservers/status 200"
)

func TestReader_ChangesTriggerReconciles(t *testing.T) {
	t.Parallel()
	p := &passes{of: map[client.ObjectKey]int{}}
	l := env.NewSandbox(t, subject(p))
	ns := l.Namespace
	l.Create(source(ns, "cfg", "one"))
	l.Create(source(ns, "bystander", "x"))
	l.Start()
	l.Create(object(ns, "web", "cfg"))
	told(l, "web", "one")
	l.Expect("create: one read", read, created, status)

	before := p.count(ns, "web")
	cm := &corev1.ConfigMap{}
	l.Edit(cm, "bystander", func() { cm.Data["text"] = "y" })
	l.Create(source(ns, "another", "z"))
	l.Expect("changes of unreferenced ConfigMaps")
	if got := p.count(ns, "web"); got != before {
		t.Errorf("got %d reconciles because of unreferenced ConfigMaps, want 0", got-before)
	}

	l.Edit(cm, "cfg", func() { cm.Data["text"] = "two" })
	told(l, "web", "two")
	l.Expect("edit", read, created, status)

	l.Edit(cm, "cfg", func() { cm.Data["other"] = "2" })
	l.Expect("edit of another key", read)

	l.Edit(cm, "cfg", func() { cm.Annotations = map[string]string{"note": "x"} })
	l.Expect("edit of the metadata", read)
	l.Restart()
	l.Expect("restart after an edit that is in no snapshot", read)

	l.Edit(cm, "cfg", func() { cm.Data["text"] = "one" })
	told(l, "web", "one")
	l.Expect("back: the copy is there already", read, changed, status)

	for range 2 {
		before = p.count(ns, "web")
		l.Restart()
		l.Expect("restart")
		if got := p.count(ns, "web") - before; got != 1 {
			t.Errorf("%d passes after a restart, want 1", got)
		}
	}

	if err := l.Admin.Delete(t.Context(), source(ns, "cfg", "")); err != nil {
		t.Fatal(err)
	}
	l.Stalled(&webserverv1.WebServer{}, "web", "ReferenceNotFound")
	l.Expect("it went", status)
	l.Restart()
	l.Expect("restart without it")
	l.Create(source(ns, "cfg", "three"))
	told(l, "web", "three")
	l.Expect("it came", read, created, status)

	w := &webserverv1.WebServer{}
	l.Edit(w, "web", func() { w.Spec.Image = "another" })
	told(l, "web", "z")
	l.Expect("another is referred to", read, created, status)
	before = p.count(ns, "web")
	l.Edit(cm, "cfg", func() { cm.Data["text"] = "four" })
	l.Expect("the first is not any longer")
	if got := p.count(ns, "web"); got != before {
		t.Errorf("got %d reconciles because of a ConfigMap that it no longer refers to, want 0", got-before)
	}
}

// A change while no operator is running is observed by the next one.
func TestReader_ChangeDuringARestart(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject(&passes{of: map[client.ObjectKey]int{}}))
	l.Create(object(l.Namespace, "web", "cfg"))
	l.Start()
	l.Stalled(&webserverv1.WebServer{}, "web", "ReferenceNotFound")
	l.Expect("create", status)
	l.Create(source(l.Namespace, "cfg", "one"))
	told(l, "web", "one")
	l.Expect("it came", read, created, status)
	l.Stop()
	cm := &corev1.ConfigMap{}
	l.Edit(cm, "cfg", func() { cm.Data["text"] = "two" })
	l.Start()
	told(l, "web", "two")
	l.Expect("restart", read, created, status)
}

// With several namespaces, the client does not wait for its own writes.
func TestReader_SeveralNamespaces(t *testing.T) {
	t.Parallel()
	p := &passes{of: map[client.ObjectKey]int{}}
	s := subject(p)
	labs := []*testkit.Sandbox{env.NewSandbox(t, s), env.NewSandbox(t, s), env.NewSandbox(t, s)}
	run := func() *testkit.Operator {
		op, err := env.Run(t.Context(), s, nil, labs[0].Namespace, labs[1].Namespace)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(op.Cancel)
		return op
	}
	op := run()
	for i, l := range labs {
		l.Create(source(l.Namespace, "cfg", strconv.Itoa(i)))
		for j := range 3 {
			l.Create(object(l.Namespace, fmt.Sprint("web", j), "cfg"))
		}
	}
	// For each of the three objects. With several namespaces, a status is
	// occasionally sent for an earlier version, and refused.
	expect := func(l *testkit.Sandbox, what string) {
		t.Helper()
		made := map[string]int{}
		for _, r := range l.Requests() {
			if !strings.HasSuffix(r.Resource, "/status") {
				made[fmt.Sprintf("%s %s %d", r.Verb, r.Resource, r.Code)]++
			}
		}
		if diff := cmp.Diff(map[string]int{read: 1, created: 3}, made); diff != "" {
			t.Errorf("%s: requests (-want +got):\n%s", what, diff)
		}
	}
	for i, l := range labs[:2] {
		for j := range 3 {
			told(l, fmt.Sprint("web", j), strconv.Itoa(i))
		}
		expect(l, "create")
		cm := &corev1.ConfigMap{}
		l.Edit(cm, "cfg", func() { cm.Data["text"] = "new" })
		for j := range 3 {
			told(l, fmt.Sprint("web", j), "new")
		}
		expect(l, "edit")
	}
	if err := op.Stop(); err != nil {
		t.Fatal(err)
	}
	run()
	for _, l := range labs {
		l.Expect("restart")
	}
	if got := p.count(labs[2].Namespace, "web0"); got != 0 {
		t.Errorf("got %d reconciles in a namespace that is not watched, want 0", got)
	}
}

// A kind without references does not cause unowned objects to be watched.
func TestRegister_WatchesNothingForKindsWithoutReferences(t *testing.T) {
	t.Parallel()
	k := reader(&passes{of: map[client.ObjectKey]int{}})
	k.References = nil
	ns := env.NewNamespace(t)
	var mgr manager.Manager
	op, err := env.Run(t.Context(), testkit.Subject{Children: k.Watched(), Setup: func(m manager.Manager, a *apply.Applier) error {
		mgr = m
		return converge.Register(m, k, a, converge.Options{Workers: 1})
	}}, nil, ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Cancel)
	m := &metav1.PartialObjectMetadata{}
	m.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	err = mgr.GetCache().Get(t.Context(), client.ObjectKey{Namespace: ns, Name: "x"}, m)
	if _, ok := errors.AsType[*cache.ErrResourceNotCached](err); !ok {
		t.Errorf("got %v, want ErrResourceNotCached", err)
	}
}
