//go:build envtest

package immortalcontainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/crash"
)

// TestCrash kills the operator at each of its writes. The compared
// state includes startTimes, which must count each pod once, no matter where a
// crash occurs.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := crash.Kind{KindUnderTest: specimen()}
	edit := func(name string, change func(*immortalv1alpha1.ImmortalContainerSpec)) crash.Scenario {
		return s.Editing(name, func(o converge.Object) { change(&o.(*immortalv1alpha1.ImmortalContainer).Spec) })
	}
	resume := edit("resume", func(s *immortalv1alpha1.ImmortalContainerSpec) { s.Suspend = false })
	resume.Prepare = s.Prepared(func(o converge.Object) { o.(*immortalv1alpha1.ImmortalContainer).Spec.Suspend = true })
	crash.Test(t, env, s, append(crash.InCampaign(
		s.Recreating(), resume,
		edit("suspend", func(s *immortalv1alpha1.ImmortalContainerSpec) { s.Suspend = true }),
		crash.Scenario{
			Name: "paused", Prepare: s.Prepared(nil),
			Act: func(ctx context.Context, w crash.World) error {
				i := immortal(w.Namespace, "web")
				return w.Edit(ctx, "web", i, func() { i.Spec.Paused, i.Spec.Args = true, []string{"-v"} })
			},
			Converged: func(ctx context.Context, w crash.World) (bool, error) {
				i := immortal(w.Namespace, "web")
				if err := w.Get(ctx, "web", i); err != nil {
					return false, err
				}
				c := meta.FindStatusCondition(i.Status.Conditions, common.ConditionReady)
				return c != nil && c.ObservedGeneration == i.Generation && c.Reason == common.ReasonPaused, nil
			},
		},
	),
		s.Creating(), s.Orphaning(), s.Losing(s.Children("web")[0]), s.Editing("edit", s.Edit),
		crash.Scenario{
			Name: "evict", Prepare: s.Prepared(nil), Converged: s.Ready,
			Act: func(ctx context.Context, w crash.World) error {
				p := &corev1.Pod{}
				if err := w.Get(ctx, "web-immortalpod", p); err != nil {
					return err
				}
				return finish(ctx, p, corev1.PodFailed, "Evicted")
			},
		},
		edit("replace-pod", func(s *immortalv1alpha1.ImmortalContainerSpec) { s.Args = []string{"-v"} }),
	)...)
}

// serves returns an error if the pod does not match the spec of an
// ImmortalContainer.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	i := parent.(*immortalv1alpha1.ImmortalContainer)
	p := &corev1.Pod{}
	key := client.ObjectKey{Namespace: i.Namespace, Name: i.Name + "-immortalpod"}
	n := &networkingv1.NetworkPolicy{}
	switch err := r.Get(ctx, key, n); {
	case client.IgnoreNotFound(err) != nil:
		return err
	case apierrors.IsNotFound(err) == (i.Spec.NetworkPolicy != nil):
		return fmt.Errorf("got NetworkPolicy %t, want %t", err == nil, i.Spec.NetworkPolicy != nil)
	}
	switch err := r.Get(ctx, key, p); {
	case i.Spec.Suspend && apierrors.IsNotFound(err), i.Spec.Paused && err == nil:
		return nil
	case err != nil:
		return err
	}
	switch {
	case i.Spec.Suspend:
		return errors.New("a pod runs though it is suspended")
	case !slices.Equal(p.Spec.Containers[0].Args, i.Spec.Args):
		return fmt.Errorf("the pod has args %q", p.Spec.Containers[0].Args)
	case !testkit.IsChild(p, i):
		return errors.New("the pod is not its own")
	case p.DeletionTimestamp != nil, p.Status.Phase != corev1.PodRunning:
		return fmt.Errorf("the pod is %s", p.Status.Phase)
	case p.Spec.Containers[0].Image != i.Spec.Image:
		return fmt.Errorf("the pod has image %s", p.Spec.Containers[0].Image)
	}
	return nil
}
