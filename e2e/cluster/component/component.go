// Package component is the table of the programs a node runs: their flags, what
// they need before they start, and how to find out that they work.
package component

import (
	"path/filepath"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// Component is one program a node runs.
type Component struct {
	Name string
	Path string
	Args []string
	// Ports must be free before it is started: a process that was just killed
	// may still hold them, and etcd does not try twice.
	Ports []string
	// Needs must answer before it is started. Kubernetes would get there by
	// retrying; waiting is faster and keeps the logs readable.
	Needs []probe.Probe
	// Healthy answers when it works.
	Healthy probe.Probe
}

// The names of the components.
const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
	Kubelet               = "kubelet"
	kubeProxyName         = "kube-proxy"
	containerdName        = "containerd"
	registryName          = "registry"
)

// Names returns all components, in the order they depend on each other.
func Names() []string {
	return []string{
		etcdName, apiServerName, registryName, containerdName,
		controllerManagerName, schedulerName, Kubelet, kubeProxyName,
	}
}

// ControlPlaneNames returns the components of a cluster without pods.
func ControlPlaneNames() []string {
	return []string{etcdName, apiServerName, controllerManagerName, schedulerName}
}

// ForNode returns the components of one node.
func ForNode(s state.Spec, node int) []Component {
	var list []Component
	if node == config.ControlNode {
		list = append(list, etcdComponent(s), apiServerComponent(s), controllerManagerComponent(s), schedulerComponent(s))
		if !s.ControlPlaneOnly {
			list = append(list, registryComponent(s))
		}
	}
	if !s.ControlPlaneOnly {
		list = append(list, containerdComponent(s, node), kubeletComponent(s, node), kubeProxyComponent(s, node))
	}
	return list
}

func pkiFile(s state.Spec, file string) string { return filepath.Join(s.Config().PKIDir(), file) }

func binFile(s state.Spec, name string) string { return filepath.Join(s.Config().BinDir(), name) }

func etcFile(s state.Spec, node int, file string) string {
	return filepath.Join(s.Config().NodeDir(node), "etc", file)
}

func etcdProbe() probe.Probe { return probe.HTTP("http://127.0.0.1:2379/health") }

func apiServerProbe() probe.Probe { return probe.HTTP(config.APIServerURL() + "/readyz") }

func etcdComponent(s state.Spec) Component {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return Component{
		Name: etcdName,
		Path: binFile(s, "etcd"),
		Args: []string{
			"--data-dir=/var/lib/etcd",
			"--listen-client-urls=" + client,
			"--advertise-client-urls=" + client,
			"--listen-peer-urls=" + peer,
			// A killed process loses nothing by this, only a machine that
			// loses power does; and it takes the disk out of every write.
			"--unsafe-no-fsync",
			"--log-level=warn",
		},
		Ports:   []string{"127.0.0.1:2379", "127.0.0.1:2380"},
		Healthy: etcdProbe(),
	}
}

func apiServerComponent(s state.Spec) Component {
	c := s.Config()
	args := []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--secure-port=" + config.APIServerPort,
		"--advertise-address=" + config.NodeIP(config.ControlNode),
		"--service-cluster-ip-range=" + config.ServiceNetwork,
		"--allow-privileged=true",
		"--authorization-mode=Node,RBAC",
		"--enable-admission-plugins=NodeRestriction",
		"--client-ca-file=" + pkiFile(s, "ca.crt"),
		"--tls-cert-file=" + pkiFile(s, "apiserver.crt"),
		"--tls-private-key-file=" + pkiFile(s, "apiserver.key"),

		// Node names resolve nowhere but on the nodes.
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority=" + pkiFile(s, "ca.crt"),
		"--kubelet-client-certificate=" + pkiFile(s, "apiserver-kubelet-client.crt"),
		"--kubelet-client-key=" + pkiFile(s, "apiserver-kubelet-client.key"),

		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + pkiFile(s, "service-accounts.key"),
		"--service-account-signing-key-file=" + pkiFile(s, "service-accounts.key"),

		// The aggregation layer: extension API servers (metrics-server) learn
		// from these headers, under this certificate, who is asking.
		"--requestheader-client-ca-file=" + pkiFile(s, "front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pkiFile(s, "front-proxy-client.crt"),
		"--proxy-client-key-file=" + pkiFile(s, "front-proxy-client.key"),
	}
	if !s.ControlPlaneOnly {
		args = append(args,
			"--audit-policy-file="+etcFile(s, config.ControlNode, "audit-policy.yaml"),
			"--audit-log-path="+c.AuditLog(),
			"--audit-log-format=json",
			"--audit-log-maxsize=200", // MB, then the file is rotated
			"--audit-log-maxbackup=3",
		)
	}
	return Component{
		Name:    apiServerName,
		Path:    binFile(s, "kube-apiserver"),
		Args:    args,
		Ports:   []string{config.NodeIP(config.ControlNode) + ":" + config.APIServerPort},
		Needs:   []probe.Probe{etcdProbe()},
		Healthy: apiServerProbe(),
	}
}

