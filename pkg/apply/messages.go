package apply

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	msgFallback = message.Define(message.Message{
		In: message.Waits, Reasons: []string{common.ReasonWaiting},
		Text: "{child} cannot be restored as it was yet. It is retried.",
		When: "The API server has not released its node port or selector yet.",
	})
	msgReplaced = message.Define(message.Message{
		In: message.Waits, Reasons: []string{common.ReasonWaiting},
		Text: "{child} cannot be changed in place. It is being deleted and will be created again.",
		When: "An immutable field of a child differs.",
	})
	msgChildDeleted = message.Define(message.Message{
		In: message.Waits, Reasons: []string{common.ReasonWaiting},
		Text: "{child} is being deleted. It will be created again after that.",
		When: "A child was deleted, and a finalizer delays that.",
	})
	msgUnowned = message.Define(message.Message{
		In: message.Stalls, Reasons: []string{common.ReasonConflict},
		Text: "{child} exists already and {has no owner, or is managed by a tool}, so it is not changed. Delete or rename it, rename this object, or hand it over by the annotation {key}: {UID}.",
		When: "Another object has the name of a child.",
	})
	msgEarlier = message.Define(message.Message{
		In: message.Waits, Reasons: []string{common.ReasonWaiting},
		Text: "{child} belongs to an earlier {kind} of this name. It will be created again when it is deleted.",
		When: "The garbage collector has not deleted the earlier children yet.",
	})
	msgOtherOwner = message.Define(message.Message{
		In: message.Stalls, Reasons: []string{common.ReasonConflict},
		Text: "{child} exists already and belongs to {kind} \"{name}\", so it is not changed. Delete or rename one of the two.",
		When: "A child of another object has the name of a child.",
	})
	msgDisputed = message.Define(message.Message{
		In: message.Stalls, Reasons: []string{common.ReasonDisputed},
		Text: "Another client keeps changing {fields} of {child}. This is repaired only once a minute. Stop that client, or let the spec state what it wants.",
		When: "The child was changed again after each of five repairs, for instance the replicas by a HorizontalPodAutoscaler that a user created: remove it, and set spec.autoscaling instead. The condition ends two minutes after the last repair.",
	})
)
