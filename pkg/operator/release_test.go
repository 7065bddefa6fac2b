package operator

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

var managerKey = client.ObjectKey{Namespace: "system", Name: "platform-operator"}

func managerDeployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: managerKey.Namespace, Name: managerKey.Name},
		Spec:       appsv1.DeploymentSpec{Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "manager"}}},
	}
}

func object(name string, change ...func(*webserverv1.WebServer)) *webserverv1.WebServer {
	w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	for _, c := range change {
		c(w)
	}
	return w
}

func finalizers(f ...string) func(*webserverv1.WebServer) {
	return func(w *webserverv1.WebServer) { w.Finalizers = f }
}

func deleted(w *webserverv1.WebServer) {
	w.DeletionTimestamp = new(metav1.NewTime(time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)))
}

// cluster returns a fake API server that responds as funcs do and implements
// the scale subresource of Deployments, and the list of its writes.
func cluster(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (client.Client, *[]string) {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), webserverv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	var writes []string
	funcs.Patch = func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
		writes = append(writes, "release "+o.GetName())
		return c.Patch(ctx, o, p, opts...)
	}
	if funcs.SubResourcePatch == nil {
		funcs.SubResourcePatch = func(_ context.Context, _ client.Client, sub string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			raw, err := p.Data(o)
			writes = append(writes, sub+" "+o.GetName()+" "+string(raw))
			return err
		}
	}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithReturnManagedFields().WithInterceptorFuncs(funcs).Build(), &writes
}

func kinds() []client.ObjectList { return []client.ObjectList{&webserverv1.WebServerList{}} }

func TestRelease_StopsTheManagerAndRemovesFinalizers(t *testing.T) {
	c, writes := cluster(t, interceptor.Funcs{}, managerDeployment(),
		object("both", finalizers("others.io/hold", naming.Finalizer)),
		object("none"),
		object("others", finalizers("others.io/hold")),
		object("waiting", finalizers(naming.Finalizer), deleted),
	)
	var out bytes.Buffer
	if err := Release(t.Context(), c, Manager{ObjectKey: managerKey}, kinds(), &out); err != nil {
		t.Fatal(err)
	}
	// The manager is stopped first, because it would restore the finalizers.
	if diff := cmp.Diff([]string{`scale platform-operator {"spec":{"replicas":0}}`, "release both", "release waiting"}, *writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("stopped Deployment system/platform-operator\nreleased ns/both\nreleased ns/waiting\nreleased 2 of 4 objects: the others have no finalizer of the operator\n", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
	left := &webserverv1.WebServerList{}
	if err := c.List(t.Context(), left); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, w := range left.Items {
		got[w.Name] = w.Finalizers
	}
	if diff := cmp.Diff(map[string][]string{"both": {"others.io/hold"}, "none": nil, "others": {"others.io/hold"}}, got); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}

	*writes = nil
	if err := Release(t.Context(), c, Manager{ObjectKey: managerKey}, kinds(), &out); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(*writes, func(w string) bool { return strings.HasPrefix(w, "release") }) {
		t.Errorf("a second time it wrote %q", *writes)
	}
}

func TestRelease_WithoutManagerOrCRD(t *testing.T) {
	c, writes := cluster(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if _, ok := l.(*webserverv1.WebServerList); ok {
				return &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "my.domain", Kind: "WebServer"}}
			}
			return c.List(ctx, l, opts...)
		},
	})
	if err := Release(t.Context(), c, Manager{ObjectKey: managerKey, Hook: "release"}, kinds(), &bytes.Buffer{}); err != nil || len(*writes) > 0 {
		t.Errorf("got %v, wrote %q", err, *writes)
	}
}

// A Deployment elsewhere would go on and restore the finalizers.
func TestRelease_FailsWithoutTheNamedManager(t *testing.T) {
	c, writes := cluster(t, interceptor.Funcs{}, object("web", finalizers(naming.Finalizer)))
	err := Release(t.Context(), c, Manager{ObjectKey: managerKey}, kinds(), &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "there is no Deployment system/platform-operator") || len(*writes) > 0 {
		t.Errorf("got %v, wrote %q", err, *writes)
	}
}

