package configsource

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var msgNoReference = message.Define(message.Message{
	In: message.Stalls, Kinds: message.Deployments, Reasons: []string{common.ReasonReferenceNotFound},
	Text: "{ConfigMap or Secret} \"{name}\" ({field}) does not exist in this namespace. Create it, or refer to another one.",
	When: "The spec refers to an object that does not exist. The pods stay as they are until it does.",
})
