package webserver

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/rollout"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

type Observed = workload.Observed

func desired(w *webserverv1.WebServer, o Observed, platform config.Platform) (converge.Plan, error) {
	return kind(platform).Model(w, o).Plan()
}

func report(w *webserverv1.WebServer, o Observed, out converge.Outcome, platform config.Platform) {
	kind(platform).Model(w, o).UpdateStatus(out)
	if err := messages.CheckStatus(Kind(platform).MessageKinds(), w.Status.Conditions, w.Status.LastActions); err != nil {
		panic(err) // it would not be in docs/conditions.md
	}
}

func decide(w *webserverv1.WebServer, o Observed, platform config.Platform) (rollout.Decision, material, error) {
	m := kind(platform).Model(w, o)
	found, _ := sourcesOf(w).resolve(o)
	return m.Decision, found, m.Err
}

func deployment(w *webserverv1.WebServer, o Observed, template *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent {
	return kind(platform).Model(w, o).Deployment(template, w.Spec.Rollout)
}

func scale(w *webserverv1.WebServer, live *appsv1.Deployment) *int32 {
	return newObject(w, Observed{}, platform).Spec().Scale(live)
}

func scaled(w *webserverv1.WebServer, live *appsv1.Deployment) int32 {
	return newObject(w, Observed{}, platform).Spec().Wanted(live)
}
