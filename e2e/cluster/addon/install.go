package addon

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/enter"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
	"github.com/platform-operator/platform-operator/e2e/cluster/kube"
	"github.com/platform-operator/platform-operator/e2e/cluster/load"
	"github.com/platform-operator/platform-operator/e2e/cluster/monitoring"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/registry"
	"github.com/platform-operator/platform-operator/e2e/cluster/templates"
)

// logTimeout bounds reading the log of an add-on that failed.
const logTimeout = 10 * time.Second

// installation is one run of `addon`.
type installation struct {
	config.Config // of the running cluster
	nodes         int
	timeout       time.Duration
}

// install applies the add-on's definitions, waits for the API server to know
// them, and then starts its program.
func (r installation) install(ctx context.Context, a Addon) error {
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
	image, err := r.push(ctx, a)
	if err != nil {
		return err
	}
	settings := manifestSettings{Image: image, Node: config.NodeName(config.ControlNode), NodeIP: config.NodeIP(config.ControlNode), Host: traefikHost}
	if a.files != nil {
		var files map[string][]byte
		// The API server rejects requests for a CRD until it has initialized its storage,
		// which is later than its condition Established.
		waited := probe.WaitFor(ctx, 200*time.Millisecond, func() bool {
			files, err = a.files(ctx, r)
			return err == nil
		})
		if waited != nil {
			return fmt.Errorf("%w: %w", waited, err)
		}
		if err := settings.setFiles(files); err != nil {
			return err
		}
	}
	manifest, err := templates.Render(a.manifest, settings)
	if err != nil {
		return err
	}
	_, err = kube.Apply(ctx, r.Config, manifest)
	return err
}

// define applies the add-on's definitions, until objects can be made of them.
func (r installation) define(ctx context.Context, a Addon) error {
	files, err := filepath.Glob(filepath.Join(cacheDir(r.Config, a), "crds", "*.yaml"))
	if err != nil {
		return err
	}
	var all [][]byte
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading a definition of %s: %w", a.Name, err)
		}
		all = append(all, content)
	}
	applied, err := kube.Apply(ctx, r.Config, bytes.Join(all, []byte("\n---\n")))
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
	_, err = kube.Kubectl(ctx, r.Config, nil, wait...)
	return err
}

// manifestSettings fill the manifests.
type manifestSettings struct {
	Image  string
	Node   string // where the pod runs
	NodeIP string
	Host   string // of the Ingress to ask for
	// Files are the data of a Secret with configuration files, in JSON.
	Files, FilesHash string
}

func (s *manifestSettings) setFiles(files map[string][]byte) error {
	data, err := json.Marshal(files)
	if err != nil {
		return fmt.Errorf("encoding the configuration: %w", err)
	}
	hash := sha256.Sum256(data)
	s.Files, s.FilesHash = string(data), hex.EncodeToString(hash[:8])
	return nil
}

// push makes the image available, and returns its name with the digest:
// when the same version was rebuilt, the pod is replaced.
func (r installation) push(ctx context.Context, a Addon) (string, error) {
	store := filepath.Join(cacheDir(r.Config, a), "image")
	// What the registry has already is not sent.
	if err := registry.Link(store, r.RegistryStore(), "blobs"); err != nil {
		return "", err
	}
	s, err := registry.Open(store)
	if err != nil {
		return "", err
	}
	im, err := registry.Pull(ctx, s.Transport(), a.reference())
	if err != nil {
		return "", err
	}
	digest, err := im.Digest()
	if err != nil {
		return "", fmt.Errorf("reading the image of %s: %w", a.Name, err)
	}
	if err := load.Push(ctx, r.Config, a.reference(), im); err != nil {
		return "", err
	}
	return "docker.io/" + a.reference() + "@" + digest.String(), nil
}

// wait returns when the add-on can be used.
func (r installation) wait(ctx context.Context, a Addon) error {
	waiting, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	err := kube.RolledOut(waiting, r.Config, a.space, a.Name)
	if err == nil && a.usable != nil {
		var missing error
		late := probe.WaitFor(waiting, 200*time.Millisecond, func() bool {
			// A question that the deadline cut off says nothing.
			if now := a.usable(waiting, r); now == nil || waiting.Err() == nil {
				missing = now
			}
			return missing == nil
		})
		if late != nil {
			err = fmt.Errorf("%w: %w", late, missing)
		}
	}
	if err == nil {
		return nil
	}
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	said, logErr := kube.Kubectl(ctx, r.Config, nil, "logs", "--namespace", a.space, "deployment/"+a.Name, "--tail=15")
	if logErr != nil {
		said = "(there is none)"
	}
	return fmt.Errorf("%w; warnings in %s:\n%s\nthe end of its log:\n%s", err, a.space, kube.Warnings(ctx, r.Config, a.space), host.LastLines(said, 15))
}

// metricsUsable is nil when pods and all nodes have been measured.
func metricsUsable(ctx context.Context, r installation) error {
	for resource, want := range map[string]int{"nodes": r.nodes, "pods": 1} {
		var list struct{ Items []json.RawMessage }
		if err := kube.Get(ctx, r.Config, "/apis/metrics.k8s.io/v1beta1/"+resource, &list); err != nil {
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
func traefikUsable(ctx context.Context, r installation) error {
	if _, err := kube.Kubectl(ctx, r.Config, nil, "wait", "--for=condition=Accepted", "gatewayclass/traefik", "--timeout=1s"); err != nil {
		return err
	}
	return enter.Probe(ctx, r.Config, "http://"+config.NodeIP(config.ControlNode)+"/ping", traefikHost)
}

// prometheusFiles generates the configuration from what is in the cluster now.
func prometheusFiles(ctx context.Context, r installation) (map[string][]byte, error) {
	list := func(resource string) ([]monitoring.Object, error) {
		var l struct{ Items []monitoring.Object }
		err := kube.Get(ctx, r.Config, "/apis/monitoring.coreos.com/v1/"+resource, &l)
		return l.Items, err
	}
	monitors, err := list("servicemonitors")
	if err != nil {
		return nil, err
	}
	rules, err := list("prometheusrules")
	if err != nil {
		return nil, err
	}
	return monitoring.Files(monitors, rules, func(namespace, name, key string) ([]byte, error) {
		var secret struct{ Data map[string][]byte }
		if err := kube.Get(ctx, r.Config, "/api/v1/namespaces/"+namespace+"/secrets/"+name, &secret); err != nil {
			return nil, err
		}
		value, ok := secret.Data[key]
		if !ok {
			return nil, fmt.Errorf("the Secret %s/%s has no key %s", namespace, name, key)
		}
		return value, nil
	})
}

// prometheusUsable is nil when both programs answer where users will look.
func prometheusUsable(ctx context.Context, r installation) error {
	for _, port := range []string{"9090", "9093"} {
		if err := enter.Probe(ctx, r.Config, "http://"+config.NodeIP(config.ControlNode)+":"+port+"/-/ready", "prometheus"); err != nil {
			return err
		}
	}
	return nil
}
