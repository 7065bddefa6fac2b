//go:build e2e

// Package engines applies and prunes objects with the code of Argo CD and of Flux, which decides whether an object differs
// from Git.
package engines

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/fluxcd/pkg/ssa"
	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"
)

const argoCD = "argocd-controller"

// engine applies an object of Git, and says what differs from it in the cluster.
type engine struct {
	apply func(context.Context, *unstructured.Unstructured) error
	diff  func(_ context.Context, git, live *unstructured.Unstructured) (string, error)
}

func engines(c client.Client) map[string]engine {
	flux := ssa.NewResourceManager(c, nil, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"})
	reconcile := func(ctx context.Context, o *unstructured.Unstructured) (ssa.Action, error) {
		changes, err := flux.ApplyAll(ctx, []*unstructured.Unstructured{o.DeepCopy()}, ssa.DefaultApplyOptions())
		if err != nil {
			return "", err
		}
		return changes.Entries[0].Action, nil
	}
	return map[string]engine{
		"Flux": {
			apply: func(ctx context.Context, o *unstructured.Unstructured) error { _, err := reconcile(ctx, o); return err },
			diff: func(ctx context.Context, git, _ *unstructured.Unstructured) (string, error) {
				action, err := reconcile(ctx, git)
				if action == ssa.UnchangedAction {
					return "", err
				}
				return string(action), err
			},
		},
		"Argo CD": {
			apply: kubectlApply("--field-manager=" + argoCD),
			diff: func(_ context.Context, git, live *unstructured.Unstructured) (string, error) {
				return modified(diff.Diff(git, live))
			},
		},
		"Argo CD, server-side": {
			apply: kubectlApply("--server-side", "--force-conflicts", "--field-manager="+argoCD),
			diff: func(_ context.Context, git, live *unstructured.Unstructured) (string, error) {
				// What admission adds counts, too, as with IncludeMutationWebhook=true.
				return modified(diff.Diff(git, live, diff.WithServerSideDiff(true), diff.WithIgnoreMutationWebhook(false), diff.WithManager(argoCD), diff.WithServerSideDryRunner(dryRun{c})))
			},
		},
	}
}

// modified returns what an object is and what Argo CD expects, if they differ.
func modified(r *diff.DiffResult, err error) (string, error) {
	if err != nil || !r.Modified {
		return "", err
	}
	return fmt.Sprintf("is %s, expected %s", r.NormalizedLive, r.PredictedLive), nil
}

type dryRun struct{ client client.Client }

// Run implements diff.ServerSideDryRunner.
func (d dryRun) Run(ctx context.Context, o *unstructured.Unstructured, manager string) (string, error) {
	o = o.DeepCopy()
	if err := d.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.FieldOwner(manager), client.ForceOwnership, client.DryRunAll); err != nil {
		return "", err
	}
	raw, err := json.Marshal(o)
	return string(raw), err
}

func kubectlApply(flags ...string) func(context.Context, *unstructured.Unstructured) error {
	return func(ctx context.Context, o *unstructured.Unstructured) error {
		raw, err := json.Marshal(o)
		if err != nil {
			return err
		}
		return kubectl(ctx, bytes.NewReader(raw), append([]string{"apply", "-f", "-"}, flags...)...)
	}
}

