package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/platform-operator/platform-operator/apis/common"
)

// PullPolicy defines which pull policies objects may have.
type PullPolicy string

const (
	// PullAny admits all pull policies.
	PullAny PullPolicy = "Any"
	// PullAlways rejects images that may be used without being pulled. A private
	// image that is on a node for another tenant's pod can then be used only with
	// the credentials for it.
	PullAlways PullPolicy = "Always"
)

// KeyPolicy defines how labels and annotations of pods that are not listed are
// treated.
type KeyPolicy string

const (
	// KeysAllow admits all keys except the restricted ones.
	KeysAllow KeyPolicy = "Allow"
	// KeysRefuse rejects all keys that are not listed.
	KeysRefuse KeyPolicy = "Refuse"
)

// Pods restricts the settings of pods.
type Pods struct {
	// Annotations and Labels are the keys that pods may have although other programs
	// act on them, such as service meshes and network plugins: a key, example.com/*
	// for every key with that prefix, or * for all.
	Annotations []string `json:"annotations"`
	Labels      []string `json:"labels"`
	// UnlistedKeys is Allow, which admits all other keys except those of known
	// programs, or Refuse.
	UnlistedKeys KeyPolicy `json:"unlistedKeys"`
	// RuntimeClasses are the allowed runtime classes; * for any characters.
	RuntimeClasses []string `json:"runtimeClasses"`
	// Tolerations are the keys of the taints that pods may tolerate. A toleration of
	// all taints needs the entry *.
	Tolerations []string `json:"tolerations"`
	// InitContainers allows objects to set init containers and sidecars, which run commands
	// of the user with the images that are allowed.
	InitContainers bool `json:"initContainers"`
	// JudgeImage is the image of the operator, which counts the errors of canaries in
	// the pods of objects with rollout.canary.maxErrorRatio. If it is empty, objects
	// may not have that.
	JudgeImage string `json:"judgeImage"`
	// LeastProfile is the least strict security profile that is allowed.
	LeastProfile common.SecurityProfile `json:"leastProfile"`
	// MaxTerminationGracePeriodSeconds limits how long a pod may delay the drain of
	// its node.
	MaxTerminationGracePeriodSeconds int64 `json:"maxTerminationGracePeriodSeconds"`
	// DrainSeconds is how long a pod of a WebServer or DemoApplication keeps serving
	// after its deletion began, unless the object sets it.
	DrainSeconds int64 `json:"drainSeconds"`
	// TolerationSeconds is how long a pod of a WebServer, DemoApplication or Memcached
	// stays on a node that is unreachable or not ready, unless the object has a
	// toleration of the taint.
	TolerationSeconds int64 `json:"tolerationSeconds"`
	// UserNamespaces runs the pods of new revisions of a WebServer, DemoApplication or
	// Memcached in a user namespace (hostUsers: false).
	UserNamespaces bool `json:"userNamespaces"`
	// MaxEmptyDirSize limits the size of each emptyDir volume, which must then have a
	// sizeLimit. 0 means no limit.
	MaxEmptyDirSize resource.Quantity `json:"maxEmptyDirSize"`
}

// longestGracePeriod and longestDrain are the maximums in the schemas of the kinds.
const (
	longestGracePeriod = 86400
	longestDrain       = 3600
)

// LongestToleration is the maximum of Pods.TolerationSeconds.
const LongestToleration = 3600

// DefaultGracePeriod is the grace period of pods, in seconds, unless the spec sets
// one or they drain for longer than by default.
const DefaultGracePeriod = 30

// defaultDrain is how long nodes and clients need until they no longer use a pod
// (docs/decisions/0010-draining.md).
const defaultDrain = 5

// GracePeriod returns the grace period of pods that drain for some seconds, unless
// the spec sets one: a longer drain leaves as much time after it as the default.
func GracePeriod(drain int64) int64 {
	return DefaultGracePeriod + max(0, drain-defaultDrain)
}

// restrictedDomains are the prefixes of keys on which programs act with permissions
// that the user may not have: they change the network, the identity, the containers,
// the devices or the runtime of a pod, configure an agent on its node, or keep the node.
// Subdomains are included. restrictedNames are those of keys without a prefix, and whole keys.
var (
	restrictedDomains = []string{
		// networks and addresses
		"k8s.v1.cni.cncf.io", "v1.multus-cni.io", "projectcalico.org", "cilium.io", "ovn.org", "ovn.kubernetes.io", "antrea.io",
		"networking.gke.io", "vpc.amazonaws.com",
		// service meshes and injected containers
		"istio.io", "linkerd.io", "consul.hashicorp.com", "kuma.io", "openservicemesh.io", "dapr.io", "vault.hashicorp.com",
		"opentelemetry.io", "1password.io", "banzaicloud.io",
		// identities of clouds
		"iam.amazonaws.com", "eks.amazonaws.com", "azure.workload.identity", "iam.gke.io", "iam.cloud.google.com", "k8s.aliyun.com",
		// runtimes and devices
		"crio.io", "cri-o.io", "crun.io", "nri.io", "cdi.k8s.io", "resources.beta.kubernetes.io", "gke-gcsfuse",
		// agents on the node
		"co.elastic.logs", "co.elastic.metrics", "ad.datadoghq.com", "admission.datadoghq.com", "fluentbit.io",
		// quotas of other tenants, and nodes that are not removed
		"kueue.x-k8s.io", "karpenter.sh",
	}
	restrictedNames = []string{
		"aadpodidbinding", "io.katacontainers.*", "io.kubernetes.cri-o.*", "io.kubernetes.cri.*", "io.containerd.*", "run.oci.*", "dev.gvisor.*",
	}
)

