// Package demoapplication reconciles DemoApplications. Each has a Deployment and,
// if it has ports, a Service. On request it also has auxiliary resources: an
// autoscaler, a PodDisruptionBudget, a NetworkPolicy, an Ingress or HTTPRoute, and
// a PodMonitor.
package demoapplication

import (
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications/status,verbs=patch
// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies;ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the DemoApplication kind for the reconcile loop.
func Kind(platform config.Platform) converge.AnyKind {
	k := converge.Kind[*demoapplicationv1.DemoApplication, Observed]{
		New:     func() *demoapplicationv1.DemoApplication { return &demoapplicationv1.DemoApplication{} },
		NewList: func() client.ObjectList { return &demoapplicationv1.DemoApplicationList{} },
		AddToScheme: func(s *runtime.Scheme) error {
			return errors.Join(demoapplicationv1.AddToScheme(s), demoapplicationv1beta1.AddToScheme(s))
		},
		Children: []client.Object{
			&appsv1.Deployment{}, &corev1.Service{}, &appsv1.ControllerRevision{}, &corev1.ConfigMap{},
			&autoscalingv2.HorizontalPodAutoscaler{}, &policyv1.PodDisruptionBudget{}, &networkingv1.NetworkPolicy{}, &networkingv1.Ingress{},
		},
		Optional: []client.Object{&gatewayv1.HTTPRoute{}, &monitoring.PodMonitor{}},
		Workload: &appsv1.Deployment{},
		Related:  []converge.Related{rollout.Pods(kindLabel, nil)},
		Foreign:  []client.Object{&policyv1.PodDisruptionBudget{}},
		Log: converge.LogText{
			Logger: "controllers.DemoApplication",
			Key:    "DemoApplication",
			Gone:   "DemoApplication resource not found. Ignoring since it must be deleted",
		},
		References: referenced,
		Paused:     func(d *demoapplicationv1.DemoApplication) bool { return d.Spec.Paused },
		Observe:    observe,
		Model:      func(a *demoapplicationv1.DemoApplication, o Observed) converge.Model { return newModel(a, o, platform) },
	}
	if platform.RestartOnSecretChange {
		k.Secrets = func(a *demoapplicationv1.DemoApplication) []string { return resources.Names(secrets(a)) }
	}
	return converge.Erase(k)
}
