package rollout

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	waits    = message.Place{In: message.Waits, Kinds: message.Deployments}
	canaries = message.Place{In: message.Waits, Kinds: message.Web}
	stalls   = message.Place{In: message.Stalls, Kinds: message.Deployments}
	// failures is where the cause of a failure occurs.
	failures = message.Place{In: []string{"Ready=False", "Reconciling=True", "Stalled=True", message.LastActions}, Kinds: message.Deployments}
)

// failureReasons returns the reasons that conditions and an action with the cause
// of a failure may have.
func failureReasons(more ...string) []string {
	return append(more, common.ReasonRolloutFailed, common.ReasonRolledBack)
}

var (
	msgNotUpdated = waits.Define(message.Message{
		Text: "The Deployment has not been updated to the current spec yet.",
		When: "The Deployment could not be written. It is tried again.",
	}, common.ReasonProgressing)
	msgNodeLost = failures.Define(message.Message{
		Text: "Node \"{name}\" does not respond, and its pods may still be running there.",
		When: "The kubelet of the node has not reported for about 40 seconds. Kubernetes replaces the pods 30 seconds later, unless tolerations or the platform configuration state another time.",
	}, failureReasons(common.ReasonNodeLost)...)
	msgPreparing = waits.Define(message.Message{
		Text: "All pods have the content of revision {number}, which follows when the earlier pods have ended.",
		When: "Only with spec.content.keep of a WebServer: between the two rollouts of a change of the content.",
	}, common.ReasonProgressing)
	msgCanary = canaries.Define(message.Message{
		Text: "Revision {number} is a canary. It is promoted when its pods have been ready for rollout.canary.holdSeconds.",
		When: "Its share of the traffic and the time are in status.canary. To return to the earlier revision, restore the spec or set rollout.pinnedRevision.",
	}, common.ReasonCanary)
	msgCanaryManual = canaries.Define(message.Message{
		Text: "Revision {number} is a canary. To promote it, set rollout.promotedRevision to {number}.",
		When: "As above, with rollout.canary.promote: Manual.",
	}, common.ReasonCanary)
	msgNotJudged = canaries.Define(message.Message{
		Text: "Revision {number} is a canary that is not judged: not all of its pods have had {number} requests. It is promoted when they have. To promote it now, set rollout.promotedRevision to {number}.",
		When: "The spec has rollout.canary.maxErrorRatio, holdSeconds have passed, and too few requests are known. Lower rollout.canary.minRequests, or see in docs/api/common.md which requests are counted.",
	}, common.ReasonNotJudged)
	msgUncounted = message.Define(message.Message{
		In: message.Waits, Kinds: []string{"DemoApplication"}, Reasons: []string{common.ReasonNotJudged},
		Text: "Revision {number} is a canary that is not judged, because the requests to its pods are not known.", Quote: "cause",
		Remedy: "Correct rollout.requestCounter, or promote the revision by rollout.promotedRevision.",
		When:   "The metrics of the application could not be read during the whole hold, or have no such counter. A counter that begins with the first request needs one.",
	})
	msgExceeded = message.Place{In: failures.In, Kinds: message.Web}.Define(message.Message{
		Text: "{number} of {number} requests to a pod of the canary failed with 5xx, more than the limit of {percentage}.",
		When: "The errors of the canary certainly exceed rollout.canary.maxErrorRatio, by the lower bound of Wilson's interval of 95 %.",
	}, failureReasons(ReasonErrorRatio)...)
	msgPinned = message.Define(message.Message{
		In: []string{"Ready=True"}, Kinds: message.Deployments, Reasons: []string{common.ReasonServing, common.ReasonScaledToZero},
		Text: "Revision {number} is pinned.",
		When: "It follows another message if spec.rollout.pinnedRevision is set.",
	})
	msgStartedLate = waits.Define(message.Message{
		Text: "Pods that could not start before have the whole deadline to become ready.",
		When: "The cluster lacked capacity, a quota was exhausted, or an object was missing until now.",
	}, common.ReasonProgressing)
	msgPinnedFails = stalls.Define(message.Message{
		Text: "Revision {number}, which is pinned, does not become healthy.",
		When: "The cause follows. Pin another revision, or remove spec.rollout.pinnedRevision.",
	}, common.ReasonRolloutFailed)
	msgFailed = stalls.Define(message.Message{
		Text: "The rollout failed.",
		When: "The rollout failed, and its cause is not in status.lastActions any more.",
	}, common.ReasonRolloutFailed, common.ReasonRolledBack)
	msgTryAgain = stalls.Define(message.Message{
		Text: "Change the spec, or set rollout.restartedAt to try again.",
		When: "It follows the message about a failed rollout.",
	}, common.ReasonRolloutFailed, common.ReasonRolledBack)
	msgCorrect = stalls.Define(message.Message{
		Text: "Correct the ConfigMap or Secret that changed, change the spec, or set rollout.restartedAt to try again.",
		When: "It follows the message about a failed rollout that a change of a ConfigMap or Secret started.",
	}, common.ReasonRolloutFailed, common.ReasonRolledBack)
	msgHalted = stalls.Define(message.Message{
		Text: "The Deployment stays as it is (rollout.onFailure is Halt).",
		When: "It follows the cause of a failed rollout.",
	}, common.ReasonRolloutFailed)
	msgNoEarlier = stalls.Define(message.Message{
		Text: "There is no earlier revision to roll back to.",
		When: "It follows the cause of a failed rollout: no revision has been healthy before.",
	}, common.ReasonRolloutFailed)
	msgRollsBack = stalls.Define(message.Message{
		Text: "The Deployment is being rolled back to revision {number}.",
		When: "It follows the cause of a failed rollout.",
	}, common.ReasonRolloutFailed)
	msgUsed = stalls.Define(message.Message{
		Text: "Revision {number} is used instead.",
		When: "It follows the cause of a failed rollout. The number of replicas is 0.",
	}, common.ReasonRolledBack, common.ReasonRolloutFailed)
	msgServes = stalls.Define(message.Message{
		Text: "Revision {number} is serving instead.",
		When: "It follows the cause of a failed rollout, which was rolled back.",
	}, common.ReasonRolledBack, common.ReasonRolloutFailed)
	msgNotAvailable = stalls.Define(message.Message{
		Text: "Revision {number}, to which the Deployment was rolled back, is not available.",
		When: "It follows the cause of a failed rollout. The pods of the earlier revision are starting, or fail too.",
	}, common.ReasonRolledBack, common.ReasonRolloutFailed)
	msgPin = stalls.Define(message.Message{
		Text: "To use revision {number} instead, set rollout.pinnedRevision.",
		When: "It follows the message that the revision that was rolled back to is not available.",
	}, common.ReasonRolledBack, common.ReasonRolloutFailed)

	msgTooSlow = failures.Define(message.Message{
		Text: "The rollout did not make progress within its deadline.",
		When: "No other cause is visible in the pods.",
	}, failureReasons(ReasonDeadline)...)
	msgDescribe = failures.Define(message.Message{
		Text: "Run kubectl describe on the pods to see why.",
		When: "It follows the message about a container that has not been created.",
	}, failureReasons(common.ReasonContainerNotCreated)...)
	msgMounts = failures.Define(message.Message{
		Text: "Its pod mounts {Secrets and ConfigMaps}. Create what is missing, or refer to another one. Run kubectl describe on the pods to see which.",
		When: "The operator has no permission to read what the pod mounts.",
	}, failureReasons(common.ReasonReferenceNotFound)...)
	msgUnschedulable = failures.Define(message.Message{
		Text: "No node can run the pods. Run kubectl describe on them to see why.",
		When: "No node has the capacity, or the pods do not tolerate any node. The rollout continues once one has.",
	}, failureReasons(common.ReasonUnschedulable)...)
	msgConfigInvalid = message.Define(message.Message{
		In: append([]string{"ConfigValid=False"}, failures.In...), Kinds: message.Deployments, Reasons: failureReasons(ReasonConfigInvalid, "Invalid"),
		Text: "The configuration is rejected.", Quote: "output of the test",
		When: "The init container that tests the configuration fails. Correct the configuration.",
	})
	msgImagePull = failures.Define(message.Message{
		Text: "The image {image} cannot be pulled.", Quote: "message of the registry",
		When: "The image does not exist, the registry cannot be reached, a pull Secret is missing, or imagePullPolicy is Never.",
	}, failureReasons(common.ReasonImagePull, common.ReasonInjectedContainer)...)
	msgInitImage = failures.Define(message.Message{
		Text: "It is the image of init container {name}.",
		When: "The image is not that of the application.",
	}, failureReasons(common.ReasonImagePull, common.ReasonInjectedContainer)...)
	msgUnreachable = failures.Define(message.Message{
		Text: "The registry cannot be reached or is overloaded, or the node lacks space. The rollout continues when that ends.",
		When: "Run kubectl describe on the pods to see the error.",
	}, failureReasons(common.ReasonImagePull, common.ReasonInjectedContainer)...)
	msgNotCreated = failures.Define(message.Message{
		Text: "Container {name} cannot be created.", Quote: "message of the kubelet",
		When: "The spec of the container does not work on the node, or refers to what does not exist.",
	}, failureReasons(common.ReasonContainerNotCreated, common.ReasonReferenceNotFound, common.ReasonInjectedContainer)...)
	msgCreateReference = failures.Define(message.Message{
		Text: "Create it, or refer to another one.",
		When: "It follows the message of the kubelet.",
	}, failureReasons(common.ReasonReferenceNotFound)...)
	msgNotYetCreated = failures.Define(message.Message{
		Text: "Container {name} has not been created.",
		When: "The pod waits for its volumes, its network or an image. What to do follows.",
	}, failureReasons(common.ReasonContainerNotCreated, common.ReasonReferenceNotFound, common.ReasonInjectedContainer)...)
	msgCrash = failures.Define(message.Message{
		Text: "Container {name} exits with code {code and reason}.", Quote: "last lines of the log",
		When: "kubectl logs --previous has its log.",
	}, failureReasons(common.ReasonCrash, common.ReasonInjectedContainer)...)
	msgKeepsExiting = failures.Define(message.Message{
		Text: "Container {name} keeps exiting.",
		When: "The kubelet does not report its exit code. kubectl logs --previous has its log.",
	}, failureReasons(common.ReasonCrash, common.ReasonInjectedContainer)...)
	msgInitializing = failures.Define(message.Message{
		Text: "Init container {name} runs, and the pod waits for it.",
		When: "kubectl logs has its log.",
	}, failureReasons(common.ReasonNotReady, common.ReasonInjectedContainer)...)
	msgNotReady = failures.Define(message.Message{
		Text: "Container {name} runs but does not become ready.",
		When: "Its readiness probe fails. Run kubectl describe on the pods.",
	}, failureReasons(common.ReasonNotReady, common.ReasonInjectedContainer)...)
	msgInjected = failures.Define(message.Message{
		Text: "It is not in the pod template: another client, such as an admission webhook, adds it to the pods. Correct that, and delete the pods that do not start.",
		When: "Nothing is rolled back, because the pods of every revision have that container.",
	}, failureReasons(common.ReasonInjectedContainer)...)

	msgNoTemplate = stalls.Define(message.Message{
		Text: "ControllerRevision \"{name}\" contains no pod template. Delete it.",
		When: "The history of the object was edited.",
	}, common.ReasonInvalid)
	msgUnknownTemplate = stalls.Define(message.Message{
		Text: "ControllerRevision \"{name}\" is not used, because its pod template contains what the operator does not generate: {fields}. Delete it.",
		When: "The ControllerRevision was not written by the operator, or the Deployment was changed and its history was deleted. If no such ControllerRevision exists, change the spec.",
	}, common.ReasonNotAllowed)
	msgTemplateNotAllowed = stalls.Define(message.Message{
		Text: "The platform configuration does not allow the pod template of revision {number}: {fields}. Pin another revision, or change the spec.",
		When: "The revision is older than a rule for images, priority classes or pods, and has a value that the Deployment does not have now.",
	}, common.ReasonNotAllowed)
	msgNoRevision = stalls.Define(message.Message{
		Text: "Revision {number} (spec.rollout.pinnedRevision) does not exist. Pin one of the revisions that are kept: {numbers}.",
		When: "The revision never existed, or was pruned (rollout.revisionHistoryLimit).",
	}, common.ReasonRevisionNotFound)
	msgHealthyNotKept = stalls.Define(message.Message{
		Text: "Revision {number} failed, and revision {number}, which was healthy, is no longer kept. Change the spec, or set rollout.restartedAt to try again.",
		When: "The ControllerRevision was deleted during the rollout. The pods of that revision that still run are not deleted.",
	}, common.ReasonRevisionNotFound)
)
