package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"runtime"
	"strings"
)

// toolArtifact finds something that is only built when asked for.
func toolArtifact(name string) (artifact, error) {
	if a, ok := findArtifact(name); ok && name == strings.ToLower(name) && !strings.Contains(name, " ") {
		return a, nil
	}
	return artifact{}, fmt.Errorf("no tool called %q; there is: %s", name, artifactHelm)
}

// Everything the cluster is made of, in one place. Raising a version here is
// all it takes: the cache folder is keyed by this table, so the next `up`
// builds the new one. (hyperkube/go.mod pins Kubernetes and etcd a second
// time, because a Go module has to; a test keeps the two in step.)
const (
	kubernetesVersion = "v1.36.3"
	etcdVersion       = "v3.6.8"
	containerdVersion = "v2.4.2"
	runcVersion       = "v1.5.2"
	cniVersion        = "v1.9.1"
	coreDNSVersion    = "v1.15.0"
	helmVersion       = "v4.3.1"
	pauseVersion      = "3.10"
)

// artifact is one `go build` or `go install` that produces programs in the
// cache.
type artifact struct {
	name     string
	version  string
	packages []string // import paths
	module   string   // the folder of a module of ours they are built in; empty: `go install`, each at version
	sources  []string // what in that folder the program is made of
	dir      string   // folder under the cache the programs land in
	programs []string // files that prove it was built
	ldflags  string
	tags     string
	cgo      bool
	takes    string // rough duration with nothing cached, to set expectations
}

const (
	artifactHyperkube  = "hyperkube"
	artifactContainerd = "containerd"
	artifactRunc       = "runc"
	artifactCNI        = "CNI plugins"
	artifactCoreDNS    = "coredns"
	artifactHelm       = "helm"
)

// artifacts is the build table.
func artifacts() []artifact {
	const (
		containerd = "github.com/containerd/containerd/v2"
		plugins    = "github.com/containernetworking/plugins/plugins"
		versionPkg = "k8s.io/component-base/version"
	)
	major, minor := majorMinor(kubernetesVersion)
	return []artifact{
		{
			name: artifactHyperkube, version: kubernetesVersion, dir: "bin", programs: []string{"hyperkube"}, takes: "5 min",
			module: "hyperkube", sources: []string{"main.go", "go.mod", "go.sum"},
			// The API server reports gitVersion at /version, and clients refuse
			// to talk to a server without one.
			ldflags: fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
				versionPkg, kubernetesVersion, major, minor),
		},
		{
			name: artifactContainerd, version: containerdVersion, dir: "bin", takes: "1 min",
			programs: []string{"containerd", "containerd-shim-runc-v2", "ctr"},
			packages: []string{containerd + "/cmd/containerd", containerd + "/cmd/containerd-shim-runc-v2", containerd + "/cmd/ctr"},
			ldflags:  fmt.Sprintf("-s -w -X %s/version.Version=%s", containerd, containerdVersion),
		},
		{
			// runc enters namespaces from C before Go's runtime starts, and
			// filters system calls with libseccomp: the one cgo build here.
			name: artifactRunc, version: runcVersion, dir: "bin", programs: []string{"runc"}, takes: "10 s",
			packages: []string{"github.com/opencontainers/runc"},
			ldflags:  "-s -w -X main.version=" + strings.TrimPrefix(runcVersion, "v"),
			tags:     "seccomp", cgo: true,
		},
		{
			name: artifactCNI, version: cniVersion, dir: "cni", takes: "5 s",
			programs: []string{"bridge", "loopback", "host-local", "portmap"},
			packages: []string{plugins + "/main/bridge", plugins + "/main/loopback", plugins + "/ipam/host-local", plugins + "/meta/portmap"},
			ldflags:  "-s -w",
		},
		{
			name: artifactCoreDNS, version: coreDNSVersion, dir: "bin", programs: []string{"coredns"}, takes: "2 min",
			packages: []string{"github.com/coredns/coredns"}, ldflags: "-s -w",
		},
		{
			name: artifactHelm, version: helmVersion, dir: "bin", programs: []string{"helm"}, takes: "2 min",
			packages: []string{"helm.sh/helm/v4/cmd/helm"},
			ldflags:  "-s -w -X helm.sh/helm/v4/internal/version.version=" + helmVersion,
		},
	}
}

// findArtifact looks a name up in the build table.
func findArtifact(name string) (artifact, bool) {
	for _, a := range artifacts() {
		if a.name == name {
			return a, true
		}
	}
	return artifact{}, false
}

// hyperkubeNames are the programs the one binary answers to.
func hyperkubeNames() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy", "kubectl",
	}
}

// versionsKey names the cache folder. Two checkouts with the same versions
// share one, and a fresh clone finds it warm.
func versionsKey() string {
	h := sha256.New()
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, etcdVersion, pauseVersion)
	for _, a := range artifacts() {
		fmt.Fprintln(h, a.name, a.version, a.packages, a.ldflags, a.tags, a.cgo)
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

// program is the path of a built program inside the cache.
func (a artifact) program(cacheDir string, i int) string {
	return path.Join(cacheDir, a.dir, a.programs[i])
}
