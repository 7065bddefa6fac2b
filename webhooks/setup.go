package webhooks

import (
	"errors"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/demoapplication"
	"github.com/platform-operator/platform-operator/webhooks/immortalcontainer"
	"github.com/platform-operator/platform-operator/webhooks/memcached"
	"github.com/platform-operator/platform-operator/webhooks/policy"
	"github.com/platform-operator/platform-operator/webhooks/webserver"
)

// Setup registers the webhooks of all kinds.
func Setup(mgr manager.Manager, platform config.Platform) error {
	scale := func(old, now *autoscalingv1.Scale) field.ErrorList { return policy.Scale(old, now, platform) }
	return errors.Join(
		register(mgr, &demoapplicationv1.DemoApplication{}, kind[*demoapplicationv1.DemoApplication]{
			gk: schema.GroupKind{Group: demoapplicationv1.GroupVersion.Group, Kind: demoapplicationv1.Kind},
			validate: func(a *demoapplicationv1.DemoApplication) field.ErrorList {
				return demoapplication.Validate(a, platform)
			},
			judge: func(a *demoapplicationv1.DemoApplication) policy.Verdict { return policy.DemoApplication(a, platform) },
			scale: scale,
		}),
		register(mgr, &immortalv1alpha1.ImmortalContainer{}, kind[*immortalv1alpha1.ImmortalContainer]{
			gk:       schema.GroupKind{Group: immortalv1alpha1.GroupVersion.Group, Kind: immortalv1alpha1.Kind},
			validate: immortalcontainer.Validate,
			judge: func(i *immortalv1alpha1.ImmortalContainer) policy.Verdict {
				return policy.ImmortalContainer(i, platform)
			},
		}),
		register(mgr, &cachev1alpha1.Memcached{}, kind[*cachev1alpha1.Memcached]{
			gk:       schema.GroupKind{Group: cachev1alpha1.GroupVersion.Group, Kind: cachev1alpha1.Kind},
			validate: memcached.Validate,
			judge:    func(m *cachev1alpha1.Memcached) policy.Verdict { return policy.Memcached(m, platform) },
			scale:    scale,
		}),
		register(mgr, &webserverv1.WebServer{}, kind[*webserverv1.WebServer]{
			gk:       schema.GroupKind{Group: webserverv1.GroupVersion.Group, Kind: webserverv1.Kind},
			validate: func(w *webserverv1.WebServer) field.ErrorList { return webserver.Validate(w, platform) },
			judge:    func(w *webserverv1.WebServer) policy.Verdict { return policy.WebServer(w, platform) },
			scale:    scale,
		}),
	)
}
