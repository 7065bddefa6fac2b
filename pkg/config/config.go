// Package config defines the platform configuration: the decisions that the
// operator's administrators make for all users.
package config

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Version is the only supported API version of the configuration file.
const Version = "platform-operator.io/config/v1"

// Platform is the platform configuration. Its zero value is not valid; start
// from Default.
type Platform struct {
	// APIVersion must be Version.
	APIVersion string `json:"apiVersion"`
	// Kinds are the names of the kinds that the operator manages, such as
	// WebServer. Empty means all. For other kinds, it has no controller, no
	// webhooks and no permissions.
	Kinds []string `json:"kinds"`
	// WatchNamespaces are the namespaces whose objects are reconciled. Empty
	// means all namespaces.
	WatchNamespaces []string `json:"watchNamespaces"`
	// Workers is the number of objects of one kind in one namespace that are
	// reconciled concurrently. There is one worker more for each kind.
	Workers int `json:"workers"`
	// FeatureGates enable or disable features that are experimental or may be
	// unwanted. An unknown name is an error.
	FeatureGates map[Feature]bool `json:"featureGates"`

	// Images restricts the images that objects may use.
	Images Images `json:"images"`
	// MaxReplicas is the maximum number of pods that an object may request,
	// directly or by autoscaling. It does not replace a ResourceQuota; its
	// purpose is to catch typing errors, such as three zeros too many.
	MaxReplicas int32 `json:"maxReplicas"`
	// NodePortRange is the API server's --service-node-port-range. The admission
	// webhook rejects node ports outside this range, because Kubernetes would.
	NodePortRange PortRange `json:"nodePortRange"`
	// ServiceTypes are the Service types that an object may have. ClusterIP,
	// which exposes nothing, must be one of them.
	ServiceTypes []corev1.ServiceType `json:"serviceTypes"`
	// Gateways are the Gateways that objects of other namespaces may refer to. A
	// Gateway in an object's own namespace needs no entry.
	Gateways []Gateway `json:"gateways"`
	// Hosts defines which namespaces may claim which hosts. If empty, every
	// namespace may claim every host. Otherwise a host that no entry allows is
	// rejected.
	Hosts []Hosts `json:"hosts"`
	// Annotations are the keys that objects may set on their Services and
	// Ingresses. Load balancers, DNS and ingress controllers act on annotations
	// with their own permissions, some of which extend beyond the namespace.
	// "example.com/*" allows every key with that prefix, and "*" allows every
	// key.
	Annotations []string `json:"annotations"`
	// PriorityClasses are the priority classes that pods may have. "*" matches
	// any sequence of characters. Pods with a high priority may preempt pods of
	// other namespaces.
	PriorityClasses []string `json:"priorityClasses"`
	// IngressClasses and LoadBalancerClasses are the classes that objects may set. "*"
	// matches any sequence of characters.
	IngressClasses      []string `json:"ingressClasses"`
	LoadBalancerClasses []string `json:"loadBalancerClasses"`
	// DeletionPolicies are the allowed deletion policies. Delete must be one of them.
	// With Orphan, pods and Services remain that no rule applies to any longer.
	DeletionPolicies []common.DeletionPolicy `json:"deletionPolicies"`
	// Pods restricts the settings of pods.
	Pods Pods `json:"pods"`
	// ServiceAccounts allows an object to set the ServiceAccount of its pods. A
	// user who may create such an object can then act with the permissions of
	// every ServiceAccount in the namespace.
	ServiceAccounts bool `json:"serviceAccounts"`
	// RestartOnSecretChange extends rollout.restartOnConfigChange to Secrets. It
	// requires permission to read all Secrets, which the installation grants
	// together with this field.
	RestartOnSecretChange bool `json:"restartOnSecretChange"`

	// SharedRollouts is how many objects of one kind and namespace may be rolled
	// out at once because a ConfigMap or Secret that they use changed. 0 means
	// no limit.
	SharedRollouts int32 `json:"sharedRollouts"`

	// Metrics configures the metrics of the operator.
	Metrics Metrics `json:"metrics"`

	// Defaults are written into the specs of new objects. The first entry that
	// concerns an object and has a block counts.
	Defaults []Defaults `json:"defaults"`
	// WebServer holds the defaults for WebServer objects.
	WebServer WebServer `json:"webServer"`
	// Memcached holds the defaults for Memcached objects.
	Memcached Memcached `json:"memcached"`
}

