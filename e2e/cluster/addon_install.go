package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// logTimeout bounds reading the log of an add-on that failed.
const logTimeout = 10 * time.Second

// addonRun is one run of `addon`.
type addonRun struct {
	config  // of the running cluster
	api     apiClient
	timeout time.Duration
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
	files, err := filepath.Glob(filepath.Join(addonDir(r.config, a), "crds", "*.yaml"))
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
	store := filepath.Join(addonDir(r.config, a), "image")
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
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
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
	return probeInside(ctx, r.config, "http://"+nodeIP(controlNode)+"/ping", traefikHost)
}
