//go:build envtest

package immortalcontainer

import (
	"context"
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// TestCrash kills the operator before and after each of its writes. That
// startTimes counts each pod once, whatever crashes, is part of the state that
// is compared.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := specimen()
	env.Crashes(t, s, testkit.Scenario{
		Name: "evict", Prepare: s.Prepared(nil), Converged: s.Ready,
		Act: func(ctx context.Context, w testkit.World) error {
			p := &corev1.Pod{}
			if err := w.Get(ctx, "web-immortalpod", p); err != nil {
				return err
			}
			return finish(ctx, p, corev1.PodFailed, "Evicted")
		},
	})
}

// serves says what of an ImmortalContainer's spec is not yet so.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	i := parent.(*immortalv1alpha1.ImmortalContainer)
	p := &corev1.Pod{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: i.Namespace, Name: i.Name + "-immortalpod"}, p); err != nil {
		return err
	}
	switch {
	case !metav1.IsControlledBy(p, i):
		return errors.New("the pod is not its own")
	case p.DeletionTimestamp != nil, p.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("the pod is %s", p.Status.Phase)
	case p.Spec.Containers[0].Image != i.Spec.Image:
		return fmt.Errorf("the pod has image %s", p.Spec.Containers[0].Image)
	}
	return nil
}
