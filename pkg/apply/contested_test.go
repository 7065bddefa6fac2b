package apply

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// webhooks are changes that the next apply would not undo.
var webhooks = map[string]func(*appsv1.Deployment){
	"changes a value": func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) },
	"adds a value": func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	},
	"replaces an element": func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "sidecar"}}
	},
}

// mutateBy makes a webhook change each Deployment that is written.
func (w *world) mutateBy(change func(*appsv1.Deployment)) {
	w.mutate = func(o client.Object) { change(o.(*appsv1.Deployment)) }
}

// countReads returns the number of uncached reads from now on.
func (w *world) countReads() *int {
	n := new(int)
	w.applier.live = interceptor.NewClient(w.server, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			*n++
			return c.Get(ctx, key, o, opts...)
		},
	})
	return n
}

func TestApplier_RequestsNothingForContestedChildrenAfterARestart(t *testing.T) {
	const children = 20
	for name, webhook := range webhooks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mutateBy(webhook)
			all := func() {
				t.Helper()
				for i := range children {
					w.pass(deployment(func(d *appsv1ac.DeploymentApplyConfiguration) { d.WithName(fmt.Sprintf("web-%d", i)) }))
				}
			}
			all()
			diff(t, "counted", children, w.contested)
			w.writes = nil

			w.restart()
			reads := w.countReads()
			all()
			diff(t, "writes", 0, len(w.writes))
			diff(t, "reads", 0, *reads)
		})
	}
}

func TestApplier_RepairsWhatDiffersFromTheContestedState(t *testing.T) {
	for name, webhook := range webhooks {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mutateBy(webhook)
			w.pass(deployment())
			contested := stored(w, "web", &appsv1.Deployment{})

			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
				d.Spec.Replicas = new(int32(7))
				d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "B", Value: "1"}}
			})
			w.restart()
			w.writes = nil
			diff(t, "action", Changed, w.pass(deployment()).Action)
			if len(w.writes) == 0 || w.writes[len(w.writes)-1] != "apply" {
				t.Errorf("sent %q, want an apply, and no note because the note is right", w.writes)
			}
			diff(t, "spec", contested.Spec, stored(w, "web", &appsv1.Deployment{}).Spec)
			w.writes = nil
			w.pass(deployment())
			w.wrote()
		})
	}
}

func TestApplier_RemovesTheNoteOnceTheWebhookIsRemoved(t *testing.T) {
	w := newWorld(t)
	w.mutateBy(webhooks["changes a value"])
	w.pass(deployment())
	w.wrote("apply", "note")
	if stored(w, "web", &appsv1.Deployment{}).Annotations[naming.AnnotationContested] == "" {
		t.Error("the child has no note")
	}

	w.mutate = nil
	w.pass(deployment(replicas(3)))
	w.wrote("apply", "note")
	if note, ok := stored(w, "web", &appsv1.Deployment{}).Annotations[naming.AnnotationContested]; ok {
		t.Errorf("the child has the note %q", note)
	}
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(9)) })
	w.pass(deployment(replicas(3)))
	w.wrote("apply")
}

// A note of one intent says nothing about another one.
func TestApplier_DoesNotApplyTheNoteToAnotherIntent(t *testing.T) {
	w := newWorld(t)
	w.mutateBy(webhooks["changes a value"])
	w.pass(deployment())
	w.wrote("apply", "note")
	w.restart()
	w.pass(deployment(replicas(3)))
	w.wrote("apply", "note")
}

func TestApplier_DoesNotDependOnTheNote(t *testing.T) {
	for name, prepare := range map[string]func(*world){
		"refused": func(w *world) {
			w.refuse = func(verb string, _ int) error {
				if verb == "note" {
					return errors.New("refused")
				}
				return nil
			}
			w.mutateBy(webhooks["changes a value"])
		},
		"a webhook that never does the same": func(w *world) {
			n := int32(9)
			w.mutateBy(func(d *appsv1.Deployment) { n++; d.Spec.Replicas = &n })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			prepare(w)
			w.pass(deployment())
			w.wrote("apply", "note")
			for range 3 {
				diff(t, "action", Unchanged, w.pass(deployment()).Action)
			}
			w.wrote()
		})
	}
}

func TestApplier_WritesNoNoteOnceTheReconcileIsTooOld(t *testing.T) {
	w := newWorld(t)
	w.mutateBy(webhooks["changes a value"])
	o := owner()
	o.Elapsed = func() time.Duration { return time.Duration(len(w.writes)) * (maxAge + 1) }
	if _, err := w.applier.Apply(t.Context(), o, deployment()); err != nil {
		t.Fatal(err)
	}
	w.wrote("apply")
}
