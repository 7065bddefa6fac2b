package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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

// addonDir is the add-on's folder in the cache. Its name changes with what the
// add-on is made from.
func (c config) addonDir(a addon) string {
	h := sha256.New()
	p := a.program
	fmt.Fprintln(h, runtime.GOOS, runtime.GOARCH, p.packages, p.ldflags, p.tags, p.cgo, a.image, a.crds)
	key := hex.EncodeToString(h.Sum(nil))[:8]
	return filepath.Join(c.addonsDir(), a.name+"-"+a.version()+"-"+key)
}

// addonsDir is beside the folder the base is in, whatever its key.
func (c config) addonsDir() string {
	return filepath.Join(filepath.Dir(filepath.Dir(c.CacheDir)), "addons")
}

// addonOptions are the flags of `addon`.
type addonOptions struct {
	buildOnly bool
	timeout   time.Duration
}

// addonRun is one run of `addon`.
type addonRun struct {
	config  // of the running cluster
	api     apiClient
	timeout time.Duration
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
	if err := c.buildAddons(ctx, list, p); err != nil || o.buildOnly {
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

func (c config) buildAddons(ctx context.Context, list []addon, p *progress) error {
	if err := os.MkdirAll(c.addonsDir(), 0o755); err != nil {
		return fmt.Errorf("creating the cache folder: %w", err)
	}
	unlock, err := lock(c.addonsDir()+".lock", p.out)
	if err != nil {
		return err
	}
	defer unlock()
	for _, a := range list {
		err := p.run(a.name+" "+a.version(), a.program.takes, func() (string, error) { return c.ensureAddon(ctx, a) })
		if err != nil {
			return err
		}
	}
	return nil
}

// ensureAddon fills the add-on's folder unless it is.
func (c config) ensureAddon(ctx context.Context, a addon) (detail string, err error) {
	dir := c.addonDir(a)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("creating the cache folder: %w", err)
	}
	detail = "cached"
	if a.crds.module != "" {
		if detail, err = a.crds.ensure(ctx, dir, filepath.Join(dir, "crds")); err != nil {
			return "", err
		}
	}
	if !a.runs() {
		return detail, nil
	}
	b, store := builder{config{CacheDir: dir}}, filepath.Join(dir, "image")
	if !b.has(ctx, a.program) {
		// The image has the program in it.
		if err := os.RemoveAll(store); err != nil {
			return "", fmt.Errorf("removing the old image of %s: %w", a.name, err)
		}
	}
	if detail, err = b.ensure(ctx, a.program); err != nil {
		return "", err
	}
	if _, err := os.Stat(store); err == nil {
		return detail, nil
	}
	return detail, a.packImage(ctx, a.program.program(dir, 0), dir, store)
}

// packImage makes a registry's content of the program, which is compressed
// once and then only linked into each cluster's registry.
func (a addon) packImage(ctx context.Context, program, dir, store string) error {
	im, err := binaryImage(program, "")
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	s, err := openStore(tmp)
	if err != nil {
		return err
	}
	if err := push(ctx, s.transport(), a.reference(), im); err != nil {
		return err
	}
	if err := os.Rename(tmp, store); err != nil {
		return fmt.Errorf("moving the image of %s into the cache: %w", a.name, err)
	}
	return nil
}

func (a addon) reference() string { return a.image + ":" + a.program.version }

// ensure copies the files into a folder, flat, unless it is there.
func (m moduleFiles) ensure(ctx context.Context, dir, target string) (detail string, err error) {
	if _, err := os.Stat(target); err == nil {
		return "cached", nil
	}
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("the go command is not in PATH; it is needed to download " + m.module)
	}
	tmp, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return "", fmt.Errorf("creating a build folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	// Outside any module, as in install.
	said, err := run(ctx, runOptions{dir: tmp, env: goEnv(false)}, "go", "mod", "download", "-json", m.module+"@"+m.version)
	if err != nil {
		return "", err
	}
	var downloaded struct{ Dir string }
	if err := json.Unmarshal([]byte(said), &downloaded); err != nil {
		return "", fmt.Errorf("downloading %s: %w", m.module, err)
	}
	for _, pattern := range m.files {
		found, err := filepath.Glob(filepath.Join(downloaded.Dir, pattern))
		if err != nil {
			return "", err
		}
		if len(found) == 0 {
			return "", fmt.Errorf("%s %s has no %s", m.module, m.version, pattern)
		}
		for _, file := range found {
			if err := copyFile(file, filepath.Join(tmp, filepath.Base(file)), 0o644); err != nil {
				return "", err
			}
		}
	}
	if err := os.Rename(tmp, target); err != nil {
		return "", fmt.Errorf("moving the files of %s into the cache: %w", m.module, err)
	}
	return "downloaded", nil
}

// install applies the add-on's definitions, waits for the API server to know
// them, and then starts its program.
func (r addonRun) install(ctx context.Context, a addon) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	if a.crds.module != "" {
		if err := r.define(ctx, a); err != nil {
			return err
		}
	}
	if !a.runs() {
		return nil
	}
	image, err := r.pushAddon(ctx, a)
	if err != nil {
		return err
	}
	manifest, err := render(a.manifest, addonSettings{Image: image, Node: nodeName(controlNode), NodeIP: nodeIP(controlNode), Host: traefikHost})
	if err != nil {
		return err
	}
	_, err = r.apply(ctx, manifest)
	return err
}

