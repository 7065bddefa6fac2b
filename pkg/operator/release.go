package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Manager is the Deployment of the operator, which Release stops.
type Manager struct {
	client.ObjectKey
	// Hook is the name of the Job in the Deployment's namespace if the hook of the chart runs
	// Release. Tools that apply the rendered chart create that Job, too: then nothing is released.
	Hook string
}

// ofHelm is an annotation that Helm adds to what it installs. Rendered manifests do not
// have it.
const ofHelm = "meta.helm.sh/release-name"

// Release stops the manager and removes the operator's finalizer from every
// object, so that all objects can be deleted without the operator. The manager
// is stopped first, because it would restore the finalizers. A kind whose CRD does
// not exist counts as having no objects. If mgr has no name, no manager is stopped.
// Only objects in the namespaces are released, or all if there are none.
func Release(ctx context.Context, c client.Client, mgr Manager, kinds []client.ObjectList, out io.Writer, namespaces ...string) error {
	if mgr.Name != "" {
		if ours, err := halt(ctx, c, mgr, out); err != nil || !ours {
			return err
		}
	}
	if len(namespaces) == 0 {
		namespaces = []string{metav1.NamespaceAll}
	}
	var errs []error
	for _, ns := range namespaces {
		errs = append(errs, releaseIn(ctx, c, ns, kinds, out))
	}
	return errors.Join(errs...)
}

func releaseIn(ctx context.Context, c client.Client, namespace string, kinds []client.ObjectList, out io.Writer) error {
	objects, released := 0, 0
	for _, list := range kinds {
		if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
			if meta.IsNoMatchError(err) {
				continue
			}
			return fmt.Errorf("listing %T: %w", list, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			objects++
			if !controllerutil.ContainsFinalizer(obj, naming.Finalizer) {
				return nil
			}
			// The patch replaces the list of finalizers. The resource version
			// prevents it from removing one that was added in the meantime.
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				before := obj.DeepCopyObject().(client.Object)
				controllerutil.RemoveFinalizer(obj, naming.Finalizer)
				err := c.Patch(ctx, obj, apply.IfUnchanged(before))
				if apierrors.IsConflict(err) {
					if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
						return err
					}
				}
				return err
			})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("releasing %s: %w", client.ObjectKeyFromObject(obj), err)
			}
			released++
			fmt.Fprintf(out, "released %s\n", client.ObjectKeyFromObject(obj))
			return nil
		})
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "released %d of %d objects: the others have no finalizer of the operator\n", released, objects)
	return nil
}

// ReleaseIfDeleted releases the objects of a manager whose namespace is being deleted, in
// the given namespaces, or in all. The API server deletes the pods of a namespace before
// its service accounts, so a manager can call it when it ends.
func ReleaseIfDeleted(ctx context.Context, c client.Client, namespace string, kinds []client.ObjectList, out io.Writer, namespaces ...string) error {
	// The answer needs no permission that the manager does not have anyway.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: naming.ManagedBy}}
	if err := c.Create(ctx, lease, client.DryRunAll); !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return Release(ctx, c, Manager{}, kinds, out, namespaces...)
}

// halt stops the manager, and reports whether objects may be released.
func halt(ctx context.Context, c client.Client, mgr Manager, out io.Writer) (bool, error) {
	d := &appsv1.Deployment{}
	switch err := c.Get(ctx, mgr.ObjectKey, d); {
	case apierrors.IsNotFound(err) && mgr.Hook != "":
		fmt.Fprintf(out, "Deployment %s does not exist\n", mgr)
		return true, nil
	case apierrors.IsNotFound(err):
		return false, fmt.Errorf("there is no Deployment %s to stop: set --manager-namespace and --manager-deployment, or --manager-deployment= if the operator does not run", mgr)
	case err != nil:
		return false, fmt.Errorf("reading Deployment %s: %w", mgr, err)
	}
	if mgr.Hook != "" {
		byHelm, err := runByHelm(ctx, c, mgr.Hook, d)
		if err != nil {
			return false, err
		}
		if !byHelm {
			fmt.Fprintf(out, "Helm does not uninstall Deployment %s: nothing is stopped or released. Before you delete the operator, run platform-operator release\n", mgr)
			return false, nil
		}
	}
	if err := stop(ctx, c, d); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "stopped Deployment %s\n", mgr)
	return true, nil
}

// runByHelm reports whether Helm has installed the Deployment and created the Job of the hook.
// Rendered manifests that kubectl applies over an installation by Helm leave Helm's annotation.
func runByHelm(ctx context.Context, c client.Client, hook string, d *appsv1.Deployment) (bool, error) {
	if d.Annotations[ofHelm] == "" {
		return false, nil
	}
	job := &metav1.PartialObjectMetadata{}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	if err := c.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: hook}, job); err != nil {
		return false, fmt.Errorf("reading Job %s: %w", hook, err)
	}
	return !slices.ContainsFunc(job.ManagedFields, func(f metav1.ManagedFieldsEntry) bool { return strings.HasPrefix(f.Manager, "kubectl") }), nil
}

func stop(ctx context.Context, c client.Client, d *appsv1.Deployment) error {
	mgr := client.ObjectKeyFromObject(d)
	scale := &autoscalingv1.Scale{}
	if err := c.SubResource("scale").Patch(ctx, d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`)), client.WithSubResourceBody(scale)); err != nil {
		return fmt.Errorf("scaling Deployment %s to 0: %w", mgr, err)
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return fmt.Errorf("reading the selector of Deployment %s: %w", mgr, err)
	}
	err = wait.PollUntilContextTimeout(ctx, time.Second, 90*time.Second, true, func(ctx context.Context) (bool, error) {
		pods := &corev1.PodList{}
		err := c.List(ctx, pods, client.InNamespace(mgr.Namespace), client.MatchingLabelsSelector{Selector: selector})
		return len(pods.Items) == 0, err
	})
	if err != nil {
		return fmt.Errorf("waiting for the pods of Deployment %s to go: %w", mgr, err)
	}
	return nil
}
