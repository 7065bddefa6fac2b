package main

import (
	"path/filepath"
)

// component is one program a node runs.
type component struct {
	Name string
	Path string
	Args []string
	// Ports must be free before it is started: a process that was just killed
	// may still hold them, and etcd does not try twice.
	Ports []string
	// Needs must answer before it is started. Kubernetes would get there by
	// retrying; waiting is faster and keeps the logs readable.
	Needs []probe
	// Healthy answers when it works.
	Healthy probe
}

const (
	etcdName              = "etcd"
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"
	kubeletName           = "kubelet"
	kubeProxyName         = "kube-proxy"
	containerdName        = "containerd"
	registryName          = "registry"
)

// componentNames lists all, in the order they depend on each other.
func componentNames() []string {
	return []string{
		etcdName, apiServerName, registryName, containerdName,
		controllerManagerName, schedulerName, kubeletName, kubeProxyName,
	}
}

// nodeComponents are the programs of one node.
func nodeComponents(s spec, node int) []component {
	var list []component
	if node == controlNode {
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

func pkiFile(s spec, file string) string { return filepath.Join(s.config().pkiDir(), file) }

func binFile(s spec, name string) string { return filepath.Join(s.config().binDir(), name) }

func etcFile(s spec, node int, file string) string {
	return filepath.Join(s.config().nodeDir(node), "etc", file)
}

func etcdProbe() probe { return httpProbe("http://127.0.0.1:2379/health") }

func apiServerProbe() probe { return httpProbe(apiServerURL() + "/readyz") }

func etcdComponent(s spec) component {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return component{
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

func apiServerComponent(s spec) component {
	c := s.config()
	args := []string{
		"--etcd-servers=http://127.0.0.1:2379",
		"--secure-port=" + apiServerPort,
		"--advertise-address=" + nodeIP(controlNode),
		"--service-cluster-ip-range=" + serviceNetwork,
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
		"--service-account-key-file=" + pkiFile(s, "service-accounts.pub"),
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
	if s.Audit {
		args = append(args,
			"--audit-policy-file="+etcFile(s, controlNode, "audit-policy.yaml"),
			"--audit-log-path="+c.auditLog(),
			"--audit-log-format=json",
			"--audit-log-maxsize=200", // MB, then the file is rotated
			"--audit-log-maxbackup=3",
		)
	}
	if s.FastFailover {
		args = append(args,
			"--default-not-ready-toleration-seconds=5",
			"--default-unreachable-toleration-seconds=5",
		)
	}
	return component{
		Name:    apiServerName,
		Path:    binFile(s, "kube-apiserver"),
		Args:    args,
		Ports:   []string{nodeIP(controlNode) + ":" + apiServerPort},
		Needs:   []probe{etcdProbe()},
		Healthy: apiServerProbe(),
	}
}

func controllerManagerComponent(s spec) component {
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
		// The autoscaler's defaults are made for pods that take minutes to
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
	if s.FastFailover {
		args = append(args,
			"--node-monitor-grace-period=6s",
			"--node-monitor-period=1s",
		)
	}
	return component{
		Name:    controllerManagerName,
		Path:    binFile(s, "kube-controller-manager"),
		Args:    args,
		Ports:   []string{"127.0.0.1:10257"},
		Needs:   []probe{apiServerProbe()},
		Healthy: httpProbe("https://127.0.0.1:10257/healthz"),
	}
}

func schedulerComponent(s spec) component {
	kubeconfig := pkiFile(s, "scheduler.kubeconfig")
	return component{
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
		Needs:   []probe{apiServerProbe()},
		Healthy: httpProbe("https://127.0.0.1:10259/healthz"),
	}
}

func registryComponent(s spec) component {
	c := s.config()
	return component{
		Name: registryName,
		Path: c.ownBinary(),
		Args: []string{
			"serve-registry",
			"--store", c.registryStore(),
			"--listen", registryAddress(),
			"--socket", c.registrySocket(controlNode),
		},
		Ports:   []string{registryAddress()},
		Healthy: httpProbe("http://" + registryAddress() + "/v2/"),
	}
}

func containerdComponent(s spec, node int) component {
	return component{
		Name:    containerdName,
		Path:    binFile(s, "containerd"),
		Args:    []string{"--config", etcFile(s, node, "containerd.toml")},
		Healthy: socketProbe("/run/containerd/containerd.sock"),
	}
}

func kubeletComponent(s spec, node int) component {
	return component{
		Name: kubeletName,
		Path: binFile(s, "kubelet"),
		Args: []string{
			"--config=" + etcFile(s, node, "kubelet.yaml"),
			"--kubeconfig=" + pkiFile(s, nodeName(node)+".kubeconfig"),
			"--hostname-override=" + nodeName(node),
			"--node-ip=" + nodeIP(node),
		},
		Ports:   []string{"0.0.0.0:10250"},
		Needs:   []probe{socketProbe("/run/containerd/containerd.sock"), apiServerProbe()},
		Healthy: httpProbe("http://127.0.0.1:10248/healthz"),
	}
}

func kubeProxyComponent(s spec, node int) component {
	return component{
		Name:    kubeProxyName,
		Path:    binFile(s, "kube-proxy"),
		Args:    []string{"--config=" + etcFile(s, node, "kube-proxy.yaml")},
		Ports:   []string{"0.0.0.0:10256"},
		Needs:   []probe{apiServerProbe()},
		Healthy: httpProbe("http://127.0.0.1:10256/healthz"),
	}
}

func controlPlaneNames() []string {
	return []string{etcdName, apiServerName, controllerManagerName, schedulerName}
}
