package demoapplication

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var msgServiceCreated = message.Define(message.Message{
	In: message.Waits, Kinds: []string{"DemoApplication"}, Reasons: []string{common.ReasonProgressing},
	Text: "The Service is being created.",
	When: "The pods are ready, and the Service does not exist yet.",
})