// define applies the add-on's definitions, until objects can be made of them.
func (r addonRun) define(ctx context.Context, a addon) error {
	files, err := filepath.Glob(filepath.Join(r.addonDir(a), "crds", "*.yaml"))
	if err != nil {
		return err
	}
	var all [][]byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a definition of %s: %w", a.name, err)
		}
		all = append(all, content)
	}
	applied, err := r.apply(ctx, bytes.Join(all, []byte("\n---\n")))
	if err != nil {
		return err
	}
	wait := []string{"wait", "--for=condition=Established", "--timeout=" + r.timeout.String()}
	for object := range strings.FieldsSeq(applied) {
		// The Gateway API brings an admission policy, too, which has no conditions.
		if strings.HasPrefix(object, "customresourcedefinition") {
			wait = append(wait, object)
		}
	}
	_, err = r.kubectl(ctx, nil, wait...)
	return err
}

// addonSettings fill the manifests.
type addonSettings struct {
	Image  string
	Node   string // where the pod runs
	NodeIP string
	Host   string // of the Ingress to ask for
}

// pushAddon makes the image available, and returns its name with the digest:
// when the same version was built anew, the pod is replaced.
func (r addonRun) pushAddon(ctx context.Context, a addon) (string, error) {
	store := filepath.Join(r.addonDir(a), "image")
	// What the registry has already is not sent.
	if err := linkStore(store, r.registryStore(), "blobs"); err != nil {
		return "", err
	}
	s, err := openStore(store)
	if err != nil {
		return "", err
	}
	ref, err := name.NewTag(registryAddress()+"/"+a.reference(), name.Insecure)
	if err != nil {
		return "", fmt.Errorf("naming the image of %s: %w", a.name, err)
	}
	im, err := remote.Image(ref, remote.WithTransport(s.transport()), remote.WithContext(ctx))
	if err != nil {
		return "", fmt.Errorf("reading the image of %s: %w", a.name, err)
	}
	digest, err := im.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the image of %s: %w", a.name, err)
	}
	if err := pushToCluster(ctx, r.config, a.reference(), im); err != nil {
		return "", err
	}
	return "docker.io/" + a.reference() + "@" + digest.String(), nil
}

// apply creates or updates objects of any kind, and returns their names.
// kubectl does it: finding a kind's path takes more than apiClient knows.
func (r addonRun) apply(ctx context.Context, manifest []byte) (string, error) {
	return r.kubectl(ctx, manifest, "apply", "--server-side", "--force-conflicts", "--field-manager=cluster", "-o", "name", "-f", "-")
}

