package operator

import (
	"context"
	"fmt"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Release stops the manager and removes the operator's finalizer from every
// object, so that all objects can be deleted without the operator. The manager
// is stopped first, because it would restore the finalizers. A Deployment that
// does not exist counts as stopped, and a kind whose CRD does not exist as
// having no objects. If mgr has no name, no manager is stopped.
func Release(ctx context.Context, c client.Client, mgr client.ObjectKey, kinds []client.ObjectList, out io.Writer) error {
	if mgr.Name != "" {
		if err := stop(ctx, c, mgr); err != nil {
			return err
		}
		fmt.Fprintf(out, "stopped Deployment %s\n", mgr)
	}
	for _, list := range kinds {
		if err := c.List(ctx, list); err != nil {
			if meta.IsNoMatchError(err) {
				continue
			}
			return fmt.Errorf("listing %T: %w", list, err)
		}
		err := meta.EachListItem(list, func(o runtime.Object) error {
			obj := o.(client.Object)
			if !controllerutil.ContainsFinalizer(obj, naming.Finalizer) {
				return nil
			}
			// The patch replaces the list of finalizers. The resource version
			// prevents it from removing one that was added in the meantime.
			err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
				before := obj.DeepCopyObject().(client.Object)
				controllerutil.RemoveFinalizer(obj, naming.Finalizer)
				err := c.Patch(ctx, obj, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
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
			fmt.Fprintf(out, "released %s\n", client.ObjectKeyFromObject(obj))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func stop(ctx context.Context, c client.Client, mgr client.ObjectKey) error {
	d := &appsv1.Deployment{}
	if err := c.Get(ctx, mgr, d); err != nil {
		if client.IgnoreNotFound(err) == nil {
			return nil
		}
		return fmt.Errorf("reading Deployment %s: %w", mgr, err)
	}
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
