package webhooks

import (
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/eviction"
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

// A pod is replaced before it is evicted, if too few would remain. No eviction depends on
// the operator: what is not answered is allowed.

// +kubebuilder:webhook:path=/evict,mutating=false,failurePolicy=ignore,sideEffects=NoneOnDryRun,matchPolicy=Equivalent,timeoutSeconds=3,groups="",resources=pods/eviction,verbs=create,versions=v1,name=evict.pods.platform-operator.io,admissionReviewVersions=v1,patch=`{"matchConditions":[{"name":"not-of-the-system","expression":"!request.namespace.startsWith('kube-')"}]}`

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
	mgr.GetWebhookServer().Register(eviction.Path, eviction.Webhook(mgr))
	return errors.Join(errs...)
}
