package main

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
)

// Add-ons are what many clusters have and Kubernetes has not. `up` knows
// nothing of them: they have versions, a table and a cache of their own, and
// each of them a folder there, so that raising one rebuilds that one only.
const (
	metricsServerVersion      = "v0.9.0"
	traefikVersion            = "v3.7.13" // also in traefik/go.mod; a test keeps the two in step
	gatewayAPIVersion         = "v1.6.1"  // what that Traefik was made for
	prometheusOperatorVersion = "v0.85.0"
)

// addon is one of them: definitions, a program that runs as a pod, or both.
type addon struct {
	name     string
	what     string // for help
	needs    []string
	crds     moduleFiles
	program  artifact
	image    string // the program's repository in the cluster's registry
	manifest string // template of what runs the program
	space    string // the program's namespace; its Deployment has the add-on's name
	usable   func(context.Context, addonRun) error
	hint     string // what to try
}

// moduleFiles are files of a Go module: the module proxy is where everything
// else here comes from, too.
type moduleFiles struct {
	module, version string
	files           []string // globs
}

// addons is the table.
func addons() []addon {
	const (
		metricsServer = "sigs.k8s.io/metrics-server"
		traefik       = "github.com/traefik/traefik/v3"
		monitoringCRD = "example/prometheus-operator-crd/monitoring.coreos.com_"
	)
	return []addon{
		{
			name: "metrics-server", what: "kubectl top, and HorizontalPodAutoscalers by CPU and memory",
			program: artifact{
				name: "metrics-server", version: metricsServerVersion, dir: "bin", programs: []string{"metrics-server"}, takes: "2 min",
				packages: []string{metricsServer + "/cmd/metrics-server"},
				ldflags:  "-s -w -X k8s.io/client-go/pkg/version.gitVersion=" + metricsServerVersion,
			},
			image: "metrics-server/metrics-server", manifest: "metrics-server.yaml", space: "kube-system",
			usable: metricsUsable, hint: "cluster exec -- kubectl top pods -A",
		},
		{
			name: "traefik", what: "IngressClass and GatewayClass traefik, on ports 80 and 443 of " + nodeIP(controlNode),
			needs: []string{"gateway-api"},
			program: artifact{
				name: "traefik", version: traefikVersion, dir: "bin", programs: []string{"traefik"}, takes: "4 min",
				module: "traefik", sources: []string{"go.mod", "go.sum", "ext", "lego"},
				packages: []string{traefik + "/cmd/traefik"},
				ldflags:  "-s -w -X " + traefik + "/pkg/version.Version=" + traefikVersion,
			},
			image: "library/traefik", manifest: "traefik.yaml", space: "traefik",
			usable: traefikUsable, hint: "cluster exec -- curl -H 'Host: NAME' http://" + nodeIP(controlNode) + "/",
		},
		{
			name: "gateway-api", what: "the definitions of the Gateway API, standard channel",
			crds: moduleFiles{"sigs.k8s.io/gateway-api", gatewayAPIVersion, []string{"config/crd/standard/*.yaml"}},
			hint: "cluster exec -- kubectl explain httproute.spec",
		},
		{
			name: "prometheus-operator-crds", what: "the definitions of ServiceMonitor and PodMonitor; nothing acts on them",
			crds: moduleFiles{
				"github.com/prometheus-operator/prometheus-operator", prometheusOperatorVersion,
				[]string{monitoringCRD + "servicemonitors.yaml", monitoringCRD + "podmonitors.yaml"},
			},
			hint: "cluster exec -- kubectl explain servicemonitor.spec",
		},
	}
}

func addonNames() []string {
	var names []string
	for _, a := range addons() {
		names = append(names, a.name)
	}
	return names
}

// withNeeds puts what the named add-ons need before them, each once.
func withNeeds(names []string) ([]addon, error) {
	var list []addon
	for _, name := range names {
		i := slices.IndexFunc(addons(), func(a addon) bool { return a.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no add-on called %q; there are: %s", name, strings.Join(addonNames(), ", "))
		}
		a := addons()[i]
		needed, err := withNeeds(a.needs)
		if err != nil {
			return nil, err
		}
		for _, n := range append(needed, a) {
			if !slices.ContainsFunc(list, func(other addon) bool { return other.name == n.name }) {
				list = append(list, n)
			}
		}
	}
	return list, nil
}

func (a addon) runs() bool { return a.program.name != "" }

func (a addon) version() string {
	if a.runs() {
		return a.program.version
	}
	return a.crds.version
}

// addonOptions are the flags of `addon`.
type addonOptions struct {
	buildOnly bool
	timeout   time.Duration
}

// addAddons builds what is not in the cache, then installs it and waits.
func addAddons(ctx context.Context, c config, names []string, o addonOptions, out io.Writer) error {
	list, err := withNeeds(names)
	if err != nil {
		return err
	}
	p := &progress{out: out, total: len(list)}
	if !o.buildOnly {
		if os.Geteuid() != 0 {
			return errors.New("cluster addon needs root: it enters the cluster's network namespace")
		}
		s, err := readSpec(c)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(list, addon.runs); i >= 0 && s.ControlPlaneOnly {
			return fmt.Errorf("this cluster runs no pods (--control-plane-only), and %s is one", list[i].name)
		}
		c = s.config()
		for _, a := range list {
			p.total++
			if a.runs() {
				p.total++
			}
		}
	}
	start := time.Now()
	syscall.Umask(defaultUmask)
	// Before the cluster is locked: others may want it while this takes minutes.
	if err := buildAddons(ctx, c, list, p); err != nil || o.buildOnly {
		return err
	}
	unlock, err := lock(c.lockFile(), out)
	if err != nil {
		return err
	}
	defer unlock()
	// All are started before any is waited for.
	r := addonRun{config: c, api: newAPIClient(c), timeout: o.timeout}
	for _, a := range list {
		if err := p.run(a.name+" installed", "", func() (string, error) { return "", r.install(ctx, a) }); err != nil {
			return err
		}
	}
	for _, a := range slices.DeleteFunc(slices.Clone(list), func(a addon) bool { return !a.runs() }) {
		if err := p.run(a.name+" can be used", "", func() (string, error) { return "", r.wait(ctx, a) }); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "added: %s, in %s\n", strings.Join(names, ", "), elapsed(start))
	for _, a := range list {
		if slices.Contains(names, a.name) {
			fmt.Fprintf(out, "try:  %s\n", a.hint)
		}
	}
	return nil
}