// kubectl runs inside the cluster's network.
func (r addonRun) kubectl(ctx context.Context, stdin []byte, args ...string) (string, error) {
	args = append([]string{
		"--net=" + r.nodeNetnsFile(controlNode), "--", filepath.Join(r.binDir(), "kubectl"),
		// By default kubectl remembers what kinds there are in HOME, by address,
		// and the address is the same in all our clusters.
		"--cache-dir=" + filepath.Join(r.StateDir, "kubectl"),
	}, args...)
	return run(ctx, runOptions{env: execEnv(r.config, os.Environ()), stdin: bytes.NewReader(stdin)}, "nsenter", args...)
}

// wait returns when the add-on can be used.
func (r addonRun) wait(ctx context.Context, a addon) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	var missing error
	err := waitFor(ctx, 200*time.Millisecond, func() bool {
		now := r.rolledOut(ctx, a)
		if now == nil {
			now = a.usable(ctx, r)
		}
		// A question that the deadline cut off says nothing.
		if now == nil || ctx.Err() == nil {
			missing = now
		}
		return now == nil
	})
	if err == nil {
		return nil
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("not within %s", r.timeout)
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	said, logErr := r.kubectl(ctx, nil, "logs", "--namespace", a.space, "deployment/"+a.name, "--tail=15")
	if logErr != nil {
		said = "(there is none)"
	}
	return fmt.Errorf("%w: %w; warnings in %s:\n%s\nthe end of its log:\n%s",
		err, missing, a.space, r.api.podTrouble(ctx, a.space), lastLines(said, 15))
}

// rolledOut is nil when the add-on's pod is there, and no older one.
func (r addonRun) rolledOut(ctx context.Context, a addon) error {
	var d struct {
		Metadata struct{ Generation int }
		Status   struct{ ObservedGeneration, Replicas, UpdatedReplicas, AvailableReplicas int }
	}
	if err := r.api.get(ctx, "/apis/apps/v1/namespaces/"+a.space+"/deployments/"+a.name, &d); err != nil {
		return err
	}
	if s := d.Status; s.ObservedGeneration < d.Metadata.Generation || s.Replicas != 1 || s.UpdatedReplicas != 1 || s.AvailableReplicas != 1 {
		return errors.New("its pod is not ready")
	}
	return nil
}

// metricsUsable is nil when pods and all nodes have been measured.
func metricsUsable(ctx context.Context, r addonRun) error {
	nodes, err := r.api.nodesReady(ctx)
	if err != nil {
		return err
	}
	for resource, want := range map[string]int{"nodes": nodes, "pods": 1} {
		var list struct{ Items []json.RawMessage }
		if err := r.api.get(ctx, "/apis/metrics.k8s.io/v1beta1/"+resource, &list); err != nil {
			return err
		}
		if len(list.Items) < want {
			return fmt.Errorf("%d of %d %s are measured", len(list.Items), want, resource)
		}
	}
	return nil
}

// traefikHost is the name of the Ingress that the add-on brings to ask for.
const traefikHost = "ping.traefik.internal"

// traefikUsable is nil when Traefik has taken the GatewayClass, and an Ingress
// answers where users will look.
func traefikUsable(ctx context.Context, r addonRun) error {
	var class struct {
		Status struct {
			Conditions []struct{ Type, Status string }
		}
	}
	if err := r.api.get(ctx, "/apis/gateway.networking.k8s.io/v1/gatewayclasses/traefik", &class); err != nil {
		return err
	}
	accepted := false
	for _, c := range class.Status.Conditions {
		accepted = accepted || c.Type == "Accepted" && c.Status == "True"
	}
	if !accepted {
		return errors.New("GatewayClass traefik is not accepted")
	}
	return r.askInside(ctx, "http://"+nodeIP(controlNode)+"/ping", traefikHost)
}

const probeCommand = "probe"

// askInside is nil when a URL answers inside the cluster's network.
func (r addonRun) askInside(ctx context.Context, url, host string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	_, err = run(ctx, runOptions{}, "nsenter", "--net="+r.nodeNetnsFile(controlNode), "--", self, probeCommand, url, "--host", host)
	return err
}
