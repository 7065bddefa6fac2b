//go:build envtest

package demoapplication

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

func scaledByLoad(a *demoapplicationv1.DemoApplication) {
	a.Spec.Replica = nil
	a.Spec.Resources = &common.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	a.Spec.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 9, TargetCPUUtilizationPercentage: new(int32(70))}
}

func TestDemoApplication_HandsReplicasToTheAutoscalerAndBack(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a, d := application(l.Namespace, "web", func(a *demoapplicationv1.DemoApplication) { a.Spec.Replica = new(int32(4)) }), &appsv1.Deployment{}
	l.Create(a)
	l.Ready(a, "web")
	l.Edit(a, "web", func() { scaledByLoad(a) })
	l.Until("an autoscaler", &autoscalingv2.HorizontalPodAutoscaler{}, "web", func() bool { return true })
	l.Until("the number to be the autoscaler's", d, "web", func() bool { return d.Annotations[naming.AnnotationScaledBy] != "" })
	l.Ready(a, "web")
	l.Get(d, "web")
	if *d.Spec.Replicas != 4 {
		t.Errorf("%d replicas: it dipped", *d.Spec.Replicas)
	}
	// The autoscaler does the same.
	l.Edit(d, "web", func() { d.Spec.Replicas = new(int32(7)) })
	l.Until("7 pods to be told", a, "web", func() bool {
		return a.Status.Replicas == 7 && meta.IsStatusConditionTrue(a.Status.Conditions, common.ConditionReady)
	})
	l.Get(d, "web")
	if *d.Spec.Replicas != 7 {
		t.Errorf("%d replicas: what the autoscaler did is undone", *d.Spec.Replicas)
	}
	// An autoscaler does not scale a Deployment with 0 replicas.
	l.Edit(d, "web", func() { d.Spec.Replicas = new(int32(0)) })
	l.Until("the minimum", d, "web", func() bool { return *d.Spec.Replicas == 2 && d.Annotations[naming.AnnotationScaledBy] != "" })
	l.Ready(a, "web")
	l.Edit(a, "web", func() { a.Spec.Autoscaling = nil })
	l.Gone(&autoscalingv2.HorizontalPodAutoscaler{}, "web")
	l.Until("1 replica", d, "web", func() bool { return *d.Spec.Replicas == 1 })
	l.Ready(a, "web")
}

func TestDemoApplication_Exposed(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a := application(l.Namespace, "web", func(a *demoapplicationv1.DemoApplication) {
		a.Spec.Expose = &common.Expose{Type: common.ExposeIngress, Hosts: []string{"shop.example.com"}}
	})
	l.Create(a)
	l.Ready(a, "web")
	l.Until("the host to be told", a, "web", func() bool {
		return len(a.Status.Addresses) > 0 && a.Status.Addresses[0].URL == "http://shop.example.com"
	})
	exposed := func(status metav1.ConditionStatus, reason string) func() bool {
		return func() bool {
			c := meta.FindStatusCondition(a.Status.Conditions, common.ConditionExposed)
			return c != nil && c.Status == status && c.Reason == reason
		}
	}
	l.Until("Exposed to be False while the Ingress has no address", a, "web", exposed(metav1.ConditionFalse, common.ReasonWaiting))
	i := &networkingv1.Ingress{}
	l.Get(i, "web")
	before := i.DeepCopy()
	i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: "192.0.2.1"}}
	if err := env.Admin.Status().Patch(t.Context(), i, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.Until("Exposed to be True once the Ingress has an address", a, "web", exposed(metav1.ConditionTrue, common.ReasonAccepted))

	// This cluster does not serve the Gateway API: the Ingress stays, because no Gateway
	// accepts a route, and the reason why there is no HTTPRoute is reported.
	l.Edit(a, "web", func() {
		a.Spec.Expose = &common.Expose{Type: common.ExposeGateway, Hosts: []string{"shop.example.com"}, Gateway: &common.ExposeGatewayOptions{ParentRef: common.GatewayReference{Name: "g"}}}
	})
	l.Stalled(a, "web", common.ReasonFeatureUnavailable)
	l.Get(i, "web")
	l.Edit(a, "web", func() { a.Spec.Expose = nil })
	l.Gone(i, "web")
	l.Ready(a, "web")
	if meta.FindStatusCondition(a.Status.Conditions, common.ConditionExposed) != nil {
		t.Error("the condition stays")
	}
}

func TestDemoApplication_WritesNoChildWhilePaused(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a := application(l.Namespace, "web")
	l.Create(a)
	l.Ready(a, "web")
	l.Requests()
	l.Edit(a, "web", func() {
		a.Spec.Paused, a.Spec.Image = true, "nginx:1.23.0"
		a.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
	})
	l.Until("that it is paused", a, "web", func() bool {
		c := meta.FindStatusCondition(a.Status.Conditions, common.ConditionReady)
		return c != nil && c.Reason == common.ReasonPaused && c.ObservedGeneration == a.Generation
	})
	for _, r := range l.Requests() {
		if r.IsWrite() && r.Resource != "demoapplications/status" {
			t.Errorf("%s", r)
		}
	}
	l.Edit(a, "web", func() { a.Spec.Paused = false })
	l.Ready(a, "web")
	l.Get(&networkingv1.NetworkPolicy{}, "web")
}

