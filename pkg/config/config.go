// Package config is the platform configuration: what the team that runs the
// operator decides for everybody who uses it.
package config

import (
	"errors"
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
	// NodePortRange is the API server's --service-node-port-range: admission
	// refuses node ports outside of it, because Kubernetes would.
	NodePortRange PortRange `json:"nodePortRange"`
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
}

// Memcached has the preferences for Memcached objects.
type Memcached struct {
	// Image is the image of an object that does not say. An object keeps the
	// one it got: changing this restarts no cache.
	Image string `json:"image"`
}

// Default is the configuration as delivered: a WebServer answers on port 30010
// of every node, as its article shows. 30000-32767 is Kubernetes' own default.
func Default() Platform {
	return Platform{
		APIVersion:    Version,
		NodePortRange: PortRange{From: 30000, To: 32767},
		WebServer:     WebServer{ServiceType: corev1.ServiceTypeNodePort, NodePort: 30010},
		Memcached:     Memcached{Image: "memcached:1.6"},
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

// Validate says what is wrong with the configuration, and what would be right.
func (p Platform) Validate() error {
	if p.APIVersion != Version {
		return fmt.Errorf("apiVersion is %q, must be %q", p.APIVersion, Version)
	}
	if r := p.NodePortRange; r.From < 1 || r.To > 65535 || r.From > r.To {
		return fmt.Errorf("nodePortRange %d-%d must lie within 1-65535, from first", r.From, r.To)
	}
	switch p.WebServer.ServiceType {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
	default:
		return fmt.Errorf("webServer.serviceType is %q, must be ClusterIP, NodePort or LoadBalancer", p.WebServer.ServiceType)
	}
	if n := p.WebServer.NodePort; n != 0 && !p.NodePortRange.Contains(n) {
		return fmt.Errorf("webServer.nodePort is %d, must be 0 or within nodePortRange %d-%d", n, p.NodePortRange.From, p.NodePortRange.To)
	}
	if p.Memcached.Image == "" {
		return errors.New("memcached.image is empty, must be an image such as memcached:1.6")
	}
	return nil
}
