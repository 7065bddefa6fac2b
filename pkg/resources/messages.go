package resources

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/message"
)

var (
	ready       = message.Place{In: []string{"Ready=True"}, Kinds: message.Deployments}
	waits       = message.Place{In: message.Waits, Kinds: message.Deployments}
	unavailable = message.Place{In: []string{"Available=False"}, Kinds: message.Deployments}
	exposed     = message.Place{In: []string{"Exposed=True"}, Kinds: message.Web}
	unexposed   = message.Place{In: []string{"Exposed=False"}, Kinds: message.Web}
)

var (
	msgNoDeployment = unavailable.Define(message.Message{
		Text: "No Deployment belongs to this object yet.",
		When: "The object is new, its Deployment cannot be created, or it belongs to another owner. See Ready for the cause.",
	}, common.ReasonNoReplicasAvailable)
	msgDeploymentCreated = waits.Define(message.Message{
		Text: "The Deployment is being created.",
		When: "The object is new, or its Deployment was deleted.",
	}, common.ReasonProgressing)
	msgNoReplicas = message.Define(message.Message{
		In: []string{"Ready=True", "Available=False"}, Kinds: message.Deployments, Reasons: []string{common.ReasonScaledToZero},
		Text: "The spec requests no replicas.",
		When: "The number of replicas is 0.",
	})
	msgServing = ready.Define(message.Message{
		Text: "{number of replicas} {is or are} up to date and available.",
		When: "The spec is rolled out completely.",
	}, common.ReasonServing)
	msgPodsNotCreated = message.Define(message.Message{
		In: []string{"Ready=False", "Stalled=True", message.LastActions}, Kinds: message.Deployments,
		Reasons: []string{
			common.ReasonQuotaExceeded, common.ReasonAdmissionRefused, common.ReasonWebhookFailed, common.ReasonReplicaFailure,
			common.ReasonRolloutFailed, common.ReasonRolledBack, "PodsRefused",
		},
		Text: "Pods cannot be created.", Quote: "message of the ReplicaSet controller",
		When: "Remove the cause that is quoted.",
	})
	msgDeadline = message.Define(message.Message{
		In: message.Stalls, Kinds: message.Deployments, Reasons: []string{common.ReasonRolloutFailed},
		Text: "The rollout did not make progress within its deadline. Run kubectl describe on the pods to see why.",
		When: "The pods did not become ready within rollout.progressDeadlineSeconds.",
	})
	msgProgressing = waits.Define(message.Message{
		Text: "The Deployment is waiting for {number of replicas} to be updated and available.",
		When: "A rollout is in progress.",
	}, common.ReasonProgressing)
	msgAvailable = message.Define(message.Message{
		In: []string{"Available=True"}, Kinds: message.Deployments, Reasons: []string{common.ReasonReplicasAvailable},
		Text: "At least one replica is available.",
		When: "The object is serving, perhaps with fewer replicas than the spec requests, or with an earlier spec. See Ready.",
	})
	msgUnavailable = unavailable.Define(message.Message{
		Text: "No replica is available.",
		When: "Pods are starting, or fail. See Ready for the cause.",
	}, common.ReasonNoReplicasAvailable)
	msgTwoBudgets = ready.Define(message.Message{
		Text: "PodDisruptionBudget \"{name}\" selects the pods too, and Kubernetes does not evict pods of two budgets. Remove it, or spec.podDisruptionBudget.",
		When: "It follows another message. Nodes cannot be drained while two budgets select the pods.",
	})
	msgServiceAccount = message.Define(message.Message{
		In: message.Stalls, Reasons: []string{common.ReasonNotAllowed},
		Text: "The platform configuration does not allow pods to run as service account \"{name}\" (serviceAccounts is false). Remove spec.pod.serviceAccountName.",
		When: "The platform configuration changed after the object was admitted, or a revision that is rolled back to has a service account.",
	})

	msgAutoscaling = message.Define(message.Message{
		In: message.Waits, Kinds: message.Web, Reasons: []string{common.ReasonAutoscalingFailed},
		Text: "The pods serve, but the HorizontalPodAutoscaler cannot scale them ({reason}).", Quote: "message of the HorizontalPodAutoscaler",
		When: "For two minutes, metrics-server or the adapter that spec.autoscaling.metrics needs is missing, a container that was added to the pods requests no resources, or another autoscaler selects the pods.",
	})
	msgIngressCreated = unexposed.Define(message.Message{
		Text: "The Ingress is being created.",
		When: "The object is new, or the Ingress cannot be created. See Ready for the cause.",
	}, common.ReasonProgressing)
	msgIngressWaits = unexposed.Define(message.Message{
		Text: "No ingress controller has set an address of the Ingress. Check the ingress class; some controllers never set an address.",
		When: "The Ingress has no address in its status.",
	}, common.ReasonWaiting)
	msgIngressAccepted = exposed.Define(message.Message{
		Text: "An ingress controller has set an address of the Ingress.",
		When: "The Ingress has an address in its status. The operator reads neither the IngressClass nor the TLS Secret.",
	}, common.ReasonAccepted)
	msgHostClaimed = unexposed.Define(message.Message{
		Text: "{kind} \"{name}\" in namespace \"{namespace}\" has the same host and path, and is older. Remove the host from one of the two objects.",
		When: "Both have the same ingress class or Gateway. Requests are routed to one of them only.",
	}, common.ReasonHostClaimed)
	msgRouteCreated = unexposed.Define(message.Message{
		Text: "The HTTPRoute is being created.",
		When: "The object is new, or the HTTPRoute cannot be created. See Ready for the cause.",
	}, common.ReasonProgressing)
	msgRouteWaits = unexposed.Define(message.Message{
		Text: "No Gateway has processed the HTTPRoute. Check that the Gateway in spec.expose.gateway.parentRef exists and that its controller runs.",
		When: "The status of the HTTPRoute is empty or outdated.",
	}, common.ReasonWaiting)
	msgRouteNotAccepted = unexposed.Define(message.Message{
		Text: "The Gateway does not accept the HTTPRoute ({reason}).", Quote: "message of the Gateway",
		When: "No listener of the Gateway allows the hosts or the namespace, or the Gateway cannot resolve the Service.",
	}, common.ReasonNotAccepted)
	msgRouteAccepted = exposed.Define(message.Message{
		Text: "The Gateway has accepted the HTTPRoute.",
		When: "All parents in the status of the HTTPRoute report that they accept it. The operator does not read the Gateway.",
	}, common.ReasonAccepted)
)
