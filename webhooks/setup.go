package webhooks

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/demoapplication"
	"github.com/platform-operator/platform-operator/webhooks/immortalcontainer"
	"github.com/platform-operator/platform-operator/webhooks/memcached"
	"github.com/platform-operator/platform-operator/webhooks/validate"
	"github.com/platform-operator/platform-operator/webhooks/webserver"
)

// Kinds returns the admission of all kinds. It is the only list of them:
// everything that enumerates kinds for admission iterates it.
func Kinds() []validate.AnyKind {
	return validate.Exclusive(
		demoapplication.Kind(),
		immortalcontainer.Kind(),
		memcached.Kind(),
		webserver.Kind(),
	)
}

// Setup registers the webhooks of all enabled kinds. rec may be nil.
func Setup(mgr manager.Manager, platform config.Platform, rec Recorder) error {
	if rec == nil {
		rec = noRecorder{}
	}
	var errs []error
	for _, k := range Kinds() {
		if !platform.Manages(k.GVK.Kind) {
			continue
		}
		errs = append(errs, register(mgr, k, platform, rec))
	}
	return errors.Join(errs...)
}
