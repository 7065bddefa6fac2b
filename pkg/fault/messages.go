package fault

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	waits  = message.Place{In: message.Waits}
	stalls = message.Place{In: message.Stalls}
)

var (
	msgConflicts = waits.Define(message.Message{
		Text: "The API server keeps refusing a write as a conflict with another one. It is retried; the operator's log has the details.",
		When: "Another client changes the same object continuously. Find it in the managed fields of the object.",
	}, common.ReasonError)
	msgNamespaceDeleted = waits.Define(message.Message{
		Text: "The namespace is being deleted, so nothing can be created in it.",
		When: "The object is deleted together with the namespace.",
	}, common.ReasonWaiting)
	msgQuota = stalls.Define(message.Message{
		Text: "A ResourceQuota does not allow a child.", Quote: "message of the API server",
		Remedy: "Raise the quota, or request what it allows.",
		When:   "Admission refused a child because of a quota. It is tried again every minute.",
	}, common.ReasonQuotaExceeded)
	msgForbidden = stalls.Define(message.Message{
		Text: "The API server does not allow a request of the operator.", Quote: "message of the API server",
		When: "RBAC forbids it. Grant what the quoted message names.",
	}, common.ReasonForbidden)
	msgAdmission = stalls.Define(message.Message{
		Text: "The cluster does not admit a child.", Quote: "message of the API server",
		When: "A Pod Security Standard, a LimitRange, a policy or a webhook refuses it. Change the spec or what refuses it.",
	}, common.ReasonAdmissionRefused)
	msgNodePort = stalls.Define(message.Message{
		Text: "The node port in the spec cannot be allocated.", Quote: "message of the API server",
		Remedy: "Choose another one, or none.",
		When:   "Another Service has the node port, or it is outside of the cluster's range.",
	}, common.ReasonNodePortUnavailable)
	msgRangeFull = stalls.Define(message.Message{
		Text: "The cluster has no free address or node port for a Service.", Quote: "message of the API server",
		Remedy: "Delete Services, or ask an administrator to extend the range.",
		When:   "The range of cluster addresses (ServiceCIDR) or of node ports is full.",
	}, common.ReasonAddressesExhausted)
	msgInvalid = stalls.Define(message.Message{
		Text: "The API server rejects a child as invalid.", Quote: "message of the API server",
		Remedy: "Correct the spec.",
		When:   "The spec results in a child that Kubernetes does not accept.",
	}, common.ReasonInvalid)
	msgRefused = waits.Define(message.Message{
		Text: "The API server did not carry out a request ({reason, or no answer}). It is retried.",
		When: "The API server or etcd is overloaded or unreachable. The operator's log has the details.",
	}, common.ReasonError)
	msgWebhook = message.Define(message.Message{
		In: append([]string{message.Event}, message.Waits...), Reasons: []string{common.ReasonWebhookFailed},
		Text: "The API server cannot call an admission webhook of the cluster.", Quote: "child, webhook and error",
		Remedy: "The request is retried; repair or remove the webhook.",
		When:   "The webhook of another component does not answer, or its certificate is invalid, and its failure policy is Fail.",
	})
	msgServiceQuota = message.Define(message.Message{
		In: message.Stalls, Kinds: message.Web, Reasons: []string{common.ReasonQuotaExceeded},
		Text: "Set spec.service.type to ClusterIP if no node ports or load balancer are needed.",
		When: "It follows the message about a quota of node ports or load balancers.",
	})
	msgHistoryQuota = message.Define(message.Message{
		In: message.Stalls, Kinds: message.Deployments, Reasons: []string{common.ReasonQuotaExceeded},
		Text: "Set spec.rollout.revisionHistoryLimit to a lower number to keep fewer earlier revisions and their ConfigMaps.",
		When: "It follows the message about a quota of ConfigMaps or ControllerRevisions.",
	})
	msgPodSecurity = stalls.Define(message.Message{
		Text: "Set spec.security.profile to Restricted, or relax the label pod-security.kubernetes.io/enforce of the namespace.",
		When: "It follows a message about pods that violate the Pod Security Standard of their namespace.",
	}, common.ReasonAdmissionRefused)
)
