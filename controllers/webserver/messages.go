package webserver

import (
	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

var onlyKind = []string{"WebServer"}

var (
	msgConfigUnknown = message.Define(message.Message{
		In: []string{"ConfigValid=Unknown"}, Kinds: onlyKind, Reasons: []string{webserverv1.ReasonTesting},
		Text: "The configuration cannot be determined.",
		When: "What the spec refers to cannot be read. See Ready for the cause.",
	})
	msgConfigAccepted = message.Define(message.Message{
		In: []string{"ConfigValid=True"}, Kinds: onlyKind, Reasons: []string{webserverv1.ReasonTested},
		Text: "The configuration is accepted by nginx.",
		When: "Pods with the configuration serve, or have served.",
	})
	msgConfigUntested = message.Define(message.Message{
		In: []string{"ConfigValid=Unknown"}, Kinds: onlyKind, Reasons: []string{webserverv1.ReasonTesting},
		Text: "No pods with the configuration are serving.",
		When: "The rollout of the configuration is in progress or failed for another reason, or there are no replicas.",
	})
	msgNoHTTP3 = message.Define(message.Message{
		In: []string{"ConfigValid=False", "Ready=False", "Reconciling=True", "Stalled=True", message.LastActions}, Kinds: onlyKind,
		Reasons: []string{rollout.ReasonConfigInvalid, webserverv1.ReasonInvalid, common.ReasonRolloutFailed, common.ReasonRolledBack},
		Text:    "The configuration is rejected, because the nginx of the image has no HTTP/3. Use another image, or remove spec.tls.http3.", Quote: "output of the test",
		When: "The version of nginx is older than 1.25, or it was built without ngx_http_v3_module.",
	})
	msgPair = message.Define(message.Message{
		In: message.Stalls, Kinds: onlyKind, Reasons: []string{common.ReasonCertificateInvalid},
		Text: "The certificate and the key in Secret \"{name}\" (spec.tls.secretRef) cannot be used.", Quote: "cause",
		Remedy: "Correct the Secret: HTTPS fails until then.",
		When:   "The two do not match, or the certificate has expired. Only if the platform configuration allows the operator to read Secrets (restartOnSecretChange).",
	})
	msgNoKey = message.Define(message.Message{
		In: message.Stalls, Kinds: onlyKind, Reasons: []string{reasonConfigMapKeyNotFound},
		Text: "ConfigMap \"{name}\" (spec.config.configMapRef) has no text under the key \"{key}\". Add it, or refer to another key.",
		When: "The pods stay as they are until the key exists.",
	})
)