func kubectl(ctx context.Context, in *bytes.Reader, args ...string) error {
	cmd := exec.CommandContext(ctx, "kubectl", args...)
	if in != nil {
		cmd.Stdin = in
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// samples returns the objects of config/samples, which state no replicas, so that they can be scaled.
func samples(t *testing.T) map[string]*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*unstructured.Unstructured{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		o := &unstructured.Unstructured{}
		if err := errors.Join(err, yaml.Unmarshal(raw, &o.Object)); err != nil {
			t.Fatal(err)
		}
		if o.GetKind() != "Kustomization" {
			all[filepath.Base(f)] = o
		}
	}
	if len(all) < 5 {
		t.Fatalf("only %d samples", len(all))
	}
	return all
}

// TestEngines_SeeNoDifference applies each sample with each engine, and expects that an object that was
// defaulted, has its node port, was scaled or was rolled back equals Git, and that applying it again writes nothing.
func TestEngines_SeeNoDifference(t *testing.T) {
	log.SetLogger(logr.Discard())
	cfg, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := samples(t)
	for name, e := range engines(c) {
		t.Run(name, func(t *testing.T) {
			namespace := strings.ToLower(strings.NewReplacer(" ", "-", ",", "").Replace("engine " + name))
			if err := kubectl(t.Context(), nil, "create", "namespace", namespace); err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := kubectl(context.WithoutCancel(t.Context()), nil, "delete", "namespace", namespace, "--timeout=3m"); err != nil {
					t.Error(err)
				}
			}()
			for _, file := range slices.Sorted(maps.Keys(all)) {
				git := all[file].DeepCopy()
				git.SetNamespace(namespace)
				w := walk{T: t, client: c, engine: e, file: file, git: git}
				w.run()
			}
		})
	}
}

type walk struct {
	*testing.T
	client client.Client
	engine engine
	file   string
	git    *unstructured.Unstructured
}

func (w walk) run() {
	w.Helper()
	spec := w.git.Object["spec"].(map[string]any)
	_, scales := spec["replicas"]
	delete(spec, "replicas")
	w.step("applied", "", func() error { return w.engine.apply(w.Context(), w.git) })
	if scales {
		w.step("scaled", "", func() error {
			return kubectl(w.Context(), nil, "-n", w.git.GetNamespace(), "scale", strings.ToLower(w.git.GetKind()), w.git.GetName(), "--replicas=2")
		})
	}
	if image, ok := spec["image"].(string); ok {
		spec["image"] = strings.Split(image, ":")[0] + ":missing"
		reason := "RolledBack"
		if w.git.GetKind() == "ImmortalContainer" {
			reason = "ImagePull"
		}
		w.step("missing image", reason, func() error { return w.engine.apply(w.Context(), w.git) })
	}
}

// step changes the object, waits until Ready is True or has the reason, and compares it with Git twice.
func (w walk) step(name, reason string, change func() error) {
	w.Helper()
	if err := change(); err != nil {
		w.Fatalf("%s, %s: %v", w.file, name, err)
	}
	live := w.await(reason)
	for range 2 {
		difference, err := w.engine.diff(w.Context(), w.git, live)
		if err != nil || difference != "" {
			w.Errorf("%s, %s: %s %v", w.file, name, difference, err)
		}
	}
	if err := w.engine.apply(w.Context(), w.git); err != nil {
		w.Fatalf("%s, %s: applying it again: %v", w.file, name, err)
	}
	again := w.await(reason)
	if live.GetGeneration() != again.GetGeneration() {
		w.Errorf("%s, %s: applying it again changed the generation from %d to %d", w.file, name, live.GetGeneration(), again.GetGeneration())
	}
}

// await returns the object when its status is about its spec and Ready has the reason, or is True
// if there is none.
func (w walk) await(reason string) *unstructured.Unstructured {
	w.Helper()
	deadline, got := time.Now().Add(3*time.Minute), ""
	for time.Now().Before(deadline) {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(w.git.GroupVersionKind())
		if err := w.client.Get(w.Context(), client.ObjectKeyFromObject(w.git), o); err != nil {
			w.Fatal(err)
		}
		conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
		for _, c := range conditions {
			c := c.(map[string]any)
			if c["type"] != "Ready" {
				continue
			}
			got = fmt.Sprint(c["reason"], ": ", c["message"])
			if c["observedGeneration"] == o.GetGeneration() && (c["reason"] == reason || reason == "" && c["status"] == "True") {
				return o
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	w.Fatalf("%s: Ready has the reason %s, want %s", w.file, got, cmp.Or(reason, "True"))
	return nil
}
