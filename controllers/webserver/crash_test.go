//go:build envtest

package webserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/pkg/testkit/crash"
)

// TestCrash kills the operator at each of its writes.
func TestCrash(t *testing.T) {
	t.Parallel()
	s := crash.Kind{KindUnderTest: specimen()}
	edit := func(name string, change func(*webserverv1.WebServerSpec)) crash.Scenario {
		return s.Editing(name, func(o converge.Object) { change(&o.(*webserverv1.WebServer).Spec) })
	}
	from := func(name string, prepare, change func(*webserverv1.WebServerSpec)) crash.Scenario {
		c := edit(name, change)
		c.Prepare = s.Prepared(func(o converge.Object) { prepare(&o.(*webserverv1.WebServer).Spec) })
		return c
	}
	saying := func(text string) func(*webserverv1.WebServerSpec) {
		return func(s *webserverv1.WebServerSpec) { s.Config = &webserverv1.ConfigSource{Inline: text} }
	}
	autoscaled := func(s *webserverv1.WebServerSpec) {
		s.Replicas = nil
		s.Autoscaling = &common.Autoscaling{MinReplicas: new(int32(2)), MaxReplicas: 5, TargetCPUUtilizationPercentage: new(int32(70))}
		s.Resources = &common.Resources{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}}
	}
	open := func(s *webserverv1.WebServerSpec) {
		s.Expose = &common.Expose{Type: common.ExposeIngress, Hosts: []string{"shop.example.com"}}
		s.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
	}
	furnished := func(s *webserverv1.WebServerSpec) {
		autoscaled(s)
		open(s)
	}
	failing := from("failing-image", saying("return 201;"), func(s *webserverv1.WebServerSpec) {
		s.Image = "nginx:bad"
		saying("return 202;")(s)
	})
	failing.Converged = is(common.ReasonRolledBack, "nginx:1.23.1")
	held := from("held", saying("return 201;"), func(s *webserverv1.WebServerSpec) {
		s.Image, s.Paused = "nginx:1.23.0", true
		saying("return 202;")(s)
	})
	held.Converged = is(common.ReasonPaused, "nginx:1.23.1")
	canary := from("canary", saying("return 201;"), func(s *webserverv1.WebServerSpec) {
		s.Image, s.Rollout = "nginx:1.23.0", &common.Rollout{Canary: &common.Canary{Promote: common.PromoteManual}}
	})
	canary.Converged = isCanary
	keptOnce := from("change-config-kept-once", func(s *webserverv1.WebServerSpec) {
		saying("return 201;")(s)
		s.Rollout = &common.Rollout{RevisionHistoryLimit: new(int32(0))}
	}, saying("return 202;"))
	keptOnce.Converged = func(ctx context.Context, w crash.World) (bool, error) {
		if ready, err := s.Ready(ctx, w); err != nil || !ready {
			return false, err
		}
		// The old revision goes in the reconcile after the one that reports Ready.
		revisions := &appsv1.ControllerRevisionList{}
		err := w.Client.List(ctx, revisions, client.InNamespace(w.Namespace))
		return len(revisions.Items) == 1, err
	}
	var lose []crash.Scenario
	for _, child := range s.Children("web")[:2] { // the others are lost like the Service
		lose = append(lose, s.Losing(child))
	}
	crash.Test(t, env, s, append(crash.InCampaign(append(lose,
		s.Recreating(), s.SwitchingToOrphan(),
		edit("scale-to-0", func(s *webserverv1.WebServerSpec) { s.Replicas = new(int32(0)) }),
		keptOnce, canary,
		edit("autoscale", autoscaled),
		edit("expose", open),
		edit("http3", func(s *webserverv1.WebServerSpec) {
			s.TLS = &webserverv1.TLS{SecretRef: webserverv1.SecretReference{Name: "web-tls"}, HTTP3: true}
		}),
		held,
	)...),
		s.Creating(), s.Orphaning(),
		edit("change-all", func(s *webserverv1.WebServerSpec) {
			s.Image, s.Replicas = "nginx:1.23.0", new(int32(4))
			s.Service = &webserverv1.ServiceSpec{Port: new(int32(8080))}
		}),
		followed(s),
		from("change-kept-content", publishing("v1"), publishing("v2")),
		from("furnish-no-more", furnished, func(s *webserverv1.WebServerSpec) { s.Autoscaling, s.Expose, s.NetworkPolicy = nil, nil, nil }),
		failing,
	)...)
}

