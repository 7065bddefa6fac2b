package immortalcontainer

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var onlyKind = []string{"ImmortalContainer"}

var (
	waits = message.Place{In: message.Waits, Kinds: onlyKind}
	// notAvailable is where an object is described whose container does not run.
	notAvailable = message.Place{In: []string{"Ready=False", "Reconciling=True", "Available=False"}, Kinds: onlyKind}
)

var (
	msgSuspended = message.Define(message.Message{
		In: []string{"Ready=True", "Available=False"}, Kinds: onlyKind, Reasons: []string{common.ReasonSuspended},
		Text: "No pod runs, because spec.suspend is true.",
		When: "The object is suspended.",
	})
	msgPodCreated = notAvailable.Define(message.Message{
		Text: "The pod is being created.",
		When: "The object is new, or its pod was deleted.",
	}, common.ReasonProgressing)
	msgNodeLost = notAvailable.Define(message.Message{
		Text: "Node \"{name}\" does not respond, and the pod may still be running there. Repair the node, or delete the Node object if the node no longer exists.",
		When: "The kubelet of the node has stopped reporting. A second pod could run at the same time as the first.",
	}, common.ReasonNodeLost)
	msgSuspending = notAvailable.Define(message.Message{
		Text: "The pod is being deleted, because spec.suspend is true.",
		When: "The object was suspended a moment ago.",
	}, common.ReasonProgressing)
	msgPodDeleted = notAvailable.Define(message.Message{
		Text: "The pod is being deleted. A new pod will be created.",
		When: "The pod was deleted, or is replaced.",
	}, common.ReasonProgressing)
	msgPodEnded = notAvailable.Define(message.Message{
		Text: "The pod ended ({reason}). A new pod will be created.",
		When: "The pod failed, completed or was evicted.",
	}, common.ReasonProgressing)
	msgEndedSoon = waits.Define(message.Message{
		Text: "The pod ended soon after its start ({reason}). A new pod will be created in a moment.",
		When: "Pods are created at most every ten seconds. If this continues, correct the spec.",
	}, common.ReasonWaiting)
	msgPodReplaced = waits.Define(message.Message{
		Text: "The pod is being recreated with its new image, because admission changes the images of new pods.",
		When: "spec.image changed, and a webhook changes images when pods are created.",
	}, common.ReasonProgressing)
	msgNewImage = waits.Define(message.Message{
		Text: "The container is being restarted with its new image.",
		When: "spec.image changed.",
	}, common.ReasonProgressing)
	msgRunning = message.Define(message.Message{
		In: []string{"Ready=True", "Available=True"}, Kinds: onlyKind, Reasons: []string{common.ReasonRunning},
		Text: "The container runs.",
		When: "The container runs the image in the spec, and is ready.",
	})
	msgUnschedulable = notAvailable.Define(message.Message{
		Text: "No node can run the pod. Run kubectl describe on it to see why.",
		When: "No node has the capacity, or the pod does not tolerate any node. It starts once a node can run it.",
	}, common.ReasonUnschedulable)
	msgImagePull = notAvailable.Define(message.Message{
		Text: "The image cannot be pulled. Correct spec.image, or what prevents the image from being pulled.",
		When: "The image does not exist, the registry cannot be reached, a pull Secret is missing, or imagePullPolicy is Never.",
	}, common.ReasonImagePull)
	msgNotCreated = notAvailable.Define(message.Message{
		Text: "The container cannot be created. Run kubectl describe on the pod to see why.",
		When: "The spec of the container does not work on the node.",
	}, common.ReasonContainerNotCreated)
	msgReferenceMissing = notAvailable.Define(message.Message{
		Text: "The container cannot be created.", Quote: "message of the kubelet", Remedy: "Create it, or refer to another one.",
		When: "The container refers to a Secret, a ConfigMap or a key that does not exist.",
	}, common.ReasonReferenceNotFound)
	msgNotMounted = notAvailable.Define(message.Message{
		Text: "The pod waits for its volumes. It mounts {Secrets and ConfigMaps}. Create what is missing, or refer to another one. Run kubectl describe on the pod to see which.",
		When: "The operator has no permission to read what the pod mounts.",
	}, common.ReasonReferenceNotFound)
	msgPodNotReady = notAvailable.Define(message.Message{
		Text: "The container runs, but the pod is not ready. Run kubectl describe on the pod to see what it waits for.",
		When: "A readiness gate of the pod is not fulfilled.",
	}, common.ReasonNotReady)
	msgNotReady = notAvailable.Define(message.Message{
		Text: "The container runs, but its readiness probe fails.",
		When: "Correct the probe, or the program in the container.",
	}, common.ReasonNotReady)
	msgKeepsExiting = notAvailable.Define(message.Message{
		Text: "The container keeps exiting. Run kubectl logs --previous to see why.",
		When: "The kubelet does not report the exit code.",
	}, common.ReasonCrash)
	msgExits = notAvailable.Define(message.Message{
		Text: "The container exits with code {code and reason}. Run kubectl logs --previous to see why.",
		When: "OOMKilled means that it needs more memory than its limit.",
	}, common.ReasonCrash)
	msgInjected = notAvailable.Define(message.Message{
		Text: "Container {name} of the pod does not run. Another client, such as an admission webhook, adds it. Correct that, and delete the pod.",
		When: "kubectl describe on the pod has the cause.",
	}, common.ReasonInjectedContainer)
	msgStarting = notAvailable.Define(message.Message{
		Text: "The container is starting.",
		When: "The container is being created, or is not ready yet.",
	}, common.ReasonProgressing)
)
