package caches

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"

	memcachedv1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

func TestTrimmer_KeepsManagersAndOperations(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "platform-operator", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apps/v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)},
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", FieldsV1: metav1.NewFieldsV1(`{"f:status":{}}`)},
	}}}
	got, err := new(trimmer).trim(d)
	if err != nil {
		t.Fatal(err)
	}
	want := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"a": "b"}, ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "platform-operator", Operation: metav1.ManagedFieldsOperationApply},
		{Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status"},
	}}}
	if diff := cmp.Diff(any(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, err := new(trimmer).trim(got)
	if diff := cmp.Diff(any(want), again); err != nil || diff != "" {
		t.Errorf("a transform may run twice over the same object: %v\n%s", err, diff)
	}
}

func TestTrimmer_ReturnsNonObjectsUnchanged(t *testing.T) {
	gone := cache.DeletedFinalStateUnknown{Key: "ns/web"} // passed on by an informer after a missed deletion
	if got, err := new(trimmer).trim(gone); err != nil || got != any(gone) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestOptions_SelectManagedChildren(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), webserverv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	o := Options(scheme, nil, []string{"a", "b"})
	all := map[string]bool{}
	for k, by := range o.ByObject {
		if by.Label != nil { // nil: the default
			all[fmt.Sprintf("%T", k)] = by.Label.Matches(labels.Set{})
		}
		_, mayBeLarge := k.(*corev1.ConfigMap)
		if got, want := by.UnsafeDisableDeepCopy != nil && *by.UnsafeDisableDeepCopy, isPacked(k) && !mayBeLarge; got != want {
			t.Errorf("%T is returned without a copy: %v, want %v", k, got, want)
		}
	}
	if diff := cmp.Diff(map[string]bool{"*v1.WebServer": true, "*v1.PodDisruptionBudget": true}, all); diff != "" {
		t.Errorf("types of which everybody's are held (-want +got):\n%s", diff)
	}
	// The CRD of a kind that is disabled may not exist.
	for k := range Options(scheme, []telemetry.Object{&memcachedv1alpha1.Memcached{}}, nil).ByObject {
		if _, other := k.(*webserverv1.WebServer); other {
			t.Error("there is a cache of a kind that is not reconciled")
		}
	}
	selector := o.DefaultLabelSelector
	for _, tc := range []struct {
		labels labels.Set
		want   bool
	}{
		{labels.Set{"app.kubernetes.io/managed-by": "platform-operator", "x": "y"}, true},
		{labels.Set{"app.kubernetes.io/managed-by": "Helm"}, false},
		{nil, false},
	} {
		if got := selector.Matches(tc.labels); got != tc.want {
			t.Errorf("%v: got %v, want %v", tc.labels, got, tc.want)
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, slices.Sorted(maps.Keys(o.DefaultNamespaces))); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
	if !o.ReaderFailOnMissingInformer || o.DefaultTransform == nil {
		t.Error("a read of a kind without an informer would start a watch of the whole cluster")
	}
	if all := Options(scheme, nil, nil).DefaultNamespaces; all != nil {
		t.Errorf("no namespace named means all, got %v", all)
	}
}
