package converge

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	msgPaused = message.Define(message.Message{
		In: message.Waits, Reasons: []string{common.ReasonPaused},
		Text: "Children differ from the spec and are not changed, because spec.paused is true.", Quote: "children and fields",
		When: "Set spec.paused to false to have them changed.",
	})
	msgRestored = message.Define(message.Message{
		In: []string{message.Event}, Reasons: []string{common.ReasonRestored},
		Text: "{child} was changed by another client and is restored: {fields}. Change the spec of this object instead, or pause it.",
		When: "Fields of a child that the operator sets were changed, such as by kubectl set image or kubectl edit. Repairs that repeat are limited to one a minute.",
	})
	msgDeletionBlocked = message.Define(message.Message{
		In:   []string{"Ready=Unknown", "Reconciling=True", "Stalled=True", message.Event},
		Text: "The object cannot be deleted yet.",
		When: "The children cannot be released (deletion policy Orphan). The message about the error follows.",
	})
	msgDeletionRemedy = message.Define(message.Message{
		In:   []string{"Ready=Unknown", "Stalled=True", message.Event},
		Text: "Remove the cause, or set spec.deletionPolicy to Delete: then the object is deleted without releasing the remaining children.",
		When: "It follows a message about a request that the API server refuses.",
	})
	msgNotListed = message.Define(message.Message{
		In: message.Stalls, Reasons: []string{common.ReasonFeatureUnavailable},
		Text: "{kind} cannot be listed. Check that its CRD works and that the operator has permission to list and watch it. It will be created then.",
		When: "The API server serves the kind, and the operator cannot read its objects.",
	})
	msgNotAvailable = message.Define(message.Message{
		In: message.Stalls, Reasons: []string{common.ReasonFeatureUnavailable},
		Text: "{kind} is not available in this cluster or is disabled by a feature gate. It will be created once its CRD is installed.",
		When: "The spec needs a kind that the cluster does not serve.",
	})
)
