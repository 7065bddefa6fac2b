// Package memcached makes a Memcached what its spec says: a Deployment of
// memcached and a headless Service that names its pods.
package memcached

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind is all that there is to a Memcached.
func Kind(platform config.Memcached) converge.Kind[*cachev1alpha1.Memcached, Observed] {
	return converge.Kind[*cachev1alpha1.Memcached, Observed]{
		New:      func() *cachev1alpha1.Memcached { return &cachev1alpha1.Memcached{} },
		Children: []client.Object{&appsv1.Deployment{}, &corev1.Service{}},
		Related:  []converge.Related{{Object: &corev1.Pod{}, Of: cacheOf}},
		Log: converge.LogText{
			Logger: "controller_memcached",
			Key:    "Memcached",
			Gone:   "Memcached resource not found. Ignoring since object must be deleted",
		},
		Observe: observe,
		Desired: func(m *cachev1alpha1.Memcached, o Observed) (converge.Plan, error) {
			return desired(m, o, platform), nil
		},
		Report: report,
	}
}

// cacheOf returns the name of the Memcached that a pod is a node of, "" for
// none.
func cacheOf(pod client.Object) string {
	l := pod.GetLabels()
	if l[labelApp] != app {
		return ""
	}
	return l[labelOwner]
}