// publishing sets a content that is kept for later ones.
func publishing(page string) func(*webserverv1.WebServerSpec) {
	return func(s *webserverv1.WebServerSpec) {
		s.Content = &webserverv1.ContentSource{
			Files: map[string]webserverv1.FileText{"index.html": webserverv1.FileText(page)},
			Keep:  &webserverv1.Keep{Revisions: 2, Paths: []webserverv1.KeptPath{"/assets/"}},
		}
	}
}

// is waits until Ready is False for that reason, and that image serves.
func is(reason, image string) func(context.Context, crash.World) (bool, error) {
	return func(ctx context.Context, world crash.World) (bool, error) {
		w, d := &webserverv1.WebServer{}, &appsv1.Deployment{}
		if err := errors.Join(world.Get(ctx, "web", w), world.Get(ctx, "web", d)); err != nil {
			return false, err
		}
		c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady)
		if c == nil || c.Reason != reason || c.ObservedGeneration != w.Generation {
			return false, nil
		}
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image || !resources.Complete(d) {
			return false, fmt.Errorf("it says %s, and has image %s", reason, got)
		}
		// The replica counts may be updated later than the conditions.
		return w.Status.Replicas == d.Status.Replicas && w.Status.UpdatedReplicas == d.Status.UpdatedReplicas, nil
	}
}

// isCanary waits until the Deployment holds the pods of another image.
func isCanary(ctx context.Context, world crash.World) (bool, error) {
	w, d := &webserverv1.WebServer{}, &appsv1.Deployment{}
	if err := errors.Join(world.Get(ctx, "web", w), world.Get(ctx, "web", d)); err != nil {
		return false, err
	}
	if d.Spec.Template.Spec.Containers[0].Image != w.Spec.Image || w.Status.Canary == nil || w.Status.ObservedGeneration != w.Generation {
		return false, nil
	}
	if d.Spec.MinReadySeconds < math.MaxInt32-1 {
		return false, errors.New("the pods are not held")
	}
	return w.Status.Replicas == d.Status.Replicas && w.Status.UpdatedReplicas == d.Status.UpdatedReplicas, nil
}

// followed is the scenario of a changed ConfigMap.
func followed(s crash.Kind) crash.Scenario {
	cfg := func() *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "cfg"}, Data: map[string]string{"server.conf": "return 201;"}}
	}
	prepared := s.Prepared(func(o converge.Object) {
		o.(*webserverv1.WebServer).Spec.Config = &webserverv1.ConfigSource{ConfigMapRef: &webserverv1.ConfigMapKeyReference{Name: "cfg"}}
	})
	return crash.Scenario{
		Name: "change-configmap",
		Prepare: func(ctx context.Context, w crash.World) error {
			if err := w.Create(ctx, cfg()); err != nil {
				return err
			}
			return prepared(ctx, w)
		},
		Act: func(ctx context.Context, w crash.World) error {
			c := cfg()
			return w.Edit(ctx, "cfg", c, func() { c.Data["server.conf"] = "return 202;" })
		},
		Converged: func(ctx context.Context, w crash.World) (bool, error) {
			d := &appsv1.Deployment{}
			if err := w.Get(ctx, "web", d); err != nil {
				return false, err
			}
			for _, v := range d.Spec.Template.Spec.Volumes {
				if v.Name != "config" {
					continue
				}
				c := &corev1.ConfigMap{}
				if err := w.Get(ctx, v.ConfigMap.Name, c); err != nil || c.Data["server.snippet"] != "return 202;" {
					return false, err
				}
				return s.Ready(ctx, w)
			}
			return false, errors.New("no configuration is mounted")
		},
	}
}

