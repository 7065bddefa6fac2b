package testkit

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// KindUnderTest describes a kind for the tests that all kinds share.
type KindUnderTest struct {
	// Subject is the controller of the kind.
	Subject Subject
	// New returns an object, which it does not create.
	New func(namespace, name string) converge.Object
	// Resource is the resource of the kind, such as "webservers".
	Resource string
	// Children returns the children of an object of that name, with nothing but
	// their own names.
	Children func(name string) []client.Object
	// Created are the requests of a creation in addition to the children and the
	// status.
	Created []string
	// Restated reports that a child is written again after its creation. The status
	// may then be written once more, because the generation changes.
	Restated bool
	// Edit changes one field of the spec that affects children.
	Edit func(converge.Object)
	// Edited are the requests that Edit causes, in addition to the writes of the
	// status.
	Edited []string
	// Scale sets the number of replicas, which is less than 6 in New. It is nil if the
	// spec does not have it.
	Scale func(o converge.Object, replicas int32)
	// Orphan sets the deletion policy Orphan.
	Orphan func(converge.Object)
	// Serves returns an error if the children do not match the spec of the object.
	// It is written from the API documentation, independently of the controller,
	// and does not read the status.
	Serves func(context.Context, client.Reader, client.Object) error
	// Stated returns the intent of each child of an object as JSON.
	Stated func(converge.Object) [][]byte
	// Own are prefixes of the paths that the kind states by code of its own; the suite of
	// another kind changes the others. Nil means all paths.
	Own []string
	// Damages is the minimum number of fields in the intents that can be changed; 0
	// means 10.
	Damages int
	// TwoWrites reports whether restoring a field may take two writes, because
	// values that other clients added there have to be claimed first.
	TwoWrites func(path string) bool
}

// slack is the additional time that creation may take, for which ExpectOf allows one
// more write of the status.
func (s KindUnderTest) slack() time.Duration {
	if s.Restated {
		return startup
	}
	return 0
}

func (s KindUnderTest) status() string { return "patch " + s.Resource + "/status 200" }

func (s KindUnderTest) each(name, request string, code string) []string {
	var rs []string
	for _, c := range s.Children(name) {
		rs = append(rs, request+" "+ResourceOf(c)+" "+code)
	}
	return rs
}

// readsOfTheOwner returns the requests that a deletion may cause: the watches of a
// child and of the object are independent. If the operator observes the deletion of
// the child first, it reads the object before it would create the child again.
func (s KindUnderTest) readsOfTheOwner(name string) []string {
	return slices.Repeat([]string{"get " + s.Resource + " 404"}, len(s.Children(name))+len(s.Created))
}

// creation returns the requests of a creation: the children and the status.
func (s KindUnderTest) creation(name string) []string {
	return slices.Concat(s.each(name, "patch", "201"), s.Created, []string{s.status()})
}

// ResourceOf returns the resource of a built-in type, such as "deployments".
func ResourceOf(o client.Object) string {
	return resources(builtinKind(o).Kind)
}

func builtinKind(o client.Object) schema.GroupVersionKind {
	gvk, err := apiutil.GVKForObject(o, clientgoscheme.Scheme)
	if err != nil {
		panic(err) // children are of built-in types
	}
	return gvk
}

// Budget counts the requests during the life of an object: creation, changes by
// other clients, a restart, an edit, more replicas, deletion.
func (e *Env) Budget(t *testing.T, s KindUnderTest) {
	l := e.NewSandbox(t, s.Subject).Start()
	const name = "web"
	obj := s.New(l.Namespace, name)
	began := time.Now()
	l.Create(obj)
	l.Ready(obj, name)
	l.ExpectOf(time.Since(began)+s.slack(), s.status(), "create: the children and the status",
		s.creation(name)...)
	l.ExpectEvents("create", 1)

	l.Edit(obj, name, func() { obj.SetAnnotations(map[string]string{"note": "unowned"}) })
	l.Expect("an annotation on the object")

	for _, child := range s.Children(name) {
		l.Edit(child, child.GetName(), func() { child.SetLabels(labels.Merge(child.GetLabels(), labels.Set{"team": "a"})) })
	}
	l.Expect("labels of other clients on the children")

	l.Restart()
	l.Expect("restart")
	l.ExpectEvents("changes by other clients, and a restart", 0)

	began = time.Now()
	l.Edit(obj, name, func() { s.Edit(obj) })
	l.Ready(obj, name)
	l.ExpectOf(time.Since(began), s.status(), "edit: the child and the status", append(slices.Clone(s.Edited), s.status())...)
	l.ExpectEvents("edit", 1)

	if s.Scale != nil {
		began = time.Now()
		l.Edit(obj, name, func() { s.Scale(obj, 6) })
		l.Ready(obj, name)
		l.ExpectOf(time.Since(began), s.status(), "scale up: the Deployment and the status", "patch deployments 200", s.status())
		l.ExpectEvents("scale up", 1)
	}

	if err := l.Admin.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	for _, child := range s.Children(name) {
		l.Gone(child, child.GetName())
	}
	l.ExpectNone("delete", s.readsOfTheOwner(name)...)
	l.ExpectEvents("delete", 0)
}