func controllerManagerComponent(s state.Spec) Component {
	kubeconfig := pkiFile(s, "controller-manager.kubeconfig")
	args := []string{
		"--kubeconfig=" + kubeconfig,
		"--authentication-kubeconfig=" + kubeconfig,
		"--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1",
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--root-ca-file=" + pkiFile(s, "ca.crt"),
		"--service-account-private-key-file=" + pkiFile(s, "service-accounts.key"),
		"--cluster-signing-cert-file=" + pkiFile(s, "ca.crt"),
		"--cluster-signing-key-file=" + pkiFile(s, "ca.key"),
		// With the defaults this process would be what every measurement of
		// an operator measures: 20 requests per second, 5 Deployments at once.
		"--kube-api-qps=5000",
		"--kube-api-burst=10000",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		// The autoscaler's defaults are meant for pods that take minutes to
		// warm up; here a pod is as busy as it will be after seconds. The
		// first three say how often to look, and from when on to believe what
		// is seen of a new pod. The last is how long a lower load must last:
		// two measurements (metrics-server takes one every 10 s), so that a
		// single odd one changes nothing, and not 5 minutes. An autoscaler
		// that sets behavior.scaleDown.stabilizationWindowSeconds has its own.
		"--horizontal-pod-autoscaler-sync-period=5s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=5s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=10s",
		"--horizontal-pod-autoscaler-downscale-stabilization=20s",
	}
	return Component{
		Name:    controllerManagerName,
		Path:    binFile(s, "kube-controller-manager"),
		Args:    args,
		Ports:   []string{"127.0.0.1:10257"},
		Needs:   []probe.Probe{apiServerProbe()},
		Healthy: probe.HTTP("https://127.0.0.1:10257/healthz"),
	}
}

func schedulerComponent(s state.Spec) Component {
	kubeconfig := pkiFile(s, "scheduler.kubeconfig")
	return Component{
		Name: schedulerName,
		Path: binFile(s, "kube-scheduler"),
		Args: []string{
			"--kubeconfig=" + kubeconfig,
			"--authentication-kubeconfig=" + kubeconfig,
			"--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=127.0.0.1",
			"--leader-elect=false",
		},
		Ports:   []string{"127.0.0.1:10259"},
		Needs:   []probe.Probe{apiServerProbe()},
		Healthy: probe.HTTP("https://127.0.0.1:10259/healthz"),
	}
}

func registryComponent(s state.Spec) Component {
	c := s.Config()
	return Component{
		Name: registryName,
		Path: c.OwnBinary(),
		Args: []string{
			"serve-registry",
			"--store", c.RegistryStore(),
			"--listen", config.RegistryAddress(),
			"--socket", c.RegistrySocket(config.ControlNode),
		},
		Ports:   []string{config.RegistryAddress()},
		Healthy: probe.HTTP("http://" + config.RegistryAddress() + "/v2/"),
	}
}

func containerdComponent(s state.Spec, node int) Component {
	return Component{
		Name:    containerdName,
		Path:    binFile(s, "containerd"),
		Args:    []string{"--config", etcFile(s, node, "containerd.toml")},
		Healthy: probe.Socket("/run/containerd/containerd.sock"),
	}
}

func kubeletComponent(s state.Spec, node int) Component {
	return Component{
		Name: Kubelet,
		Path: binFile(s, "kubelet"),
		Args: []string{
			"--config=" + etcFile(s, node, "kubelet.yaml"),
			"--kubeconfig=" + pkiFile(s, config.NodeName(node)+".kubeconfig"),
			"--hostname-override=" + config.NodeName(node),
			"--node-ip=" + config.NodeIP(node),
		},
		Ports:   []string{"0.0.0.0:10250"},
		Needs:   []probe.Probe{probe.Socket("/run/containerd/containerd.sock"), apiServerProbe()},
		Healthy: probe.HTTP("http://127.0.0.1:10248/healthz"),
	}
}

func kubeProxyComponent(s state.Spec, node int) Component {
	return Component{
		Name:    kubeProxyName,
		Path:    binFile(s, "kube-proxy"),
		Args:    []string{"--config=" + etcFile(s, node, "kube-proxy.yaml")},
		Ports:   []string{"0.0.0.0:10256"},
		Needs:   []probe.Probe{apiServerProbe()},
		Healthy: probe.HTTP("http://127.0.0.1:10256/healthz"),
	}
}