// PortRange is a range of ports, including both ends.
type PortRange struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// Contains reports whether port is in the range.
func (r PortRange) Contains(port int32) bool { return r.From <= port && port <= r.To }

// Metrics configures the metrics of the operator.
type Metrics struct {
	// Namespaces counts objects by namespace. The number of series then depends on
	// the number of namespaces that contain objects.
	Namespaces bool `json:"namespaces"`
}

// WebServer holds the defaults for WebServer objects.
type WebServer struct {
	// ServiceType is the Service type of objects that do not set one: ClusterIP,
	// NodePort or LoadBalancer.
	ServiceType corev1.ServiceType `json:"serviceType"`
	// NodePort is the preferred node port of an object of type NodePort that does
	// not set one. If it is 0, Kubernetes chooses the port.
	NodePort int32 `json:"nodePort"`
	// ExporterImage is the image of the container that exports nginx's metrics to
	// Prometheus, in the pods of objects with monitoring.
	ExporterImage string `json:"exporterImage"`
}

// Memcached holds the defaults for Memcached objects.
type Memcached struct {
	// Image is the image of an object that does not set one. An object keeps the
	// image that it was given: changing this field restarts no cache.
	Image string `json:"image"`
}

// Default returns the default configuration: a WebServer is available on port
// 30010 of every node, as with the legacy operator. 30000-32767 is the default
// range of Kubernetes. A reconcile consists of a few requests that take
// milliseconds, so a few workers keep an API server busy; see
// docs/contributing/benchmarks.md.
func Default() Platform {
	return Platform{
		APIVersion:     Version,
		Workers:        8,
		Images:         Images{Latest: LatestWarn, Pull: PullAny},
		MaxReplicas:    1000,
		SharedRollouts: 10,
		NodePortRange:  PortRange{From: 30000, To: 32767},
		ServiceTypes:   []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer},
		Metrics:        Metrics{Namespaces: true},
		// Every class exists because an administrator of the cluster created it.
		IngressClasses: []string{"*"}, LoadBalancerClasses: []string{"*"},
		DeletionPolicies: []common.DeletionPolicy{common.DeletionPolicyDelete, common.DeletionPolicyOrphan},
		Pods: Pods{
			UnlistedKeys: KeysAllow, RuntimeClasses: []string{"*"}, Tolerations: []string{"*"},
			LeastProfile: common.SecurityBaseline, MaxTerminationGracePeriodSeconds: longestGracePeriod,
			DrainSeconds: defaultDrain, TolerationSeconds: 30,
		},
		WebServer: WebServer{
			ServiceType: corev1.ServiceTypeNodePort, NodePort: 30010,
			ExporterImage: "nginx/nginx-prometheus-exporter:1.4",
		},
		Memcached: Memcached{Image: "memcached:1.6"},
	}
}

// Load reads the configuration from a YAML file. If path is empty, Load returns the
// defaults.
func Load(path string) (Platform, error) {
	if path == "" {
		return Default(), nil
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own flag
	if err != nil {
		return Default(), fmt.Errorf("reading the platform configuration: %w", err)
	}
	return Parse(raw, path)
}

// Parse returns the configuration in a YAML document. Fields that are not set have
// their default. An unknown field is an error that names it. source is where the document
// is from.
func Parse(raw []byte, source string) (Platform, error) {
	p := Default()
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return p, fmt.Errorf("reading the platform configuration %s: %w", source, err)
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("platform configuration %s: %w", source, err)
	}
	return p, nil
}
