// Package controllers is the registry of kinds: the only package that imports all
// of them.
package controllers

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/controllers/demoapplication"
	"github.com/platform-operator/platform-operator/controllers/immortalcontainer"
	"github.com/platform-operator/platform-operator/controllers/memcached"
	"github.com/platform-operator/platform-operator/controllers/webserver"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

// Kinds returns the kinds that the platform configuration enables, by default all.
// It is the only list of them: everything that enumerates kinds iterates it.
func Kinds(platform config.Platform) []converge.AnyKind {
	all := []converge.AnyKind{
		demoapplication.Kind(platform),
		immortalcontainer.Kind(time.Now, platform),
		memcached.Kind(platform),
		webserver.Kind(platform),
	}
	return slices.DeleteFunc(all, func(k converge.AnyKind) bool { return !platform.Manages(k.Name()) })
}

// Disabled returns the kinds that the platform configuration disables.
func Disabled(platform config.Platform) []converge.AnyKind {
	return slices.DeleteFunc(Kinds(config.Default()), func(k converge.AnyKind) bool { return platform.Manages(k.Name()) })
}

// Names returns the names of kinds.
func Names(kinds []converge.AnyKind) []string {
	names := []string{}
	for _, k := range kinds {
		names = append(names, k.Name())
	}
	return names
}

// CheckNames returns an error for each name in kinds that is not that of a kind.
func CheckNames(kinds []string) error {
	known := Names(Kinds(config.Default()))
	var errs []error
	for i, k := range kinds {
		if !slices.Contains(known, k) {
			errs = append(errs, fmt.Errorf("kinds[%d] is %q, must be one of %s", i, k, strings.Join(known, ", ")))
		}
	}
	return errors.Join(errs...)
}

// AddToScheme adds all kinds and the types of their children to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	errs := []error{clientgoscheme.AddToScheme(s), gatewayv1.Install(s), monitoring.AddToScheme(s)}
	for _, k := range Kinds(config.Default()) {
		errs = append(errs, k.AddToScheme(s))
	}
	return errors.Join(errs...)
}

// Setup registers the controllers of all kinds with the manager. await is that of
// converge.Options.
func Setup(mgr manager.Manager, a *apply.Applier, platform config.Platform, await func(available func() bool)) error {
	var errs []error
	for _, k := range Kinds(platform) {
		errs = append(errs, converge.Register(mgr, k, a, converge.Options{Workers: platform.Workers, Namespaces: platform.WatchNamespaces, Await: await}))
	}
	return errors.Join(errs...)
}

// Lists returns an empty list object of each kind.
func Lists(kinds []converge.AnyKind) []client.ObjectList {
	var all []client.ObjectList
	for _, k := range kinds {
		all = append(all, k.NewList())
	}
	return all
}

// Objects returns an empty object of every enabled kind.
func Objects(platform config.Platform) []telemetry.Object {
	var all []telemetry.Object
	for _, k := range Kinds(platform) {
		all = append(all, k.New())
	}
	return all
}

// Children returns an empty object of every built-in type that an enabled kind
// creates or watches, and which is therefore cached.
func Children(platform config.Platform) []client.Object {
	var all []client.Object
	for _, k := range Kinds(platform) {
		all = append(all, k.Watched()...)
	}
	return all
}
