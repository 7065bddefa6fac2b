// Package immortalcontainer reconciles ImmortalContainers. Each has one pod, which
// is replaced by another one of the same name whenever it terminates.
package immortalcontainer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// +kubebuilder:rbac:groups=immortalcontainer.flugel.it,resources=immortalcontainers,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=immortalcontainer.flugel.it,resources=immortalcontainers/status,verbs=patch
// +kubebuilder:rbac:groups=immortalcontainer.flugel.it,resources=immortalcontainers/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the ImmortalContainer kind for the reconcile loop. now is the clock.
func Kind(now func() time.Time, platform config.Platform) converge.AnyKind {
	return converge.Erase(converge.Kind[*immortalv1alpha1.ImmortalContainer, Observed]{
		New:         func() *immortalv1alpha1.ImmortalContainer { return &immortalv1alpha1.ImmortalContainer{} },
		NewList:     func() client.ObjectList { return &immortalv1alpha1.ImmortalContainerList{} },
		AddToScheme: immortalv1alpha1.AddToScheme,
		Children:    []client.Object{&corev1.Pod{}, &networkingv1.NetworkPolicy{}},
		Labels:      (*immortalv1alpha1.ImmortalContainer).PodLabels,
		Log: converge.LogText{
			Logger: "controller_immortalcontainer",
			Key:    "ImmortalContainer",
			Gone:   "ImmortalContainer resource not found. Ignoring since object must be deleted",
		},
		Paused:  func(i *immortalv1alpha1.ImmortalContainer) bool { return i.Spec.Paused },
		Observe: observer(now),
		Model:   func(i *immortalv1alpha1.ImmortalContainer, o Observed) converge.Model { return model{i, o, platform} },
	})
}
