package workload

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	ready     = message.Place{In: []string{"Ready=True"}, Kinds: message.Deployments}
	waits     = message.Place{In: message.Waits, Kinds: message.Deployments}
	unexposed = message.Place{In: []string{"Exposed=False"}, Kinds: message.Web}
)

// Only one kind can run a command before a rollout.
var (
	beforeWaits  = message.Place{In: message.Waits, Kinds: []string{"DemoApplication"}}
	beforeStalls = message.Place{In: message.Stalls, Kinds: beforeWaits.Kinds}
)

var (
	msgExposeNotAllowed = unexposed.Define(message.Message{
		Text: "The platform configuration does not allow spec.expose.", Quote: "validation errors",
		When: "The platform configuration changed after the object was admitted.",
	}, common.ReasonNotAllowed)
	msgNoJudge = message.Define(message.Message{
		In: message.Stalls, Kinds: message.Web, Reasons: []string{common.ReasonNotAllowed},
		Text: "The platform configuration has no image that judges canaries (pods.judgeImage): remove spec.rollout.canary.maxErrorRatio.",
		When: "The image was removed from the platform configuration, or admission is not installed. The pods stay as they are.",
	})
	msgRolloutWaits = waits.Define(message.Message{
		Text: "A ConfigMap or Secret changed, and the rollout waits until those of other objects in this namespace have succeeded.",
		When: "The platform configuration (sharedRollouts) limits how many objects are rolled out at once. The object keeps serving what it had, and a change of its spec is rolled out immediately.",
	}, common.ReasonRolloutWaiting)
	msgRolloutHeld = waits.Define(message.Message{
		Text: "A ConfigMap or Secret changed, and the rollout is held because those of other objects in this namespace failed. Correct the ConfigMap or Secret.",
		When: "As many rollouts failed as the platform configuration (sharedRollouts) allows at once. The object keeps serving what it had, and continues by itself once the cause is corrected.",
	}, common.ReasonRolloutHeld)
	msgNoStep = waits.Define(message.Message{
		Text: "The rollout does not continue, although all pods are ready. Check the admission webhooks of ReplicaSets, and the kube-controller-manager. The step is tried again once a minute.",
		When: "All pods have been ready for a minute, and the Deployment is not complete.",
	}, common.ReasonProgressing)
	msgOneNode = ready.Define(message.Message{
		Text: "All pods are on node \"{name}\". If others can run them, rollout.restartedAt distributes them.",
		When: "It follows another message, if the operator has observed pods on other nodes. If that node fails, the object does not serve until new pods are ready.",
	}, common.ReasonServing)
	msgBefore = beforeWaits.Define(message.Message{
		Text: "Running the command before the rollout, in Job \"{name}\".",
		When: "The Deployment is not changed until the command has succeeded.",
	}, common.ReasonBeforeRollout, common.ReasonImagePull, common.ReasonCrash, common.ReasonContainerNotCreated, common.ReasonNodeLost, common.ReasonReferenceNotFound, common.ReasonUnschedulable)
	msgBeforeNoPod = beforeWaits.Define(message.Message{
		Text: "Job \"{name}\", which runs the command before the rollout, has no pod yet. If that lasts, see kubectl describe job {name}.",
		When: "A quota or a policy refuses the pod, for example.",
	}, common.ReasonBeforeRollout)
	msgBeforeWaits = beforeWaits.Define(message.Message{
		Text: "The command before the rollout waits until that of an earlier change has ended.",
		When: "The spec was changed again while the command was running. To end that one, delete its Job.",
	}, common.ReasonBeforeRollout)
	msgBeforeFailed = message.Define(message.Message{
		In: append([]string{message.LastActions}, message.Stalls...), Kinds: beforeStalls.Kinds, Reasons: []string{reasonBeforeFailed, common.ReasonRolloutFailed},
		Text: "The command before the rollout failed ({exit code or reason}).", Quote: "last lines of the log",
		When: "The command ended with an error, was evicted, or exceeded rollout.before.deadlineSeconds (DeadlineExceeded).",
	})
	msgBeforeLost = beforeStalls.Define(message.Message{
		Text: "The command before the rollout failed.",
		When: "Its cause is not in status.lastActions any more.",
	}, common.ReasonRolloutFailed)
	msgNothingChanged = beforeStalls.Define(message.Message{
		Text: "The Deployment was not changed. Change the spec, or set rollout.restartedAt to run the command again.",
		When: "It follows the message about a command that failed.",
	}, common.ReasonRolloutFailed)
	msgEvicting = ready.Define(message.Message{
		Text: "A pod is to be evicted, and is replaced first.",
		When: "A node is drained. There is one pod more until the new one is available, for ten minutes at most.",
	})
	msgNotReplaced = message.Define(message.Message{
		In: []string{message.LastActions}, Kinds: message.Deployments, Reasons: []string{"NotReplaced"},
		Text: "A pod may be evicted without a replacement, which was not available within ten minutes.",
		When: "A node is drained, and no other node has room for one more pod, or that pod did not become ready. The cause may follow.",
	})
	msgNoRoutes = unexposed.Define(message.Message{
		Text: "HTTPRoute (gateway.networking.k8s.io/v1) is not available in this cluster. Install the Gateway API, or use type Ingress without gateway.",
		When: "The CRD of the Gateway API is missing, or a feature gate disables it.",
	}, common.ReasonFeatureUnavailable)
)
