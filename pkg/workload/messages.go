package workload

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	msgExposeNotAllowed = message.Define(message.Message{
		In: []string{"Exposed=False"}, Kinds: message.Web, Reasons: []string{common.ReasonNotAllowed},
		Text: "The platform configuration does not allow spec.expose.", Quote: "validation errors",
		When: "The platform configuration changed after the object was admitted.",
	})
	msgNoRoutes = message.Define(message.Message{
		In: []string{"Exposed=False"}, Kinds: message.Web, Reasons: []string{common.ReasonFeatureUnavailable},
		Text: "HTTPRoute (gateway.networking.k8s.io/v1) is not available in this cluster. Install the Gateway API, or use type Ingress.",
		When: "The CRD of the Gateway API is missing, or a feature gate disables it.",
	})
)
