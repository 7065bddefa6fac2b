package webhooks

import (
	"errors"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/webserver"
)

// Setup registers the webhooks of all kinds: one entry a kind.
func Setup(mgr manager.Manager, platform config.Platform) error {
	return errors.Join(
		register(mgr, &webserverv1.WebServer{}, kind[*webserverv1.WebServer]{
			gk:       schema.GroupKind{Group: webserverv1.GroupVersion.Group, Kind: webserverv1.Kind},
			validate: func(w *webserverv1.WebServer) field.ErrorList { return webserver.Validate(w, platform) },
		}),
	)
}