// Orphaning counts the requests of a deletion with the policy Orphan, and checks
// the remaining children.
func (e *Env) Orphaning(t *testing.T, s KindUnderTest) {
	l := e.NewSandbox(t, s.Subject).Start()
	const name = "web"
	obj := s.New(l.Namespace, name)
	s.Orphan(obj)
	if obj.GetDeletionPolicy() != common.DeletionPolicyOrphan {
		t.Fatal("the specimen's object does not orphan")
	}
	obj.SetFinalizers([]string{naming.Finalizer}) // like the webhook
	began := time.Now()
	l.Create(obj)
	l.Ready(obj, name)
	l.ExpectOf(time.Since(began)+s.slack(), s.status(), "create", s.creation(name)...)
	if err := l.Admin.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	l.Gone(obj, name)
	l.Expect("delete: the children and the finalizer", append(s.each(name, "patch", "200"), "patch "+s.Resource+" 200")...)
	s.released(l, name)
}

// PolicyChanged changes the deletion policy to Orphan and back. Each change costs one write
// for each child. Children that an earlier version of the operator wrote, which their
// Namespace owns too, are converted by the next reconcile.
func (e *Env) PolicyChanged(t *testing.T, s KindUnderTest) {
	l := e.NewSandbox(t, s.Subject).Start()
	const name = "web"
	obj := s.New(l.Namespace, name)
	l.Create(obj)
	l.Ready(obj, name)
	follow := func(orphans bool) {
		t.Helper()
		policy := common.DeletionPolicyDelete
		if orphans {
			policy = common.DeletionPolicyOrphan
		}
		l.Settle()
		l.Requests()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"deletionPolicy":%q}}`, policy))
		if err := l.Admin.Patch(t.Context(), obj, patch); err != nil {
			t.Fatal(err)
		}
		l.Until("the policy to be observed", obj, name, func() bool { return obj.GetStatus().ObservedGeneration == obj.GetGeneration() })
		for _, child := range s.Children(name) {
			l.Get(child, child.GetName())
			if !IsChild(child, obj) || len(child.GetOwnerReferences()) > 1 {
				t.Errorf("with the policy %s, %T has the owners %v", policy, child, child.GetOwnerReferences())
			}
		}
	}
	follow(true)
	l.Expect("the policy Orphan: the finalizer, each child, and the status", append(s.each(name, "patch", "200"), "patch "+s.Resource+" 200", s.status())...)
	follow(false)
	follow(true)
	if err := l.Admin.Delete(t.Context(), obj, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	l.Gone(obj, name)
	s.released(l, name)
}

// released checks that the children exist, have no owner, and no mark of the operator.
func (s KindUnderTest) released(l *Sandbox, name string) {
	l.Helper()
	for _, child := range s.Children(name) {
		l.Get(child, child.GetName())
		if n := len(child.GetOwnerReferences()); n != 0 {
			l.Errorf("%T has %d owners, want none", child, n)
		}
		if marks := fmt.Sprint(child.GetLabels(), child.GetAnnotations(), child.GetFinalizers()); strings.Contains(marks, naming.ManagedBy) {
			l.Errorf("%T still carries our marks: %s", child, marks)
		}
	}
}

// Drifting changes and removes fields of every child's intent (Drifts), or those that the
// kind states itself.
func (e *Env) Drifting(t *testing.T, s KindUnderTest) {
	l := e.NewSandbox(t, s.Subject).Start()
	obj := s.New(l.Namespace, "web")
	l.Create(obj)
	l.Ready(obj, "web")
	all := 0
	for _, raw := range s.Stated(obj) {
		drifts, err := e.Drifts(t.Context(), raw, s.Own)
		if err != nil {
			t.Fatal(err)
		}
		tried := 0
		for _, d := range drifts {
			if d.Refused {
				t.Log(d)
				continue
			}
			tried++
			most := 1
			if s.TwoWrites != nil && s.TwoWrites(d.Path) {
				most = 2
			}
			if s.Restated && len(d.Took) > 0 && d.Took[0].Code == http.StatusCreated {
				most += 2 // it was created again
			}
			if !d.Back || d.Writes < 1 || d.Writes > most {
				t.Errorf("%s, want back after at most %d:\n%s", d, most, Lines(d.Took))
			}
		}
		all += tried
		if s.Own == nil && tried < cmp.Or(s.Damages, 10)/driftEvery() {
			t.Errorf("only %d fields could be damaged: the test sees nothing", tried)
		}
		t.Logf("%d fields damaged, %d damages refused by the API server", tried, len(drifts)-tried)
	}
	if all < cmp.Or(s.Damages, 10)/driftEvery() {
		t.Errorf("only %d fields of all children could be damaged: the test sees nothing", all)
	}
}

// Unowned creates an unowned object with the name of each child in turn: it must
// never be written, the conflict must be reported, and resolved when the object is
// deleted. The objects are given without a namespace.
func (e *Env) Unowned(t *testing.T, s KindUnderTest, theirs ...client.Object) {
	for _, their := range theirs {
		gvk := builtinKind(their)
		t.Run(gvk.Kind, func(t *testing.T) {
			t.Parallel()
			l := e.NewSandbox(t, s.Subject)
			their.SetNamespace(l.Namespace)
			l.Create(their)
			l.Start()
			obj := s.New(l.Namespace, "web")
			l.Create(obj)
			if m := l.Stalled(obj, "web", common.ReasonConflict); !strings.Contains(m, gvk.Kind) {
				t.Errorf("the conflict does not name the %s: %s", gvk.Kind, m)
			}
			for _, r := range l.Requests() {
				if r.IsWrite() && r.Succeeded() && r.Name == their.GetName() && r.Resource == ResourceOf(their) {
					t.Errorf("wrote to an unowned object: %s", r)
				}
			}
			// Without finalizers, the object no longer exists when the request returns.
			// The operator may already have created its own with the same name.
			if err := l.Admin.Delete(t.Context(), their); err != nil {
				t.Fatal(err)
			}
			l.Restart() // it reconciles at once; a running operator would within about a minute
			l.Ready(obj, "web")
		})
	}
}

// Namespaces runs the operator for two of three namespaces. Objects in the third
// one must not be reconciled. In the others nothing may be written twice, although
// the client does not wait until it can read its own writes there.
func (e *Env) Namespaces(t *testing.T, s KindUnderTest) {
	labs := []*Sandbox{e.NewSandbox(t, s.Subject), e.NewSandbox(t, s.Subject), e.NewSandbox(t, s.Subject)}
	op, err := e.Run(t.Context(), s.Subject, nil, labs[0].Namespace, labs[1].Namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Cancel)
	for _, l := range labs {
		l.Create(s.New(l.Namespace, "web"))
	}
	for _, l := range labs[:2] {
		obj := s.New(l.Namespace, "web")
		l.Ready(obj, "web")
		l.Edit(obj, "web", func() { s.Edit(obj) })
		l.Ready(obj, "web")
		created := 0
		for _, r := range l.Requests() {
			if r.Code == 201 {
				created++
			}
		}
		want := len(s.Children("web"))
		for _, r := range slices.Concat(s.Created, s.Edited) {
			if strings.HasSuffix(r, " 201") {
				want++
			}
		}
		if created != want {
			t.Errorf("%d children created, want %d", created, want)
		}
	}
	if rs := labs[2].Requests(); len(rs) > 0 {
		t.Errorf("requests in a namespace that is not watched:\n%s", Lines(rs))
	}
}

// IsObserved reports whether the controller of a Deployment has observed what concerns its
// pods. The last write may only have annotated it, if the replicas were left to an autoscaler
// or the deletion policy changed: Ready does not wait for that.
func IsObserved(d *appsv1.Deployment, of converge.Object) bool {
	annotated := d.Annotations[naming.AnnotationScaledBy] != "" || of.GetDeletionPolicy() == common.DeletionPolicyOrphan
	return d.Status.ObservedGeneration == d.Generation || annotated && d.Status.ObservedGeneration == d.Generation-1
}

// IsChild reports whether a child names an object as its owner in the way that the deletion
// policy of the object asks for.
func IsChild(child client.Object, of converge.Object) bool {
	if of.GetDeletionPolicy() == common.DeletionPolicyOrphan {
		return len(child.GetOwnerReferences()) == 0 && child.GetAnnotations()[naming.AnnotationOwner] == string(of.GetUID())
	}
	return metav1.IsControlledBy(child, of)
}
