package podstate

import (
	"regexp"
	"strings"
)

// remedies are what to do about texts that are about the same, in the words of the spec.
type remedies struct {
	about *regexp.Regexp
	// each reports that each part of the text may be about another node or pod, so that all
	// remedies apply, and not only the first one.
	each bool
	list []remedy
}

type remedy struct {
	says   *regexp.Regexp
	remedy string
}

func says(text, does string) remedy { return remedy{regexp.MustCompile(text), does} }

var known = []remedies{
	{ // k8s.io/kubernetes 1.36, pkg/scheduler/framework/plugins
		about: regexp.MustCompile(`nodes are available: `), each: true,
		list: []remedy{
			says(`Insufficient `, "Request less, or add nodes."),
			says(`Too many pods`, "Add nodes."),
			says(`taint`, "Tolerate the taint in spec.pod.tolerations, or remove it from a node."),
			says(`node affinity/selector`, "Correct spec.pod.nodeSelector and spec.pod.affinity, or label a node."),
			says(`pod affinity rules`, "Relax spec.pod.affinity."),
			says(`anti-affinity rules`, "Relax spec.pod.affinity, or add nodes."),
			says(`topology spread constraints`, "Relax spec.pod.topologySpreadConstraints, or add nodes."),
			says(`were unschedulable`, "Uncordon a node, or add nodes."),
			says(`unbound immediate PersistentVolumeClaims`, "Correct the storage class of the PersistentVolumeClaim, or create a PersistentVolume for it."),
			says(`persistentvolumeclaim "[^"]+" not found`, "Create the PersistentVolumeClaim, or correct spec.pod.volumes."),
		},
	},
	{
		about: regexp.MustCompile(`cannot be pulled|ErrImagePull|ImagePullBackOff`),
		list: []remedy{
			says(`no match for platform|no matching manifest`, "Use an image for the architecture of the nodes, or select other nodes in spec.pod.nodeSelector."),
			says(`authorization failed|access denied|no basic auth|(?i:unauthorized|403 forbidden)`, "Correct the image, or name a Secret of type kubernetes.io/dockerconfigjson with a login for its registry in spec.imagePullSecrets."),
			says(`failed to resolve (?:reference|image)\b.*: not found\b|manifest unknown|name unknown|repository name not known`, "Correct the image: the registry has no such name or tag."),
			{unreachable, "Correct the registry in the image, or repair the registry or the network of the nodes."},
		},
	},
	{ // k8s.io/apiserver 1.36, pkg/admission, and its plugins
		about: regexp.MustCompile(`Pods cannot be created: |does not admit a child: `),
		list: []remedy{
			says(`exceeded quota: `, "Raise the quota, or request what it allows."),
			says(`must specify `, "Set what the message names in spec.resources, or change the quota."),
			says(`usage per (?:Container|Pod)|limit to request ratio`, "Change spec.resources to what the LimitRange of the namespace allows."),
			says(`failed calling webhook`, "Repair the webhook that the message names, or remove its configuration."),
			says(`denied (?:the )?request`, "Change the spec as the message requires, or let the owner of the policy or webhook allow it."),
			says(`serviceaccount "[^"]+" not found`, "Create the ServiceAccount, or correct spec.pod.serviceAccountName."),
		},
	},
	{
		about: regexp.MustCompile(`exits with code|cannot be created`),
		list: []remedy{
			says(`unknown directive "http3"`, remedyHTTP3),
			says(`configuration is rejected`, "Correct spec.config, or the ConfigMap that it names."),
			{commandMissing, "Correct spec.command and spec.args, or use an image that contains the program."},
			says(`exec format error`, "Begin the script with #!, or use an image for the architecture of the nodes."),
			says(`exec: .*permission denied`, "Correct spec.command, or make the file executable."),
			says(`OOMKilled`, "Raise spec.resources.limits.memory, or let the program need less."),
			says(`Read-only file system`, "Mount an emptyDir there (spec.pod.volumes), or set spec.security.readOnlyRootFilesystem to false."),
			says(`runAsNonRoot`, "Set spec.security.runAsUser, or use an image that does not run as root."),
			says(`couldn't find key`, "Add the key that the message names, or refer to another one."),
			says(`(?:configmap|secret) "[^"]+" not found`, remedyReference),
		},
	},
	{
		about: regexp.MustCompile(``),
		list: []remedy{
			says(`The configuration is rejected.*unknown directive "http3"`, remedyHTTP3),
			says(`The configuration is rejected`, "Correct spec.config, or the ConfigMap that it names."),
			says(`references non-existent`, "Add the key that the message names, or refer to another one."),
			says(`FailedMount: .*not found`, remedyReference),
			says(`Evicted: `, "A new pod replaces it. If that repeats, raise the limit or the request that the message names."),
			says(`[Nn]ode "[^"]+" does not respond`, "Repair the node, or delete the Node object if the node no longer exists."),
			says(`HorizontalPodAutoscaler cannot scale .*(?:custom|external) metrics API`, "Correct spec.autoscaling.metrics, or install or repair the adapter that serves the metric."),
			says(`HorizontalPodAutoscaler cannot scale .*unable to get metrics`, "Install metrics-server, or repair it."),
			says(`[Pp]robe (?:failed|errored|fails)|does not become ready`, "Correct spec.probes, the ports in the spec, or the program in the container, unless that needs more time."),
		},
	},
}

const (
	remedyReference = "Create the object that the message names, or correct the spec."
	remedyHTTP3     = "Use an image whose nginx has ngx_http_v3_module, or remove spec.tls.http3."
)

// Remedy returns what to do about a text of the scheduler, the kubelet, a registry, the API
// server or a program, as a condition or the command line quotes it, or "".
func Remedy(text string) string {
	for _, k := range known {
		if !k.about.MatchString(text) {
			continue
		}
		var all []string
		for _, r := range k.list {
			if r.says.MatchString(text) && (k.each || len(all) == 0) {
				all = append(all, r.remedy)
			}
		}
		return strings.Join(all, " ")
	}
	return ""
}
