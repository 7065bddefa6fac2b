//go:build envtest

package caches_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/caches"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestNew_LeavesOutNamespacesThatMayNotBeRead watches three namespaces: one
// with the permissions, one that does not exist, and one that exists and gets
// its permissions later.
func TestNew_LeavesOutNamespacesThatMayNotBeRead(t *testing.T) {
	caches.ProbeOften()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), webserverv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	env, err := testkit.StartShared(scheme, "../../config/crd/bases")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	create := func(objects ...client.Object) {
		t.Helper()
		for _, o := range objects {
			if err := env.Admin.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = env.Admin.Delete(context.Background(), o) })
		}
	}
	create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "manager"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"my.domain"}, Resources: []string{"webservers"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch"}},
	}})
	grant := func(namespace string) {
		t.Helper()
		create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "manager"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "manager"},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "operator"}},
		})
	}
	fill := func(namespace string) {
		t.Helper()
		create(
			&webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: webserverv1.WebServerSpec{Image: "nginx:1.27.3"}},
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "page", Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}}},
		)
	}
	granted, late := env.NewNamespace(t), env.NewNamespace(t)
	missing := granted + "-missing" // until it is created
	grant(granted)
	fill(granted)
	fill(late)

	cfg := rest.CopyConfig(env.AdminConfig)
	cfg.Impersonate = rest.ImpersonationConfig{UserName: "operator", Groups: []string{"system:authenticated"}}
	mgr, err := operator.New(cfg, scheme, operator.Options{
		Watch: []string{granted, missing, late}, MetricsAddress: "0", ProbeAddress: "0", SkipNameValidation: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	whole, metadata := &corev1.ConfigMap{}, &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for _, o := range []client.Object{&webserverv1.WebServer{}, whole, metadata} {
		if _, err := mgr.GetCache().GetInformer(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	testkit.Run(t, mgr)

	// sees waits until the caches contain the objects of exactly these
	// namespaces.
	sees := func(namespaces ...string) {
		t.Helper()
		if err := testkit.Eventually(t.Context(), fmt.Sprintf("the objects of %q", namespaces), func(ctx context.Context) (bool, error) {
			servers, maps := &webserverv1.WebServerList{}, &corev1.ConfigMapList{}
			if err := errors.Join(mgr.GetClient().List(ctx, servers), mgr.GetClient().List(ctx, maps)); err != nil {
				return false, err
			}
			if len(servers.Items) != len(namespaces) || len(maps.Items) != len(namespaces) {
				return false, fmt.Errorf("%d WebServers, %d ConfigMaps", len(servers.Items), len(maps.Items))
			}
			for _, n := range namespaces {
				for _, o := range []client.Object{&webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "page"}}} {
					if err := mgr.GetClient().Get(ctx, client.ObjectKey{Namespace: n, Name: o.GetName()}, o); err != nil {
						return false, err
					}
				}
			}
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewRegistry()
	if err := telemetry.New(telemetry.Options{}).Register(registry); err != nil {
		t.Fatal(err)
	}
	leftOut := func(want int) {
		t.Helper()
		if err := testkit.Eventually(t.Context(), "the metric", func(context.Context) (bool, error) {
			n := 0
			families, err := registry.Gather()
			for _, f := range families {
				if f.GetName() == "platform_operator_namespace_unreadable" {
					n += len(f.GetMetric())
				}
			}
			return n == want, errors.Join(err, fmt.Errorf("%d namespaces are left out, want %d", n, want))
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := testkit.Eventually(t.Context(), "the caches to be synced", func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithCancel(ctx)
		time.AfterFunc(time.Second, cancel)
		return mgr.GetCache().WaitForCacheSync(ctx), errors.New("they are not")
	}); err != nil {
		t.Fatal(err)
	}
	sees(granted)
	leftOut(2)

	grant(late)
	sees(granted, late)
	leftOut(1)

	create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: missing}})
	grant(missing)
	sees(granted, late) // it is empty
	fill(missing)
	sees(granted, missing, late)
	leftOut(0)
}
