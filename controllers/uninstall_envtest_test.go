//go:build envtest

package controllers_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	memcachedv1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/controllers/memcached"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// If the CRD of a kind is deleted while the operator runs, its finalizers hold nothing up,
// and children that outlive their owner do.
func TestUninstall_CRDFirst(t *testing.T) {
	ns := env.NewNamespace(t)
	o, err := env.Run(t.Context(), testkit.SubjectOf(func() converge.AnyKind { return memcached.Kind(config.Default()) }), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.Stop(); err != nil {
			t.Error(err)
		}
	})
	until := func(what string, ok func(context.Context) (bool, error)) {
		t.Helper()
		if err := testkit.Eventually(t.Context(), what, ok); err != nil {
			t.Fatal(err)
		}
	}
	m := &unstructured.Unstructured{}
	text := fmt.Sprintf("{apiVersion: cache.example.com/v1alpha1, kind: Memcached, metadata: {namespace: %s, name: cache}, spec: {size: 1, deletionPolicy: Orphan}}", ns)
	if err := yaml.Unmarshal([]byte(text), &m.Object); err != nil {
		t.Fatal(err)
	}
	if err := env.Admin.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: ns, Name: "cache"}
	d := &appsv1.Deployment{}
	until("the Deployment and the finalizer", func(ctx context.Context) (bool, error) {
		owner := &memcachedv1alpha1.Memcached{}
		if err := env.Admin.Get(ctx, key, owner); err != nil {
			return false, err
		}
		err := env.Admin.Get(ctx, key, d)
		return err == nil && len(owner.Finalizers) > 0, client.IgnoreNotFound(err)
	})

	crd := &unstructured.Unstructured{}
	raw, err := os.ReadFile("../config/crd/bases/cache.example.com_memcacheds.yaml")
	if err == nil {
		err = yaml.Unmarshal(raw, &crd.Object)
	}
	if err != nil {
		t.Fatal(err)
	}
	again := crd.DeepCopy()
	if err := env.Admin.Delete(t.Context(), crd.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	until("the CRD to be deleted", func(ctx context.Context) (bool, error) {
		err := env.Admin.Get(ctx, client.ObjectKeyFromObject(crd), crd)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err := env.Admin.Get(t.Context(), key, d); err != nil || d.DeletionTimestamp != nil || d.Labels[naming.LabelManagedBy] != "" || metav1.GetControllerOf(d) != nil {
		t.Errorf("the Deployment was not released: %v, %+v", err, d.ObjectMeta)
	}

	// Other tests need the CRD.
	if err := env.Admin.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	until("the kind to be served again", func(ctx context.Context) (bool, error) {
		err := env.Admin.List(ctx, &memcachedv1alpha1.MemcachedList{})
		return err == nil || !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err), err
	})
}