// RestrictedKeys matches, in lower case, the keys on which known programs act.
var RestrictedKeys = restrictedKeys()

func restrictedKeys() *regexp.Regexp {
	alternatives := func(patterns []string) string {
		return strings.NewReplacer(".", "[.]", "*", ".*").Replace(strings.Join(patterns, "|"))
	}
	return regexp.MustCompile("^(([^/]*[.])?(" + alternatives(restrictedDomains) + ")|" + alternatives(restrictedNames) + ")(/|$)")
}

// restricted reports whether a known program acts on the key.
func restricted(key string) bool { return RestrictedKeys.MatchString(strings.ToLower(key)) }

// AllowsAnnotation reports whether pods may have an annotation with that key.
func (p Pods) AllowsAnnotation(key string) bool { return p.allowsKey(p.Annotations, key) }

// AllowsLabel reports whether pods may have a label with that key.
func (p Pods) AllowsLabel(key string) bool { return p.allowsKey(p.Labels, key) }

func (p Pods) allowsKey(listed []string, key string) bool {
	return matchesKey(listed, key) || p.UnlistedKeys != KeysRefuse && !restricted(key)
}

// AllowsToleration reports whether pods may tolerate taints with the key. An empty
// key tolerates all taints.
func (p Pods) AllowsToleration(key string) bool {
	return matchesKey(p.Tolerations, key)
}

// AllowsGracePeriod reports whether pods may take so long to terminate. The schemas
// contain the limit of the default.
func (p Pods) AllowsGracePeriod(seconds int64) bool {
	return p.MaxTerminationGracePeriodSeconds == longestGracePeriod || seconds <= p.MaxTerminationGracePeriodSeconds
}

// AllowsProfile reports whether pods may have the profile.
func (p Pods) AllowsProfile(profile common.SecurityProfile) bool {
	return p.LeastProfile != common.SecurityRestricted || profile == common.SecurityRestricted
}

// matchesKey reports whether one of the patterns matches a key, which may have a
// prefix. "*" alone matches all keys.
func matchesKey(patterns []string, key string) bool {
	return slices.Contains(patterns, "*") || key != "" && anyMatches(patterns, key)
}

func (p Platform) validatePods(f *problems) {
	f.match("pods.annotations", p.Pods.Annotations, keyPattern, aKey)
	f.match("pods.labels", p.Pods.Labels, keyPattern, aKey)
	oneOf(f, "pods.unlistedKeys", p.Pods.UnlistedKeys, KeysAllow, KeysRefuse)
	f.match("pods.runtimeClasses", p.Pods.RuntimeClasses, namePattern, "the name of a runtime class, or one with *")
	f.match("pods.tolerations", p.Pods.Tolerations, keyPattern, aKey)
	oneOf(f, "pods.leastProfile", p.Pods.LeastProfile, common.SecurityBaseline, common.SecurityRestricted)
	between(f, "pods.maxTerminationGracePeriodSeconds", p.Pods.MaxTerminationGracePeriodSeconds, 1, longestGracePeriod)
	d := p.Pods.DrainSeconds
	between(f, "pods.drainSeconds", d, 0, longestDrain)
	if g := GracePeriod(d); d <= longestDrain && g > DefaultGracePeriod && !p.Pods.AllowsGracePeriod(g) {
		f.add("pods.drainSeconds is %d, for which pods need a grace period of %d seconds: pods.maxTerminationGracePeriodSeconds is %d", d, g, p.Pods.MaxTerminationGracePeriodSeconds)
	}
	between(f, "pods.tolerationSeconds", p.Pods.TolerationSeconds, 0, LongestToleration)
	if p.Pods.MaxEmptyDirSize.Sign() < 0 {
		f.add("pods.maxEmptyDirSize is %s, must not be negative; 0 means no limit", &p.Pods.MaxEmptyDirSize)
	}
	f.match("ingressClasses", p.IngressClasses, namePattern, "the name of an ingress class, or one with *")
	f.match("loadBalancerClasses", p.LoadBalancerClasses, keyPattern, aKey)
	for i, d := range p.DeletionPolicies {
		oneOf(f, fmt.Sprintf("deletionPolicies[%d]", i), d, common.DeletionPolicyDelete, common.DeletionPolicyOrphan)
	}
	if !slices.Contains(p.DeletionPolicies, common.DeletionPolicyDelete) {
		f.add("deletionPolicies must contain Delete, which is the default of objects")
	}
}
