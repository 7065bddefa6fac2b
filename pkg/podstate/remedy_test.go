package podstate

import "testing"

func TestRemedy(t *testing.T) {
	const pull = `The image r/web:2 cannot be pulled: rpc error: code = Unknown desc = failed to pull and unpack image "r/web:2": `
	for says, want := range map[string]string{
		"0/2 nodes are available: 2 Insufficient memory. preemption: 0/2 nodes are available: 2 No preemption victims found for incoming pod.":                              "Request less, or add nodes.",
		"0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint(s).":                                                                                  "Request less, or add nodes. Tolerate the taint in spec.pod.tolerations, or remove it from a node.",
		"0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.":                                                                                     "Correct spec.pod.nodeSelector and spec.pod.affinity, or label a node.",
		"0/1 nodes are available: 1 node(s) didn't match pod affinity rules.":                                                                                               "Relax spec.pod.affinity.",
		"0/1 nodes are available: 1 node(s) didn't satisfy existing pods anti-affinity rules.":                                                                              "Relax spec.pod.affinity, or add nodes.",
		"0/2 nodes are available: 1 node(s) didn't match pod topology spread constraints, 1 node(s) didn't match pod topology spread constraints (missing required label).": "Relax spec.pod.topologySpreadConstraints, or add nodes.",
		"0/1 nodes are available: 1 node(s) were unschedulable.":                                                                                                            "Uncordon a node, or add nodes.",
		"0/1 nodes are available: 1 Too many pods.":                                                                                                                         "Add nodes.",
		"0/2 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found":                                                                              "Correct the storage class of the PersistentVolumeClaim, or create a PersistentVolume for it.",
		`0/2 nodes are available: persistentvolumeclaim "data" not found.`:                                                                                                  "Create the PersistentVolumeClaim, or correct spec.pod.volumes.",
		"": "",

		pull + `failed to resolve reference "r/web:2": r/web:2: not found. Revision 1 is serving instead.`:                                                 "Correct the image: the registry has no such name or tag.",
		pull + `no match for platform in manifest: not found.`:                                                                                             "Use an image for the architecture of the nodes, or select other nodes in spec.pod.nodeSelector.",
		pull + `failed to resolve reference "r/web:2": unexpected status from HEAD request to https://r/v2/web/manifests/2: 401 Unauthorized`:              "Correct the image, or name a Secret of type kubernetes.io/dockerconfigjson with a login for its registry in spec.imagePullSecrets.",
		pull + `failed to resolve reference "r/web:2": failed to do request: Head "https://r/v2/web/manifests/2": dial tcp: lookup r: no such host`:        "Correct the registry in the image, or repair the registry or the network of the nodes.",
		pull + `failed to prepare extraction snapshot "x": parent snapshot sha256:0 does not exist: not found`:                                             "",
		`Container shop exits with code 1: error: authorization failed: Insufficient privileges, probe failed.`:                                            "",
		`Container shop exits with code 255: exec /s/run: exec format error.`:                                                                              "Begin the script with #!, or use an image for the architecture of the nodes.",
		`Container shop exits with code 137 (OOMKilled).`:                                                                                                  "Raise spec.resources.limits.memory, or let the program need less.",
		`Container shop exits with code 128 (StartError): runc create failed: unable to start container process: exec: "/app": stat /app: no such file`:    "",
		`Container shop cannot be created: unable to start container process: exec: "/app": stat /app: no such file or directory: unknown`:                 "Correct spec.command and spec.args, or use an image that contains the program.",
		`Container shop cannot be created. container has runAsNonRoot and image will run as root`:                                                          "Set spec.security.runAsUser, or use an image that does not run as root.",
		`Container shop cannot be created: couldn't find key level in ConfigMap shop/settings. Create it, or refer to another one.`:                        "Add the key that the message names, or refer to another one.",
		`Pod shop-1: container shop: ContainerCreating: FailedMount: MountVolume.SetUp failed for volume "s" : references non-existent secret key: absent`: "Add the key that the message names, or refer to another one.",
		`Pods cannot be created: pod is forbidden: failed quota: small: must specify limits.cpu for: webserver.`:                                           "Set what the message names in spec.resources, or change the quota.",
		`Pods cannot be created: pod is forbidden: minimum cpu usage per Container is 20m, but request is 10m.`:                                            "Change spec.resources to what the LimitRange of the namespace allows.",
		`Pods cannot be created: Internal error occurred: failed calling webhook "mesh.example.com": connection refused.`:                                  "Repair the webhook that the message names, or remove its configuration.",
		`Pods cannot be created: pod is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: 1.27.4 is not approved.`:                 "Change the spec as the message requires, or let the owner of the policy or webhook allow it.",
		`The configuration is rejected, because the nginx of the image has no HTTP/3. Use another image: [emerg] unknown directive "http3" in /a:1.`:       remedyHTTP3,
		`The configuration is rejected: [emerg] unknown directive "retrun". Revision 1 is serving instead.`:                                                "Correct spec.config, or the ConfigMap that it names.",
		`The pods serve, but the HorizontalPodAutoscaler cannot scale them (FailedGetResourceMetric): unable to get metrics for resource cpu.`:             "Install metrics-server, or repair it.",
		`The pods serve, but the HorizontalPodAutoscaler cannot scale them (FailedGetPodsMetric): the HPA was unable to compute the replica count: unable to get metric requests: unable to fetch metrics from custom metrics API: the server could not find the metric requests for pods.`: "Correct spec.autoscaling.metrics, or install or repair the adapter that serves the metric.",
		`Container shop runs but does not become ready.`:                                                                                                    "Correct spec.probes, the ports in the spec, or the program in the container, unless that needs more time.",
		`Pod shop-1: Evicted: Usage of EmptyDir volume "e" exceeds the limit "1Mi".`:                                                                        "A new pod replaces it. If that repeats, raise the limit or the request that the message names.",
		`Node "node2" does not respond, and its pods may still be running there.`:                                                                           "Repair the node, or delete the Node object if the node no longer exists.",
		`The API server cannot call an admission webhook of the cluster: failed calling webhook "x". The request is retried; repair or remove the webhook.`: "",
		`Pods cannot be created: pod is forbidden: error looking up service account shop/api: serviceaccount "api" not found.`:                              "Create the ServiceAccount, or correct spec.pod.serviceAccountName.",
	} {
		if got := Remedy(says); got != want {
			t.Errorf("%q: got %q, want %q", says, got, want)
		}
	}
}
