// Package controllers is the registry of kinds: the only place that knows all
// of them.
package controllers

import (
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/controllers/demoapplication"
	"github.com/platform-operator/platform-operator/controllers/immortalcontainer"
	"github.com/platform-operator/platform-operator/controllers/memcached"
	"github.com/platform-operator/platform-operator/controllers/webserver"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/preflight"
	"github.com/platform-operator/platform-operator/pkg/render"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// AddToScheme makes all kinds, and what they are made of, known to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(
		clientgoscheme.AddToScheme(s),
		cachev1alpha1.AddToScheme(s),
		demoapplicationv1.AddToScheme(s),
		demoapplicationv1beta1.AddToScheme(s),
		immortalv1alpha1.AddToScheme(s),
		webserverv1.AddToScheme(s),
		gatewayv1.Install(s),
		monitoring.AddToScheme(s),
	)
}

// Setup registers the controllers of all kinds with the manager: one line a kind.
func Setup(mgr manager.Manager, a *apply.Applier, platform config.Platform) error {
	return errors.Join(
		converge.Register(mgr, demoapplication.Kind(platform), a, platform.Workers),
		converge.Register(mgr, immortalcontainer.Kind(time.Now, platform), a, platform.Workers),
		converge.Register(mgr, memcached.Kind(platform), a, platform.Workers),
		converge.Register(mgr, webserver.Kind(platform), a, platform.Workers),
	)
}

// Kinds returns an empty list of every kind.
func Kinds() []client.ObjectList {
	return []client.ObjectList{
		&demoapplicationv1.DemoApplicationList{},
		&immortalv1alpha1.ImmortalContainerList{},
		&cachev1alpha1.MemcachedList{},
		&webserverv1.WebServerList{},
	}
}

// Children returns an empty object of every type that some kind makes or looks
// at: what the caches hold of Kubernetes' own.
func Children() []client.Object {
	platform := config.Default() // says nothing about types
	return slices.Concat(
		demoapplication.Kind(platform).Watched(),
		immortalcontainer.Kind(time.Now, platform).Watched(),
		memcached.Kind(platform).Watched(),
		webserver.Kind(platform).Watched(),
	)
}

// Renderers returns, for every kind, what prints its children.
func Renderers(platform config.Platform) []render.Renderer {
	return []render.Renderer{
		render.For(demoapplication.Kind(platform)),
		render.For(immortalcontainer.Kind(time.Now, platform)),
		render.For(memcached.Kind(platform)),
		render.For(webserver.Kind(platform)),
	}
}

// Preflights returns, for every kind, what tells what an upgrade would do.
func Preflights(platform config.Platform) []preflight.Kind {
	return []preflight.Kind{
		preflight.For(demoapplication.Kind(platform)),
		preflight.For(immortalcontainer.Kind(time.Now, platform)),
		preflight.For(memcached.Kind(platform)),
		preflight.For(webserver.Kind(platform)),
	}
}
