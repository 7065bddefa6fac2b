// Package memcached reconciles Memcacheds. Each has a Deployment, and a headless
// Service that resolves to its pods.
package memcached

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the Memcached kind for the reconcile loop.
func Kind(platform config.Platform) converge.AnyKind {
	return converge.Erase(converge.Kind[*cachev1alpha1.Memcached, Observed]{
		New:         func() *cachev1alpha1.Memcached { return &cachev1alpha1.Memcached{} },
		NewList:     func() client.ObjectList { return &cachev1alpha1.MemcachedList{} },
		AddToScheme: cachev1alpha1.AddToScheme,
		Children: []client.Object{
			&appsv1.Deployment{}, &appsv1.ControllerRevision{}, &corev1.Service{},
			&policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{},
		},
		Workload: &appsv1.Deployment{},
		Related:  []converge.Related{rollout.Pods(labelOwner, map[string]string{labelApp: app})},
		Foreign:  []client.Object{&policyv1.PodDisruptionBudget{}},
		Log: converge.LogText{
			Logger: "controller_memcached",
			Key:    "Memcached",
			Gone:   "Memcached resource not found. Ignoring since object must be deleted",
		},
		Paused:  func(m *cachev1alpha1.Memcached) bool { return m.Spec.Paused },
		Observe: observe,
		Model:   func(m *cachev1alpha1.Memcached, o Observed) converge.Model { return newModel(m, o, platform) },
	})
}