func TestDemoApplication_RollsBackAFailingImage(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a, d := application(l.Namespace, "web"), &appsv1.Deployment{}
	l.Create(a)
	l.Ready(a, "web")
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:bad" })
	if m := l.Stalled(a, "web", common.ReasonRolloutFailed); !strings.Contains(m, "Revision 1 is serving instead.") && !strings.Contains(m, "Change the spec") {
		t.Errorf("message %q", m)
	}
	l.Until("the image before", d, "web", func() bool { return d.Spec.Template.Spec.Containers[0].Image == "nginx:1.23.1" })
	l.Until("that it is rolled back", a, "web", func() bool {
		c := meta.FindStatusCondition(a.Status.Conditions, common.ConditionReady)
		return c != nil && c.Reason == common.ReasonRolledBack
	})
	if len(a.Status.LastActions) != 1 || a.Status.LastActions[0].Type != common.ActionRollback || a.Status.Image != "nginx:1.23.1" {
		t.Errorf("actions %+v, image %s", a.Status.LastActions, a.Status.Image)
	}
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:1.23.2" })
	l.Ready(a, "web")
}

// configured is an application that follows a ConfigMap, which is not created.
func configured(ns string) *demoapplicationv1.DemoApplication {
	return application(ns, "web", func(a *demoapplicationv1.DemoApplication) {
		a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{RestartOnConfigChange: new(true)}}
		a.Spec.EnvFrom = []common.EnvFromSource{{ConfigMapRef: &common.OptionalReference{Name: "app"}}}
	})
}

func TestDemoApplication_SnapshotsReferencedConfigMaps(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a, d := configured(l.Namespace), &appsv1.Deployment{}
	l.Create(a)
	if m := l.Stalled(a, "web", common.ReasonReferenceNotFound); !strings.Contains(m, `ConfigMap "app" (spec.envFrom[0]) does not exist`) {
		t.Errorf("message %q", m)
	}
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "app"}, Data: map[string]string{"mode": "one"}}
	l.Create(source)
	l.Ready(a, "web")
	content := func() string {
		t.Helper()
		l.Get(d, "web")
		c := &corev1.ConfigMap{}
		l.Get(c, d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name)
		if c.Name == "app" || c.Immutable == nil || !*c.Immutable {
			t.Errorf("the pods read ConfigMap %s, immutable %v", c.Name, c.Immutable)
		}
		return c.Data["mode"]
	}
	if got := content(); got != "one" {
		t.Errorf("mode %q", got)
	}
	l.Requests()
	l.Restart()
	l.Expect("restart: what is in a source is known by its copy")

	l.Edit(source, "app", func() { source.Data["mode"] = "two" })
	l.Until("the other content", a, "web", func() bool {
		return a.Status.Revisions.LastHealthy == 2 && meta.IsStatusConditionTrue(a.Status.Conditions, common.ConditionReady)
	})
	if got := content(); got != "two" {
		t.Errorf("mode %q", got)
	}
	// The earlier revision has its original content.
	l.Edit(a, "web", func() { a.Spec.Rollout.PinnedRevision = new(int64(1)) })
	l.Until("revision 1 to serve", a, "web", func() bool {
		return a.Status.Revisions.Current == 1 && meta.IsStatusConditionTrue(a.Status.Conditions, common.ConditionReady)
	})
	if got := content(); got != "one" {
		t.Errorf("mode of revision 1 %q", got)
	}
	// Deleting the source does not affect the serving pods.
	l.Edit(a, "web", func() { a.Spec.Rollout.PinnedRevision = nil })
	l.Ready(a, "web")
	if err := env.Admin.Delete(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	l.Stalled(a, "web", common.ReasonReferenceNotFound)
	if got := content(); got != "two" {
		t.Errorf("mode %q without the source", got)
	}
	// When no snapshots are needed any more, they are deleted together with their
	// revisions.
	l.Edit(a, "web", func() {
		a.Spec.Rollout = &demoapplicationv1.Rollout{Rollout: common.Rollout{RevisionHistoryLimit: new(int32(0))}}
		a.Spec.EnvFrom[0].ConfigMapRef.Optional = new(true)
	})
	l.Ready(a, "web")
	l.Eventually("the copies to go", func(ctx context.Context) (bool, error) {
		var all corev1.ConfigMapList
		err := env.Admin.List(ctx, &all, client.InNamespace(l.Namespace))
		return err == nil && !slices.ContainsFunc(all.Items, func(c corev1.ConfigMap) bool { return strings.HasPrefix(c.Name, "web-") }), err
	})
}

// An object whose spec cannot be resolved can still be deleted, and can orphan its
// children.
func TestDemoApplication_OrphansWithoutItsConfigMap(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	source := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "app"}, Data: map[string]string{"mode": "one"}}
	l.Create(source)
	a, d := configured(l.Namespace), &appsv1.Deployment{}
	a.Spec.DeletionPolicy = common.DeletionPolicyOrphan
	a.Finalizers = []string{naming.Finalizer}
	l.Create(a)
	l.Ready(a, "web")
	if err := env.Admin.Delete(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	l.Stalled(a, "web", common.ReasonReferenceNotFound)
	if err := env.Admin.Delete(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	l.Gone(a, "web")
	l.Get(d, "web")
	c := &corev1.ConfigMap{}
	l.Get(c, d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name)
	if len(d.OwnerReferences)+len(c.OwnerReferences) != 0 {
		t.Errorf("owners %v and %v", d.OwnerReferences, c.OwnerReferences)
	}
}

func TestDemoApplication_RestoresTheServiceSelector(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	l.Create(application(l.Namespace, "web"))
	l.Ready(&demoapplicationv1.DemoApplication{}, "web")
	s, d := &corev1.Service{}, &appsv1.Deployment{}
	l.Edit(s, "web", func() { s.Spec.Selector["nobody"] = "has-it" })
	l.Until("the third label to go", s, "web", func() bool { return len(s.Spec.Selector) == 2 })
	l.Edit(d, "web", func() {
		d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "x"}}}}
	})
	l.Until("envFrom to go", d, "web", func() bool { return len(d.Spec.Template.Spec.Containers[0].EnvFrom) == 0 })
}