// Rendered manifests contain the Job of the hook.
func TestRelease_HookDoesNothingInRenderedManifests(t *testing.T) {
	helm := map[string]string{ofHelm: "platform-operator"}
	entry := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "batch/v1", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}
	}
	released := []string{`scale platform-operator {"spec":{"replicas":0}}`, "release web"}
	for name, tc := range map[string]struct {
		installer map[string]string
		creator   string
		want      []string
	}{
		"installed and uninstalled by Helm":                    {helm, "helm", released},
		"by Helm in another program":                           {helm, "helm-controller", released},
		"applied when rendered":                                {nil, "kubectl-client-side-apply", nil},
		"applied when rendered, by another tool":               {nil, "argocd-controller", nil},
		"applied when rendered, after an installation by Helm": {helm, "kubectl-client-side-apply", nil},
		"server-side": {helm, "kubectl", nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := managerDeployment()
			d.Annotations = tc.installer
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Namespace: managerKey.Namespace, Name: "release",
				ManagedFields: []metav1.ManagedFieldsEntry{entry(tc.creator), entry("kube-controller-manager")},
			}}
			c, writes := cluster(t, interceptor.Funcs{}, d, job, object("web", finalizers(naming.Finalizer)))
			if err := Release(t.Context(), c, Manager{ObjectKey: managerKey, Hook: "release"}, kinds(), &bytes.Buffer{}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

// The manager does not manage the objects of disabled kinds.
func TestRelease_KeepsTheManagerIfItHasNoName(t *testing.T) {
	c, writes := cluster(t, interceptor.Funcs{}, managerDeployment(), object("web", finalizers(naming.Finalizer)))
	var out bytes.Buffer
	if err := Release(t.Context(), c, Manager{}, kinds(), &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"release web"}, *writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("released ns/web\nreleased 1 of 1 objects: the others have no finalizer of the operator\n", out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}

// Other namespaces may be those of another release.
func TestRelease_OnlyInTheNamespaces(t *testing.T) {
	c, writes := cluster(t, interceptor.Funcs{}, object("web", finalizers(naming.Finalizer)))
	for _, namespaces := range [][]string{{"other"}, {"other", "ns"}} {
		if err := Release(t.Context(), c, Manager{}, kinds(), &bytes.Buffer{}, namespaces...); err != nil {
			t.Fatal(err)
		}
		var want []string
		if slices.Contains(namespaces, "ns") {
			want = []string{"release web"}
		}
		if diff := cmp.Diff(want, *writes); diff != "" {
			t.Errorf("in %v (-want +got):\n%s", namespaces, diff)
		}
	}
}

func TestRelease_StopsWhileTheManagerRuns(t *testing.T) {
	broken := errors.New("no answer")
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "system", Name: "p", Labels: map[string]string{"app": "manager"}}}
	for name, tc := range map[string]struct {
		funcs interceptor.Funcs
		want  string
	}{
		"it cannot be read": {interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		}}, "reading Deployment"},
		"it cannot be scaled": {interceptor.Funcs{SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			return broken
		}}, "scaling Deployment"},
		"its pods cannot be listed": {interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }}, "waiting for the pods"},
		"its pods stay":             {interceptor.Funcs{}, "waiting for the pods"},
	} {
		t.Run(name, func(t *testing.T) {
			c, writes := cluster(t, tc.funcs, managerDeployment(), pod.DeepCopy(), object("web", finalizers(naming.Finalizer)))
			ctx, cancel := context.WithCancel(t.Context())
			if name == "its pods stay" {
				cancel() // instead of the timeout of 90 seconds
			}
			defer cancel()
			err := Release(ctx, c, Manager{ObjectKey: managerKey}, kinds(), &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if slices.Contains(*writes, "release web") {
				t.Error("the finalizer was removed under a manager that puts it back")
			}
		})
	}
}

func TestRelease_NamesKindsThatCannotBeListed(t *testing.T) {
	broken := errors.New("no answer")
	c, _ := cluster(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken }})
	if err := Release(t.Context(), c, Manager{}, kinds(), &bytes.Buffer{}); !errors.Is(err, broken) || !strings.Contains(err.Error(), "WebServerList") {
		t.Errorf("got %v", err)
	}
}

// A merge patch replaces the whole list: without the resource version it would
// remove a finalizer that another client added after the list was read.
func TestRelease_KeepsFinalizersAddedConcurrently(t *testing.T) {
	added := false
	c, _ := cluster(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, l, opts...)
			if _, ok := l.(*webserverv1.WebServerList); ok && !added {
				added = true
				w := &webserverv1.WebServer{}
				if err := c.Get(ctx, client.ObjectKey{Namespace: "ns", Name: "web"}, w); err != nil {
					return err
				}
				w.Finalizers = append(w.Finalizers, "others.io/hold")
				return errors.Join(err, c.Update(ctx, w))
			}
			return err
		},
	}, object("web", finalizers(naming.Finalizer)))
	if err := Release(t.Context(), c, Manager{}, kinds(), &bytes.Buffer{}); err != nil {
		t.Fatal(err)
	}
	w := &webserverv1.WebServer{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web"}, w); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"others.io/hold"}, w.Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

// When a namespace is deleted, nothing but the operator itself could remove its finalizers.
func TestReleaseIfDeleted(t *testing.T) {
	terminating := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{
		Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}},
	}}}
	for name, tc := range map[string]struct {
		answer     error
		namespaces []string
		want       []string
	}{
		"being deleted":                     {terminating, nil, []string{"release web"}},
		"being deleted, other namespaces":   {terminating, []string{"team-a"}, nil},
		"being deleted, watched namespaces": {terminating, []string{"team-a", "ns"}, []string{"release web"}},
		"a restart":                         {apierrors.NewAlreadyExists(schema.GroupResource{}, "platform-operator"), nil, nil},
		"a restart without a Lease":         {nil, nil, nil},
		"no answer":                         {errors.New("no answer"), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			c, writes := cluster(t, interceptor.Funcs{
				Create: func(_ context.Context, _ client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if o.GetNamespace() != "system" || o.GetName() != naming.ManagedBy || len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) == 0 {
						t.Errorf("creates %T %s/%s, or not as a dry run", o, o.GetNamespace(), o.GetName())
					}
					return tc.answer
				},
			}, object("web", finalizers(naming.Finalizer)))
			if err := ReleaseIfDeleted(t.Context(), c, "system", kinds(), &bytes.Buffer{}, tc.namespaces...); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, *writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
