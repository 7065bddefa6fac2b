// Package demoapplication reconciles DemoApplications. Each has a Deployment and,
// if it has ports, a Service. On request it also has auxiliary resources: an
// autoscaler, a PodDisruptionBudget, a NetworkPolicy, an Ingress or HTTPRoute, and
// a PodMonitor.
package demoapplication

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications/status,verbs=patch
// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;patch;watch
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies;ingresses,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind returns the kind DemoApplication.
func Kind(platform config.Platform) converge.AnyKind { return kind(platform).Converge() }

func kind(platform config.Platform) workload.Kind[*demoapplicationv1.DemoApplication] {
	return workload.Kind[*demoapplicationv1.DemoApplication]{
		New:     func() *demoapplicationv1.DemoApplication { return &demoapplicationv1.DemoApplication{} },
		NewList: func() client.ObjectList { return &demoapplicationv1.DemoApplicationList{} },
		AddToScheme: func(s *runtime.Scheme) error {
			return errors.Join(demoapplicationv1.AddToScheme(s), demoapplicationv1beta1.AddToScheme(s))
		},
		Log: converge.LogText{
			Logger: "controllers.DemoApplication",
			Key:    "DemoApplication",
			Gone:   "DemoApplication resource not found. Ignoring since it must be deleted",
		},
		Paused:   func(a *demoapplicationv1.DemoApplication) bool { return a.Spec.Paused },
		PodLabel: kindLabel,
		Labels:   (*demoapplicationv1.DemoApplication).PodLabels, ServiceName: func(a *demoapplicationv1.DemoApplication) string { return a.Name }, Web: true, Before: true,
		ConfigMaps: referenced,
		Secrets:    func(a *demoapplicationv1.DemoApplication) []string { return configsource.UsedNames(secrets(a)) },
		Object: func(a *demoapplicationv1.DemoApplication, o workload.Observed) workload.Object {
			return newObject(a, o, platform)
		},
		Platform: platform,
	}
}
