// Package redirect is a kind that is not a part of the operator. It follows
// docs/adding-a-kind.md, and the tests that all kinds share run on it: what they
// need of a kind must not be known to them in another way.
package redirect

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit/redirect/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// Kind returns the kind Redirect.
func Kind(platform config.Platform) converge.AnyKind {
	return workload.Kind[*v1alpha1.Redirect]{
		New:         func() *v1alpha1.Redirect { return &v1alpha1.Redirect{} },
		NewList:     func() client.ObjectList { return &v1alpha1.RedirectList{} },
		AddToScheme: v1alpha1.AddToScheme,
		Log:         converge.LogText{Logger: "controllers.Redirect", Key: "Redirect", Gone: "The Redirect was deleted"},
		Paused:      func(r *v1alpha1.Redirect) bool { return r.Spec.Paused },
		PodLabel:    v1alpha1.PodLabel,
		Labels:      labels,
		ServiceName: func(r *v1alpha1.Redirect) string { return r.Name },
		Object:      func(r *v1alpha1.Redirect, _ workload.Observed) workload.Object { return &object{r: r} },
		Platform:    platform,
	}.Converge()
}
