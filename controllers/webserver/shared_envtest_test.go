//go:build envtest

package webserver

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// rollouts records how many Deployments of a namespace were rolled out at once
// because of a shared change.
type rollouts struct {
	mu      sync.Mutex
	current map[string]bool
	most    int
	begun   map[string]string // the last shared rollout of each Deployment
	down    []string          // Deployments that had no available pod at some time
}

func watchRollouts(l *testkit.Sandbox) *rollouts {
	r := &rollouts{current: map[string]bool{}, begun: map[string]string{}}
	w, err := l.Admin.Watch(context.WithoutCancel(l.Context()), &appsv1.DeploymentList{}, client.InNamespace(l.Namespace))
	if err != nil {
		l.Fatal(err)
	}
	l.Cleanup(w.Stop)
	go func() {
		for ev := range w.ResultChan() {
			d, ok := ev.Object.(*appsv1.Deployment)
			if !ok {
				continue
			}
			hash := d.Annotations[naming.AnnotationSharedRollout]
			r.mu.Lock()
			if hash != "" {
				r.begun[d.Name] = hash
			}
			if hash != "" && (!resources.Complete(d) || d.Spec.Template.Annotations[naming.AnnotationTemplate] != hash) {
				r.current[d.Name] = true
			} else {
				delete(r.current, d.Name)
			}
			r.most = max(r.most, len(r.current))
			if d.Status.AvailableReplicas == 0 {
				r.down = append(r.down, d.Name)
			}
			r.mu.Unlock()
		}
	}()
	return r
}

func (r *rollouts) counts() (most, current, begun int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.most, len(r.current), len(r.begun)
}

func TestWebServer_LimitsRolloutsOfASharedConfigMap(t *testing.T) {
	t.Parallel()
	platform := sideBySide()
	objects, limit := 30, 3
	if n, err := strconv.Atoi(os.Getenv("SHARED_OBJECTS")); err == nil {
		objects, limit = n, int(platform.SharedRollouts)
	}
	platform.SharedRollouts = int32(limit) //nolint:gosec // a few
	l := env.NewSandbox(t, subjectWith(platform))
	pages := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "pages"}, Data: map[string]string{"index.html": "one"}}
	l.Create(pages)
	name := func(i int) string { return fmt.Sprintf("web%d", i) }
	for i := range objects {
		l.Create(webServer(l.Namespace, name(i), func(w *webserverv1.WebServer) {
			w.Spec.Content = &webserverv1.ContentSource{ConfigMapRef: &webserverv1.ConfigMapReference{Name: "pages"}}
		}))
	}
	l.Start()
	// A wait has a limit of time, which is meant for a hundred objects.
	eventually := func(what string, ok func(context.Context) (bool, error)) {
		t.Helper()
		for range objects / 100 {
			if testkit.Eventually(t.Context(), what, ok) == nil {
				return
			}
		}
		l.Eventually(what, ok)
	}
	ready := func(what string) {
		t.Helper()
		eventually(what, func(ctx context.Context) (bool, error) {
			var all webserverv1.WebServerList
			err := l.Admin.List(ctx, &all, client.InNamespace(l.Namespace))
			for i := range all.Items {
				if !meta.IsStatusConditionTrue(all.Items[i].Status.Conditions, common.ConditionReady) {
					return false, err
				}
			}
			return err == nil, err
		})
	}
	ready("all objects to be Ready")
	l.Requests()
	r := watchRollouts(l)

	change := func(data map[string]string) { l.Edit(pages, "pages", func() { pages.Data = data }) }
	change(map[string]string{"index.html": "two"})
	eventually("all objects to be rolled out", func(context.Context) (bool, error) {
		_, current, begun := r.counts()
		return begun == objects && current == 0, nil
	})
	ready("all objects to be Ready with the new content")
	l.Requests()
	if most, _, _ := r.counts(); most > limit {
		t.Errorf("%d objects were rolled out at once, at most %d may be", most, limit)
	}

	change(map[string]string{"index.html": "three", "crash": "yes"})
	held := func() (held, failed int) {
		t.Helper()
		var all webserverv1.WebServerList
		if err := l.Admin.List(t.Context(), &all, client.InNamespace(l.Namespace)); err != nil {
			t.Fatal(err)
		}
		for _, w := range all.Items {
			switch c := meta.FindStatusCondition(w.Status.Conditions, common.ConditionReady); {
			case c != nil && c.Reason == common.ReasonRolloutHeld:
				held++
			case c != nil && c.Reason == common.ReasonRolledBack:
				failed++
			}
		}
		return held, failed
	}
	eventually("all other objects to be held", func(context.Context) (bool, error) {
		if h, f := held(); h != objects-limit || f != limit {
			return false, fmt.Errorf("%d are held, and %d failed", h, f)
		}
		return true, nil
	})
	l.Restart()
	l.Requests() // the slots are still taken
	if h, f := held(); h != objects-limit || f != limit {
		t.Errorf("after a restart %d objects are held, and %d failed", h, f)
	}

	// A user's change of a held object is rolled out.
	web := &webserverv1.WebServer{}
	for i := range objects {
		l.Get(web, name(i))
		if c := meta.FindStatusCondition(web.Status.Conditions, common.ConditionReady); c.Reason == common.ReasonRolloutHeld {
			break
		}
	}
	l.Edit(web, web.Name, func() {
		web.Spec.Content = nil
		web.Spec.Image = "nginx:1.23.0"
	})
	l.Ready(web, web.Name)

	var all appsv1.ControllerRevisionList
	if err := l.Admin.List(t.Context(), &all, client.InNamespace(l.Namespace)); err != nil {
		t.Fatal(err)
	}
	// Two revisions of each, one more of each that failed, and that of the user's change.
	if got, want := len(all.Items), 2*objects+limit+1; got != want {
		t.Errorf("there are %d revisions, want %d: objects that are held have none of the bad content", got, want)
	}
	change(map[string]string{"index.html": "four"})
	ready("all objects to be Ready after the correction")
	most, _, _ := r.counts()
	if most > limit {
		t.Errorf("%d objects were rolled out at once, at most %d may be", most, limit)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.down) > 0 {
		t.Errorf("Deployments without an available pod: %v", r.down)
	}
	t.Logf("%d objects, at most %d of which were rolled out at once", objects, most)
}
