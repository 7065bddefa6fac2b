package build

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
)

// Everything the cluster is made of, in one place. Raising a version here is
// all it takes: the cache folder is keyed by this table, so the next `up`
// builds the new one. (hyperkube/go.mod pins Kubernetes and etcd a second
// time, and tools/go.mod CoreDNS and helm, because a Go module has to; a test
// keeps them in step.)
const (
	KubernetesVersion = "v1.37.2"
	etcdVersion       = "v3.7.0"
	containerdVersion = "v2.4.2"
	runcVersion       = "v1.5.2"
	cniVersion        = "v1.9.1"
	CoreDNSVersion    = "v1.15.0"
	helmVersion       = "v4.3.1"
	PauseVersion      = "3.10"
)

// Kubernetes returns the version of Kubernetes: KubernetesVersion, unless the environment
// selects another one.
func Kubernetes() string { return cmp.Or(os.Getenv("CLUSTER_KUBERNETES"), KubernetesVersion) }

// Artifact is one `go build` or `go install` that produces programs in the
// cache.
type Artifact struct {
	Name     string
	Version  string
	Packages []string // import paths
	Module   string   // the folder of the module in this repository that builds them; empty: `go install`, each at version
	Sources  []string // what in that folder the program is made of
	Dir      string   // folder under the cache the programs land in
	Programs []string // files that prove it was built
	LDFlags  string
	Tags     string
	CGO      bool
	Takes    string // rough duration with nothing cached, to set expectations
}

// The names of the artifacts.
const (
	ArtifactHyperkube  = "hyperkube"
	ArtifactKubectl    = "kubectl"
	ArtifactContainerd = "containerd"
	ArtifactRunc       = "runc"
	ArtifactCNI        = "CNI plugins"
	ArtifactCoreDNS    = "coredns"
	artifactHelm       = "helm"
)

// artifacts is the build table.
func artifacts() []Artifact {
	const (
		containerd = "github.com/containerd/containerd/v2"
		plugins    = "github.com/containernetworking/plugins/plugins"
		versionPkg = "k8s.io/component-base/version"
	)
	kubernetes := Kubernetes()
	major, minor := majorMinor(kubernetes)
	// The API server reports gitVersion at /version, and clients refuse to talk
	// to a server without one.
	kubernetesLDFlags := fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		versionPkg, kubernetes, major, minor)
	return []Artifact{
		{
			Name: ArtifactHyperkube, Version: kubernetes, Dir: "bin", Programs: []string{"hyperkube"}, Takes: "5 min",
			Module: "hyperkube", Sources: []string{"main.go", "go.mod", "go.sum"}, LDFlags: kubernetesLDFlags,
		},
		{
			Name: ArtifactKubectl, Version: kubernetes, Dir: "bin", Programs: []string{"kubectl"}, Takes: "10 s",
			Module: "hyperkube", Packages: []string{"./kubectl"}, Sources: []string{"kubectl", "go.mod", "go.sum"}, LDFlags: kubernetesLDFlags,
		},
		{
			Name: ArtifactContainerd, Version: containerdVersion, Dir: "bin", Takes: "1 min",
			Programs: []string{"containerd", "containerd-shim-runc-v2", "ctr"},
			Packages: []string{containerd + "/cmd/containerd", containerd + "/cmd/containerd-shim-runc-v2", containerd + "/cmd/ctr"},
			LDFlags:  fmt.Sprintf("-s -w -X %s/version.Version=%s", containerd, containerdVersion),
		},
		{
			// runc enters namespaces from C before Go's runtime starts, and
			// filters system calls with libseccomp: the one cgo build here.
			Name: ArtifactRunc, Version: runcVersion, Dir: "bin", Programs: []string{"runc"}, Takes: "10 s",
			Packages: []string{"github.com/opencontainers/runc"},
			LDFlags:  "-s -w -X main.version=" + strings.TrimPrefix(runcVersion, "v"),
			Tags:     "seccomp", CGO: true,
		},
		{
			Name: ArtifactCNI, Version: cniVersion, Dir: "cni", Takes: "5 s",
			Programs: []string{"bridge", "loopback", "host-local", "portmap"},
			Packages: []string{plugins + "/main/bridge", plugins + "/main/loopback", plugins + "/ipam/host-local", plugins + "/meta/portmap"},
			LDFlags:  "-s -w",
		},
		{
			Name: ArtifactCoreDNS, Version: CoreDNSVersion, Dir: "bin", Programs: []string{"coredns"}, Takes: "30 s",
			Module: "tools", Packages: []string{"./coredns"}, Sources: []string{"coredns", "go.mod", "go.sum"}, LDFlags: "-s -w",
		},
		{
			Name: artifactHelm, Version: helmVersion, Dir: "bin", Programs: []string{"helm"}, Takes: "1 min",
			Module: "tools", Packages: []string{"helm.sh/helm/v4/cmd/helm"}, Sources: []string{"go.mod", "go.sum"},
			LDFlags: "-s -w -X helm.sh/helm/v4/internal/version.version=" + helmVersion,
		},
	}
}

// Find looks a name up in the build table.
func Find(name string) (Artifact, bool) {
	for _, a := range artifacts() {
		if a.Name == name {
			return a, true
		}
	}
	return Artifact{}, false
}

// FindTool looks up a program that is built only on request.
func FindTool(name string) (Artifact, error) {
	if a, ok := Find(name); ok && name == strings.ToLower(name) && !strings.Contains(name, " ") {
		return a, nil
	}
	return Artifact{}, fmt.Errorf("no tool called %q; there is: %s", name, artifactHelm)
}

// hyperkubeNames are the programs the one binary answers to.
func hyperkubeNames() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
	}
}

// Key names the cache folder. Two checkouts with the same versions
// share one, and a fresh clone finds it warm.
func Key() string {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, etcdVersion, PauseVersion)
	for _, a := range artifacts() {
		fmt.Fprintln(h, a.Name, a.Version, a.Packages, a.LDFlags, a.Tags, a.CGO)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}

// majorMinor splits v1.36.3 into 1 and 36.
func majorMinor(version string) (string, string) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return "", ""
	}
	return parts[0], parts[1]
}

// Program is the path of a built program inside the cache.
func (a Artifact) Program(cacheDir string, i int) string {
	return path.Join(cacheDir, a.Dir, a.Programs[i])
}
