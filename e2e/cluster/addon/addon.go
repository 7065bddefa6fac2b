// Package addon adds to a running cluster what Kubernetes does not bring and
// many clusters have: metrics-server, Traefik, Prometheus with Alertmanager, the Operator
// Lifecycle Manager, the CRDs of the Gateway API and of the Prometheus operator. Package lifecycle does not know add-ons.
//
// They have versions, a table and a cache of their own, and each of them has a
// folder in that cache, so that raising one version rebuilds that add-on only.
package addon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/images"
	"github.com/platform-operator/platform-operator/e2e/cluster/progress"
	"github.com/platform-operator/platform-operator/e2e/cluster/safefile"
	"github.com/platform-operator/platform-operator/e2e/cluster/state"
)

// The pinned versions of the add-ons.
const (
	metricsServerVersion      = "v0.9.0"
	traefikVersion            = "v3.7.13" // also in traefik/go.mod; a test keeps the two in step
	gatewayAPIVersion         = "v1.6.1"  // the version that this Traefik supports
	prometheusOperatorVersion = "v0.85.0"
	olmVersion                = "v0.28.0" // also in olm/go.mod; a test keeps the two in step
	olmAPIVersion             = "v0.23.0" // the version that this OLM requires
)

// debianTag is the tag of images of Debian packages.
const debianTag = "debian"

// Addon is one add-on: CRDs, a program that runs as a pod, or both.
type Addon struct {
	Name     string
	What     string // for help
	needs    []string
	crds     moduleFiles
	program  build.Artifact
	packages images.Packages                                                // or: the Debian packages of the program
	image    string                                                         // the program's repository in the cluster's registry
	manifest string                                                         // template of the objects that run the program
	space    string                                                         // the program's namespace; its Deployment has the add-on's name
	files    func(context.Context, installation) (map[string][]byte, error) // the program's configuration, if it depends on the cluster
	usable   func(context.Context, installation) error                      // nil: once its pod is ready
	hint     string                                                         // what to try
}

// moduleFiles are files of a Go module: the module proxy is where everything
// else here comes from, too.
type moduleFiles struct {
	module, version string
	files           []string // globs
}

// All returns the table of add-ons.
func All() []Addon {
	const (
		metricsServer = "sigs.k8s.io/metrics-server"
		traefik       = "github.com/traefik/traefik/v3"
		monitoringCRD = "example/prometheus-operator-crd/monitoring.coreos.com_"
	)
	return []Addon{
		{
			Name: "metrics-server", What: "kubectl top, and HorizontalPodAutoscalers by CPU and memory",
			program: build.Artifact{
				Name: "metrics-server", Version: metricsServerVersion, Dir: "bin", Programs: []string{"metrics-server"}, Takes: "2 min",
				Module: "hyperkube", Sources: []string{"go.mod", "go.sum"}, // most of it is compiled for Kubernetes
				Packages: []string{metricsServer + "/cmd/metrics-server"},
				LDFlags:  "-s -w -X k8s.io/client-go/pkg/version.gitVersion=" + metricsServerVersion,
			},
			image: "metrics-server/metrics-server", manifest: "metrics-server.yaml", space: "kube-system",
			usable: metricsUsable, hint: "cluster exec -- kubectl top pods -A",
		},
		{
			Name: "traefik", What: "IngressClass and GatewayClass traefik, on ports 80 and 443 of " + config.NodeIP(config.ControlNode),
			needs: []string{"gateway-api"},
			program: build.Artifact{
				Name: "traefik", Version: traefikVersion, Dir: "bin", Programs: []string{"traefik"}, Takes: "4 min",
				Module: "traefik", Sources: []string{"go.mod", "go.sum", "ext", "lego"},
				Packages: []string{traefik + "/cmd/traefik"},
				LDFlags:  "-s -w -X " + traefik + "/pkg/version.Version=" + traefikVersion,
			},
			image: "library/traefik", manifest: "traefik.yaml", space: "traefik",
			usable: traefikUsable, hint: "cluster exec -- curl -H 'Host: NAME' http://" + config.NodeIP(config.ControlNode) + "/",
		},
		{
			Name: "gateway-api", What: "the CRDs of the Gateway API, standard channel",
			crds: moduleFiles{"sigs.k8s.io/gateway-api", gatewayAPIVersion, []string{"config/crd/standard/*.yaml"}},
			hint: "cluster exec -- kubectl explain httproute.spec",
		},
		{
			Name: "prometheus", What: "Prometheus and Alertmanager, on ports 9090 and 9093 of " + config.NodeIP(config.ControlNode),
			needs: []string{"prometheus-operator-crds"},
			packages: images.Packages{
				Names: []string{"prometheus", "prometheus-alertmanager"},
				// The files of its web pages are in other packages.
				Remove:  []string{"etc", "usr/share/[^p]*", "usr/share/prometheus/[^a]*", "var", "lib/systemd", "usr/lib/systemd", "usr/bin/amtool"},
				Sources: map[string]string{"discovery": images.Discovery},
			},
			image: "prometheus/prometheus", manifest: "prometheus.yaml", space: "monitoring",
			files: prometheusFiles, usable: prometheusUsable, hint: "cluster exec -- curl http://" + config.NodeIP(config.ControlNode) + ":9090/api/v1/alerts",
		},
		{
			Name: "prometheus-operator-crds", What: "the CRDs of ServiceMonitor, PodMonitor and PrometheusRule",
			crds: moduleFiles{
				"github.com/prometheus-operator/prometheus-operator", prometheusOperatorVersion,
				[]string{monitoringCRD + "servicemonitors.yaml", monitoringCRD + "podmonitors.yaml", monitoringCRD + "prometheusrules.yaml"},
			},
			hint: "cluster exec -- kubectl explain servicemonitor.spec",
		},
		{
			Name: "olm", What: "the operator of the Operator Lifecycle Manager, without its catalogs",
			crds:    moduleFiles{"github.com/operator-framework/api", olmAPIVersion, []string{"crds/*.yaml"}},
			program: olmProgram("olm", "olm"),
			image:   "operator-framework/olm", manifest: "olm.yaml", space: "olm",
			hint: "cluster exec -- kubectl get clusterserviceversions -A",
		},
		{
			Name: "olm-catalogs", What: "the Operator Lifecycle Manager with CatalogSources and Subscriptions",
			needs:   []string{"olm"},
			program: olmProgram("olm-catalogs", "catalog"),
			image:   "operator-framework/olm-catalogs", manifest: "olm-catalogs.yaml", space: "olm",
			hint: "cluster exec -- kubectl get subscriptions -A",
		},
	}
}

