//go:build envtest

package webserver

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// lab is a namespace with a running operator, and what it requested there.
type lab struct {
	*testing.T
	ns   string
	op   *testkit.Operator
	seen int
}

func newLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{T: t, ns: newNamespace(t)}
	l.start()
	return l
}

func (l *lab) start() {
	l.Helper()
	op, err := env.Run(l.Context(), subject(), nil, l.ns)
	if err != nil {
		l.Fatal(err)
	}
	l.op = op
	l.Cleanup(op.Cancel)
}

func (l *lab) restart() {
	l.Helper()
	if err := l.op.Stop(); err != nil {
		l.Fatal(err)
	}
	l.start()
}

// requests returns what the operator has requested since the last call, once
// it has been quiet for a moment.
func (l *lab) requests() []testkit.Request {
	l.Helper()
	rs, err := env.Audit.Quiet(l.Context(), l.ns, quiet)
	if err != nil {
		l.Fatal(err)
	}
	since := rs[l.seen:]
	l.seen = len(rs)
	return since
}

// quiet is how long no request may come before requests are counted. A later
// one is counted with the next step.
const quiet = time.Second

// expect fails unless exactly these requests were made, in any order.
func (l *lab) expect(what string, want ...string) {
	l.Helper()
	var got []string
	for _, r := range l.requests() {
		got = append(got, fmt.Sprintf("%s %s %d", r.Verb, r.Resource, r.Code))
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		l.Errorf("%s: requests (-want +got):\n%s", what, d)
	}
}

func (l *lab) create(w *webserverv1.WebServer) {
	l.Helper()
	if err := env.Admin.Create(l.Context(), w); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) ready(name string) *webserverv1.WebServer {
	l.Helper()
	w := &webserverv1.WebServer{}
	l.eventually("WebServer "+name+" to be Ready", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: name}, w)
		c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady)
		return err == nil && w.Status.ObservedGeneration == w.Generation && c != nil && c.Status == metav1.ConditionTrue, err
	})
	return w
}

func (l *lab) eventually(what string, ok func(context.Context) (bool, error)) {
	l.Helper()
	if err := testkit.Eventually(l.Context(), what, ok); err != nil {
		l.Fatal(err)
	}
}

func (l *lab) edit(obj client.Object, name string, change func()) {
	l.Helper()
	if err := env.Admin.Get(l.Context(), client.ObjectKey{Namespace: l.ns, Name: name}, obj); err != nil {
		l.Fatal(err)
	}
	before := obj.DeepCopyObject().(client.Object)
	change()
	if err := env.Admin.Patch(l.Context(), obj, client.MergeFrom(before), client.FieldOwner("kubectl-edit")); err != nil {
		l.Fatal(err)
	}
}

func TestBudgetOfRequests(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const name = "web"
	apply, status := "patch deployments 200", "patch webservers/status 200"

	l.create(webServer(l.ns, name))
	l.ready(name)
	l.expect("create: the children, the status, and once more for readiness",
		"patch deployments 201", "patch services 201", status, status)

	w := &webserverv1.WebServer{}
	l.edit(w, name, func() { w.Annotations = map[string]string{"note": "not ours"} })
	l.expect("an annotation on the object")

	d := &appsv1.Deployment{}
	l.edit(d, name, func() {})
	before := d.DeepCopy()
	for i := range d.Status.Conditions {
		d.Status.Conditions[i].Message = "said differently"
		d.Status.Conditions[i].LastUpdateTime = metav1.Now()
	}
	if err := env.Admin.Status().Patch(t.Context(), d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.expect("a child's status flaps")

	l.restart()
	l.expect("restart")

	l.edit(w, name, func() { w.Spec.Image = "nginx:1.23.0" })
	l.ready(name)
	l.expect("image change: the Deployment, the status that says so, and readiness", apply, status, status)

	l.edit(w, name, func() { w.Spec.Replicas = new(int32(4)) })
	l.ready(name)
	l.expect("scale", apply, status, status)

	l.edit(d, name, func() { d.Spec.Template.Spec.Containers[0].Image = "nginx:by-hand" })
	l.eventually("the image to come back", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKeyFromObject(d), d)
		return d.Spec.Template.Spec.Containers[0].Image == "nginx:1.23.0", err
	})
	l.ready(name)
	drift := l.requests()
	if n := count(drift, "deployments"); n != 1 {
		t.Errorf("edit of a stated field: %d writes of the Deployment, want 1:\n%s", n, testkit.Lines(drift))
	}

	if err := env.Admin.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	l.gone(&appsv1.Deployment{}, name)
	l.gone(&corev1.Service{}, name+"-service")
	l.expect("delete")
}

func TestBudgetOfOrphaning(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	w := webServer(l.ns, "web", func(w *webserverv1.WebServer) {
		w.Spec.DeletionPolicy = common.DeletionPolicyOrphan
		w.Finalizers = []string{naming.Finalizer} // as the webhook sets it
	})
	l.create(w)
	l.ready("web")
	l.expect("create", "patch deployments 201", "patch services 201", "patch webservers/status 200", "patch webservers/status 200")

	if err := env.Admin.Delete(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	l.gone(&webserverv1.WebServer{}, "web")
	l.expect("delete: the children and the finalizer", "patch deployments 200", "patch services 200", "patch webservers 200")
	for name, child := range map[string]client.Object{"web": &appsv1.Deployment{}, "web-service": &corev1.Service{}} {
		if err := env.Admin.Get(t.Context(), client.ObjectKey{Namespace: l.ns, Name: name}, child); err != nil {
			t.Errorf("orphaned child: %v", err)
		}
		if n := len(child.GetOwnerReferences()); n != 0 {
			t.Errorf("%T has %d owners, want none", child, n)
		}
	}
}

func (l *lab) gone(obj client.Object, name string) {
	l.Helper()
	l.eventually(fmt.Sprintf("%T %s to be gone", obj, name), func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKey{Namespace: l.ns, Name: name}, obj)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func count(rs []testkit.Request, resource string) (n int) {
	for _, r := range rs {
		if r.Resource == resource && r.IsWrite() {
			n++
		}
	}
	return n
}
