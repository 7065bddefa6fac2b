// Package memcached reconciles Memcacheds. Each has a Deployment, and a headless
// Service that resolves to its pods.
package memcached

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/status,verbs=patch
// +kubebuilder:rbac:groups=cache.example.com,resources=memcacheds/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the kind Memcached.
func Kind(platform config.Platform) converge.AnyKind { return kind(platform).Converge() }

func kind(platform config.Platform) workload.Kind[*cachev1alpha1.Memcached] {
	return workload.Kind[*cachev1alpha1.Memcached]{
		New:         func() *cachev1alpha1.Memcached { return &cachev1alpha1.Memcached{} },
		NewList:     func() client.ObjectList { return &cachev1alpha1.MemcachedList{} },
		AddToScheme: cachev1alpha1.AddToScheme,
		Log: converge.LogText{
			Logger: "controller_memcached",
			Key:    "Memcached",
			Gone:   "Memcached resource not found. Ignoring since object must be deleted",
		},
		Paused:   func(m *cachev1alpha1.Memcached) bool { return m.Spec.Paused },
		PodLabel: labelOwner, FixedPodLabels: map[string]string{labelApp: app},
		Labels: (*cachev1alpha1.Memcached).PodLabels, ServiceName: func(m *cachev1alpha1.Memcached) string { return m.Name },
		Object: func(m *cachev1alpha1.Memcached, o workload.Observed) workload.Object {
			return &object{m: m, observed: o, platform: platform}
		},
		Platform: platform,
	}
}