// olmProgram returns one of the programs of the Operator Lifecycle Manager.
func olmProgram(name, program string) build.Artifact {
	return build.Artifact{
		Name: name, Version: olmVersion, Dir: "bin", Programs: []string{program}, Takes: "4 min",
		Module: "olm", Sources: []string{"go.mod", "go.sum"},
		Packages: []string{"github.com/operator-framework/operator-lifecycle-manager/cmd/" + program}, LDFlags: "-s -w",
	}
}

// Names returns the names of all add-ons.
func Names() []string {
	var names []string
	for _, a := range All() {
		names = append(names, a.Name)
	}
	return names
}

// withNeeds puts what the named add-ons need before them, each once.
func withNeeds(names []string) ([]Addon, error) {
	var list []Addon
	for _, name := range names {
		i := slices.IndexFunc(All(), func(a Addon) bool { return a.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no add-on called %q; there are: %s", name, strings.Join(Names(), ", "))
		}
		a := All()[i]
		needed, err := withNeeds(a.needs)
		if err != nil {
			return nil, err
		}
		for _, n := range append(needed, a) {
			if !slices.ContainsFunc(list, func(other Addon) bool { return other.Name == n.Name }) {
				list = append(list, n)
			}
		}
	}
	return list, nil
}

func (a Addon) runs() bool { return a.manifest != "" }

// packaged reports whether the program is from Debian packages.
func (a Addon) packaged() bool { return len(a.packages.Names) > 0 }

func (a Addon) version() string {
	switch {
	case a.packaged():
		return debianTag // the version is that of the machine's Debian
	case a.runs():
		return a.program.Version
	}
	return a.crds.version
}

// Options are the flags of `addon`.
type Options struct {
	BuildOnly bool
	Timeout   time.Duration
}

// Add builds what is not in the cache, then installs it and waits.
func Add(ctx context.Context, c config.Config, names []string, o Options, out io.Writer) error {
	list, err := withNeeds(names)
	if err != nil {
		return err
	}
	p := &progress.Reporter{Out: out, Total: len(list)}
	nodes := 0
	if !o.BuildOnly {
		if os.Geteuid() != 0 {
			return errors.New("cluster addon needs root: it enters the cluster's network namespace")
		}
		s, err := state.Read(c)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list, Addon.runs); i >= 0 && s.ControlPlaneOnly {
			return fmt.Errorf("this cluster runs no pods (--control-plane-only), and %s is one", list[i].Name)
		}
		c, nodes = s.Config(), s.Nodes
		for _, a := range list {
			p.Total++
			if a.runs() {
				p.Total++
			}
		}
	}
	start := time.Now()
	syscall.Umask(safefile.DefaultUmask)
	// Before the cluster is locked: others may want it while this takes minutes.
	if err := buildAll(ctx, c, list, p); err != nil || o.BuildOnly {
		return err
	}
	unlock, err := safefile.Lock(c.LockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()
	// All are started before any is waited for.
	r := installation{Config: c, nodes: nodes, timeout: o.Timeout}
	for _, a := range list {
		if err := p.Run(a.Name+" installed", "", func() (string, error) { return "", r.install(ctx, a) }); err != nil {
			return err
		}
	}
	for _, a := range slices.DeleteFunc(slices.Clone(list), func(a Addon) bool { return !a.runs() }) {
		if err := p.Run(a.Name+" can be used", "", func() (string, error) { return "", r.wait(ctx, a) }); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "added: %s, in %s\n", strings.Join(names, ", "), progress.Elapsed(start))
	for _, a := range list {
		if slices.Contains(names, a.Name) {
			fmt.Fprintf(out, "try:  %s\n", a.hint)
		}
	}
	return nil
}
