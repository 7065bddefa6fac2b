// Package controllers is the registry of kinds: the only place that knows all
// of them.
package controllers

import (
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers/webserver"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/render"
)

// Workers is how many objects of one kind are reconciled at the same time. A
// pass is a few requests of milliseconds, so a few workers keep an API server
// busy; see docs/benchmarks.md.
const Workers = 8

// AddToScheme makes all kinds, and what they are made of, known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(
		clientgoscheme.AddToScheme(s),
		webserverv1.AddToScheme(s),
	)
}

// Setup registers the controllers of all kinds with the manager: one line a kind.
func Setup(mgr manager.Manager, a *apply.Applier, platform config.Platform) error {
	return errors.Join(
		converge.Register(mgr, webserver.Kind(platform.WebServer), a, Workers),
	)
}

// Kinds returns an empty list of every kind.
func Kinds() []client.ObjectList {
	return []client.ObjectList{
		&webserverv1.WebServerList{},
	}
}

// Children returns an empty object of every type that some kind makes or looks
// at: what the caches hold of Kubernetes' own.
func Children() []client.Object {
	return slices.Concat(
		webserver.Kind(config.WebServer{}).Watched(),
	)
}

// Renderers returns, for every kind, what prints its children.
func Renderers(platform config.Platform) []render.Renderer {
	return []render.Renderer{
		render.For(webserver.Kind(platform.WebServer)),
	}
}
