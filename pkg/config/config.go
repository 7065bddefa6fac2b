// Package config is the platform configuration: what the team that runs the
// operator decides for everybody who uses it.
package config

import (
	"fmt"
	"os"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// Version is the only version of the file that this operator reads.
const Version = "platform-operator.io/config/v1"

// Platform is the platform configuration. Its zero value is not valid; start
// from Default.
type Platform struct {
	// APIVersion is Version.
	APIVersion string `json:"apiVersion"`
	// WatchNamespaces are the namespaces whose objects the operator looks
	// after. Empty means all.
	WatchNamespaces []string `json:"watchNamespaces"`
	// Workers is how many objects of one kind are reconciled at the same time.
	Workers int `json:"workers"`
	// FeatureGates switch features that are on trial, or may be in the way. A
	// name that this operator does not know is an error.
	FeatureGates map[Feature]bool `json:"featureGates"`

	// Images says which images objects may name.
	Images Images `json:"images"`
	// MaxReplicas is the most pods that one object may ask for, by itself or by
	// its autoscaling. It limits nothing that Kubernetes' quotas do not limit
	// better; it is there for the typing error of three zeros.
	MaxReplicas int32 `json:"maxReplicas"`
	// NodePortRange is the API server's --service-node-port-range: admission
	// refuses node ports outside of it, because Kubernetes would.
	NodePortRange PortRange `json:"nodePortRange"`
	// ServiceTypes are the types of Service that an object may have. ClusterIP,
	// which opens nothing, is always among them.
	ServiceTypes []corev1.ServiceType `json:"serviceTypes"`
	// Gateways are those that objects of other namespaces may lead to. A Gateway
	// of an object's own namespace needs no entry.
	Gateways []Gateway `json:"gateways"`
	// Hosts says which namespaces may claim which hosts. Empty lets every
	// namespace claim every host; with the first entry, whatever no entry
	// allows is refused.
	Hosts []Hosts `json:"hosts"`
	// Annotations are the keys that objects may set on their Services and
	// Ingresses. Load balancers, DNS and ingress controllers act on them with
	// rights of their own, some beyond the namespace. "example.com/*" is every
	// key of that prefix, "*" every key.
	Annotations []string `json:"annotations"`
	// PriorityClasses are those that pods may have, with "*" for any
	// characters. A class may push pods of other namespaces from their nodes.
	PriorityClasses []string `json:"priorityClasses"`
	// ServiceAccounts lets an object name the ServiceAccount its pods run as.
	// Whoever may create the object then acts with the rights of every
	// ServiceAccount of the namespace.
	ServiceAccounts bool `json:"serviceAccounts"`
	// RestartOnSecretChange makes rollout.restartOnConfigChange look at Secrets
	// too. The operator needs the right to read them all for it, which the
	// installation grants together with this field.
	RestartOnSecretChange bool `json:"restartOnSecretChange"`

	// WebServer has the preferences for WebServer objects.
	WebServer WebServer `json:"webServer"`
	// Memcached has the preferences for Memcached objects.
	Memcached Memcached `json:"memcached"`
}

// PortRange is a range of ports, both ends included.
type PortRange struct {
	From int32 `json:"from"`
	To   int32 `json:"to"`
}

// Contains tells whether port is in the range.
func (r PortRange) Contains(port int32) bool { return r.From <= port && port <= r.To }

// WebServer has the preferences for WebServer objects.
type WebServer struct {
	// ServiceType is the Service type of an object that does not say:
	// ClusterIP, NodePort or LoadBalancer.
	ServiceType corev1.ServiceType `json:"serviceType"`
	// NodePort is what an object of type NodePort that does not say tries to
	// get first; 0 leaves the choice to Kubernetes.
	NodePort int32 `json:"nodePort"`
	// ExporterImage translates nginx's figures for Prometheus, in the pods of
	// objects with monitoring.
	ExporterImage string `json:"exporterImage"`
}

// Memcached has the preferences for Memcached objects.
type Memcached struct {
	// Image is the image of an object that does not say. An object keeps the
	// one it got: changing this restarts no cache.
	Image string `json:"image"`
}

// Default is the configuration as delivered: a WebServer answers on port 30010
// of every node, as its article shows. 30000-32767 is Kubernetes' own default.
// A pass is a few requests of milliseconds, so a few workers keep an API server
// busy; see docs/benchmarks.md.
func Default() Platform {
	return Platform{
		APIVersion:    Version,
		Workers:       8,
		Images:        Images{Latest: LatestWarn},
		MaxReplicas:   1000,
		NodePortRange: PortRange{From: 30000, To: 32767},
		ServiceTypes:  []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer},
		WebServer: WebServer{
			ServiceType: corev1.ServiceTypeNodePort, NodePort: 30010,
			ExporterImage: "nginx/nginx-prometheus-exporter:1.4",
		},
		Memcached: Memcached{Image: "memcached:1.6"},
	}
}

// Load reads the configuration from a YAML file, over the defaults. An unknown
// field is an error that names it. An empty path gives the defaults.
func Load(path string) (Platform, error) {
	p := Default()
	if path == "" {
		return p, nil
	}
	raw, err := os.ReadFile(path) //nolint:gosec // the path is the operator's own flag
	if err != nil {
		return p, fmt.Errorf("reading the platform configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return p, fmt.Errorf("reading the platform configuration %s: %w", path, err)
	}
	if err := p.Validate(); err != nil {
		return p, fmt.Errorf("platform configuration %s: %w", path, err)
	}
	return p, nil
}
