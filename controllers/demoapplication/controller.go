// Package demoapplication makes a DemoApplication what its spec says: a
// Deployment and, where it has ports, a Service in front of it.
package demoapplication

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications/status,verbs=patch
// +kubebuilder:rbac:groups=paas.cmft.com,resources=demoapplications/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Kind is all that there is to a DemoApplication.
func Kind() converge.Kind[*demoapplicationv1.DemoApplication, Observed] {
	return converge.Kind[*demoapplicationv1.DemoApplication, Observed]{
		New:      func() *demoapplicationv1.DemoApplication { return &demoapplicationv1.DemoApplication{} },
		Children: []client.Object{&appsv1.Deployment{}, &corev1.Service{}},
		Log: converge.LogText{
			Logger: "controllers.DemoApplication",
			Key:    "DemoApplication",
			Gone:   "DemoApplication resource not found. Ignoring since it must be deleted",
		},
		Observe: observe,
		Desired: func(d *demoapplicationv1.DemoApplication, o Observed) (converge.Plan, error) {
			return desired(d, o), nil
		},
		Report: report,
	}
}