// serves returns an error if the children do not match the spec of a WebServer. It
// is written from the API documentation, independently of the controller.
func serves(ctx context.Context, r client.Reader, parent client.Object) error {
	w := parent.(*webserverv1.WebServer)
	d, s := &appsv1.Deployment{}, &corev1.Service{}
	if err := errors.Join(
		r.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, d),
		r.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name + "-service"}, s),
	); err != nil {
		return err
	}
	want, least := int32(1), int32(1)
	if w.Spec.Replicas != nil {
		want, least = *w.Spec.Replicas, *w.Spec.Replicas
	}
	if as := w.Spec.Autoscaling; as != nil {
		want, least = *d.Spec.Replicas, *as.MinReplicas // all tests that autoscale set minReplicas
		if want == 0 {
			return errors.New("the Deployment is left at no replicas, where an autoscaler does nothing")
		}
	}
	port := int32(80)
	if sv := w.Spec.Service; sv != nil && sv.Port != nil {
		port = *sv.Port
	}
	switch {
	case !testkit.IsChild(d, w), !testkit.IsChild(s, w):
		return errors.New("a child is not its own")
	case d.DeletionTimestamp != nil, s.DeletionTimestamp != nil:
		return errors.New("a child is being deleted")
	case d.Spec.Template.Spec.Containers[0].Image != w.Spec.Image:
		return fmt.Errorf("the Deployment has image %s", d.Spec.Template.Spec.Containers[0].Image)
	case *d.Spec.Replicas != want:
		return fmt.Errorf("the Deployment has %d replicas", *d.Spec.Replicas)
	case !testkit.IsObserved(d, w), d.Status.UpdatedReplicas != want, d.Status.AvailableReplicas != want:
		return errors.New("the Deployment is not rolled out")
	case s.Spec.Ports[0].Port != port:
		return fmt.Errorf("the Service has port %d", s.Spec.Ports[0].Port)
	case len(s.Spec.Ports) == 3 && s.Spec.Ports[1].NodePort != s.Spec.Ports[2].NodePort: // http3 follows https in another write
		return errors.New("HTTP/3 has not the node port of HTTPS")
	}
	for _, c := range []struct {
		child  client.Object
		wanted bool
	}{
		{&policyv1.PodDisruptionBudget{}, w.Spec.PodDisruptionBudget != nil || least > 0},
		{&autoscalingv2.HorizontalPodAutoscaler{}, w.Spec.Autoscaling != nil},
		{&networkingv1.NetworkPolicy{}, w.Spec.NetworkPolicy != nil},
		{&networkingv1.Ingress{}, w.Spec.Expose != nil},
	} {
		switch err := r.Get(ctx, client.ObjectKeyFromObject(w), c.child); {
		case !c.wanted && apierrors.IsNotFound(err):
		case err != nil:
			return err
		case !c.wanted && c.child.GetDeletionTimestamp() == nil:
			return fmt.Errorf("unwanted %T exists", c.child)
		case c.wanted && !testkit.IsChild(c.child, w):
			return fmt.Errorf("the %T is not its own", c.child)
		}
	}
	if c := w.Spec.Config; c != nil && c.Inline != "" {
		return mounts(ctx, r, d, c.Inline)
	}
	if c := w.Spec.Content; c != nil && c.Keep != nil && c.Files["index.html"] == "v2" {
		return errors.Join(mountsPage(ctx, r, d, "content", "v2"), mountsPage(ctx, r, d, "content-1", "v1"))
	}
	return nil
}

// mountsPage returns an error if a volume of the pods of a Deployment has not that page.
func mountsPage(ctx context.Context, r client.Reader, d *appsv1.Deployment, volume, page string) error {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name != volume {
			continue
		}
		c := &corev1.ConfigMap{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v.ConfigMap.Name}, c); err != nil {
			return err
		}
		if got := c.Data["index.html"]; got != page {
			return fmt.Errorf("the volume %s has the page %q", volume, got)
		}
		return nil
	}
	return fmt.Errorf("the volume %s is not mounted", volume)
}

// mounts returns an error if the pods of a Deployment do not mount that text.
func mounts(ctx context.Context, r client.Reader, d *appsv1.Deployment, text string) error {
	for _, v := range d.Spec.Template.Spec.Volumes {
		if v.Name != "config" {
			continue
		}
		c := &corev1.ConfigMap{}
		if err := r.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v.ConfigMap.Name}, c); err != nil {
			return err
		}
		if got := c.Data["server.snippet"]; got != text {
			return fmt.Errorf("the pods get the configuration %q", got)
		}
		return nil
	}
	return errors.New("no configuration is mounted")
}

// On a busy machine, the watch of pods may be behind that of Deployments. The operator
// must not know the deadline of a rollout before the crash that was minutes earlier.
func TestEnv_RolloutFailsAfterItsPodsCrashed(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	op, err := env.Run(t.Context(), subject(), slowPods, l.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(op.Cancel)
	w := webServer(l.Namespace, "web")
	l.Create(w)
	l.Ready(w, "web")
	l.Edit(w, "web", func() { w.Spec.Image = "nginx:bad" })
	l.Until("a rollback", w, "web", func() bool { return len(w.Status.LastActions) > 0 })
	if got := w.Status.LastActions[0]; got.Reason != common.ReasonCrash {
		t.Errorf("the rollback is because of %s: %s", got.Reason, got.Message)
	}
}

// slowPods delays what the watches of pods receive.
func slowPods(cfg *rest.Config) {
	testkit.Intercept(cfg, func(next http.RoundTripper, r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && path.Base(r.URL.Path) == "pods" && r.URL.Query().Get("watch") != "" {
			resp.Body = slowBody{resp.Body}
		}
		return resp, err
	})
}

type slowBody struct{ io.ReadCloser }

func (b slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(200 * time.Millisecond)
	return n, err
}
