//go:build e2e

package engines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	gitops "github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tool makes a namespace equal to Git: it applies the objects, prunes those that it applied before and that Git no
// longer contains, and returns when it has finished.
type tool interface {
	sync(ctx context.Context, git []*unstructured.Unstructured) error
}

// newTool returns the tool for an application that is named as its namespace.
type newTool func(namespace string, propagation metav1.DeletionPropagation) tool

// tools returns the newest Argo CD, one that tracks by a label, as before version 3, and Flux.
func tools(t *testing.T, cfg *rest.Config, c client.Client) map[string]newTool {
	argo := func(track tracking, options ...sync.SyncOpt) newTool {
		clusterCache := cache.NewClusterCache(cfg, cache.SetLogr(logr.Discard()), cache.SetPopulateResourceInfoHandler(func(o *unstructured.Unstructured, _ bool) (any, bool) {
			application := track.application(o)
			return application, application != ""
		}))
		gitOps := gitops.NewEngine(cfg, clusterCache, gitops.WithLogr(logr.Discard()))
		stop, err := gitOps.Run()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
		return func(namespace string, propagation metav1.DeletionPropagation) tool {
			return argoApplication{
				engine: gitOps, namespace: namespace, tracking: track,
				options: append(slices.Clone(options), sync.WithLogr(logr.Discard()), sync.WithPrune(true), sync.WithPrunePropagationPolicy(&propagation)),
			}
		}
	}
	flux := func(namespace string, propagation metav1.DeletionPropagation) tool {
		poller := polling.NewStatusPoller(c, c.RESTMapper(), polling.Options{})
		return &fluxKustomization{
			manager:   ssa.NewResourceManager(c, poller, ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}),
			namespace: namespace, propagation: propagation,
		}
	}
	return map[string]newTool{
		"Flux":                 flux,
		argoCDByLabel:          argo(byLabel),
		"Argo CD, server-side": argo(byAnnotation, sync.WithServerSideApply(true), sync.WithServerSideApplyManager(argoCD)),
	}
}

// tracking marks the objects of an application, as Argo CD does.
type tracking struct {
	mark        func(o *unstructured.Unstructured, application string)
	application func(*unstructured.Unstructured) string
}

const (
	argoCDByLabel = "Argo CD, by label"
	instanceLabel = "app.kubernetes.io/instance"
	trackingID    = "argocd.argoproj.io/tracking-id"
)

var (
	byLabel = tracking{
		mark: func(o *unstructured.Unstructured, application string) {
			o.SetLabels(with(o.GetLabels(), instanceLabel, application))
		},
		application: func(o *unstructured.Unstructured) string { return o.GetLabels()[instanceLabel] },
	}
	byAnnotation = tracking{
		mark: func(o *unstructured.Unstructured, application string) {
			o.SetAnnotations(with(o.GetAnnotations(), trackingID, identity(o, application)))
		},
		application: func(o *unstructured.Unstructured) string {
			// A copy of the annotation on another object does not count.
			application := applicationOf(o)
			if o.GetAnnotations()[trackingID] != identity(o, application) {
				return ""
			}
			return application
		},
	}
)

func identity(o *unstructured.Unstructured, application string) string {
	gvk := o.GroupVersionKind()
	return fmt.Sprintf("%s:%s/%s:%s/%s", application, gvk.Group, gvk.Kind, o.GetNamespace(), o.GetName())
}

func applicationOf(o *unstructured.Unstructured) string {
	application, _, _ := strings.Cut(o.GetAnnotations()[trackingID], ":")
	return application
}

func with(m map[string]string, key, value string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[key] = value
	return m
}

type argoApplication struct {
	engine    gitops.GitOpsEngine
	namespace string
	tracking  tracking
	options   []sync.SyncOpt
}

func (a argoApplication) sync(ctx context.Context, git []*unstructured.Unstructured) error {
	objects := copies(git)
	for _, o := range objects {
		a.tracking.mark(o, a.namespace)
	}
	results, err := a.engine.Sync(ctx, objects, func(r *cache.Resource) bool { return r.Info == a.namespace }, "", a.namespace, a.options...)
	for _, r := range results {
		if r.Status == common.ResultCodeSyncFailed || r.HookPhase == common.OperationFailed || r.HookPhase == common.OperationError {
			err = errors.Join(err, fmt.Errorf("%s: %s %s %s", r.ResourceKey.String(), r.Status, r.HookPhase, r.Message))
		}
	}
	return err
}

// fluxKustomization does what the kustomize-controller does, which always prunes in the background. The
// helm-controller has the other ways, too.
type fluxKustomization struct {
	manager     *ssa.ResourceManager
	namespace   string
	propagation metav1.DeletionPropagation
	inventory   []*unstructured.Unstructured
}

func (f *fluxKustomization) sync(ctx context.Context, git []*unstructured.Unstructured) error {
	objects := copies(git)
	f.manager.SetOwnerLabels(objects, f.namespace, "flux-system")
	if _, err := f.manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions()); err != nil {
		return err
	}
	stale := slices.DeleteFunc(f.inventory, func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(git, func(g *unstructured.Unstructured) bool { return identity(g, "") == identity(o, "") })
	})
	f.inventory = copies(git)
	options := ssa.DeleteOptions{PropagationPolicy: f.propagation, Inclusions: f.manager.GetOwnerLabels(f.namespace, "flux-system")}
	if _, err := f.manager.DeleteAll(ctx, stale, options); err != nil {
		return err
	}
	return f.manager.WaitForTermination(stale, ssa.WaitOptions{Interval: time.Second, Timeout: patience})
}

func copies(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	all := make([]*unstructured.Unstructured, len(objects))
	for i, o := range objects {
		all[i] = o.DeepCopy()
	}
	return all
}
