package apply

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	fielderr "k8s.io/apimachinery/pkg/util/validation/field"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

func replicas(n int32) func(*appsv1ac.DeploymentApplyConfiguration) {
	return func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.WithReplicas(n) }
}

func TestApplier_CreatesAMissingChildOnce(t *testing.T) {
	w := newWorld(t)
	c := w.pass(deployment())
	diff(t, "action", Created, c.Action)
	diff(t, "resource version that makes the server create or answer 409", onlyCreate, w.bodies[0]["metadata"].(map[string]any)["resourceVersion"].(string))
	w.wrote("apply")

	d := stored(w, "web", &appsv1.Deployment{})
	diff(t, "owner", ownReferences(), d.OwnerReferences)
	diff(t, "label", naming.ManagedBy, d.Labels[naming.LabelManagedBy])
	diff(t, "annotations", []string{naming.AnnotationApplied, naming.AnnotationOwner}, sortedKeys(d.Annotations))
	diff(t, "answer", d.Spec, c.Live.(*appsv1.Deployment).Spec)

	diff(t, "action", Unchanged, w.pass(deployment()).Action)
	w.restart() // no memory is needed to find that nothing differs
	diff(t, "action", Unchanged, w.pass(deployment()).Action)
	w.wrote()
	diff(t, "counted", []Action{Created}, w.actions)
}

func TestApplier_DoesNotRepeatWritesThatTheCacheLacks(t *testing.T) {
	t.Run("the create", func(t *testing.T) {
		w := newWorld(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "other", ResourceVersion: "1"}})
		w.pass(deployment())
		w.cache = func(client.Object) bool { return false }
		w.refuse = func(string, int) error { return conflict() } // the API server's response to resourceVersion 1
		w.wrote("apply")
		diff(t, "action", Unchanged, w.pass(deployment()).Action)
		w.wrote("apply")
	})
	t.Run("an edit, until its owner is forgotten", func(t *testing.T) {
		w := newWorld(t)
		w.pass(deployment())
		before := stored(w, "web", &appsv1.Deployment{})
		w.pass(deployment(replicas(5)))
		w.wrote("apply", "apply")
		w.applier.Forget("")
		w.applier.Forget("another")
		diff(t, "remembered", 1, w.applier.remembered())
		w.cache = func(o client.Object) bool { before.DeepCopyInto(o.(*appsv1.Deployment)); return true }
		w.retries(deployment(replicas(5)))
		w.wrote()
		w.applier.Forget(ownerUID)
		diff(t, "remembered", 0, w.applier.remembered())
	})
}

func TestApplier_RepairsDriftWithOneRequest(t *testing.T) {
	for name, tc := range map[string]struct {
		drift func(*appsv1.Deployment)
		want  []string
	}{
		"a stated field":            {func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(7)) }, []string{"apply"}},
		"our label on the template": {func(d *appsv1.Deployment) { d.Spec.Template.Labels = map[string]string{"x": "y"} }, []string{"apply"}},
		"the hash":                  {func(d *appsv1.Deployment) { d.Annotations[naming.AnnotationApplied] = "0" }, []string{"apply"}},
		"an addition by another client": {func(d *appsv1.Deployment) {
			d.Annotations["note"] = "mine"
			d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "now"}
			d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, corev1.Container{Name: "sidecar", Image: "s"})
		}, nil},
		"an addition in an exclusive path": {func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
			d.Spec.Template.Spec.Containers[0].Command = []string{"sh"}
		}, []string{patched, "apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pass(deployment())
			want := stored(w, "web", &appsv1.Deployment{})
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.UID = "child-1"; tc.drift(d) })
			drifted := stored(w, "web", &appsv1.Deployment{})
			w.writes, w.bodies = nil, nil

			w.pass(deployment())
			for _, b := range w.bodies {
				diff(t, "UID in the request", any("child-1"), b["metadata"].(map[string]any)["uid"])
			}
			w.wrote(tc.want...)
			got := stored(w, "web", &appsv1.Deployment{})
			if tc.want == nil {
				want = drifted
			}
			diff(t, "replicas", want.Spec.Replicas, got.Spec.Replicas)
			diff(t, "containers", want.Spec.Template.Spec.Containers, got.Spec.Template.Spec.Containers)
			diff(t, "annotations", want.Annotations, got.Annotations)

			w.pass(deployment())
			w.wrote()
		})
	}
}

// The cache may lack an addition that exists when the managed fields are read. If only
// the one in the cache was claimed, the answer would show the other one, as if a webhook
// had added it, and it would remain.
func TestApplier_RemovesAdditionsThatTheCacheLacks(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	early := stored(w, "web", &appsv1.Deployment{})
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Command = []string{"sh"} })
	w.cache = func(o client.Object) bool {
		early.DeepCopyInto(o.(*appsv1.Deployment))
		return true
	}
	w.pass(deployment())
	w.cache = nil
	w.pass(deployment())
	if c := stored(w, "web", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0]; len(c.Env) > 0 || len(c.Command) > 0 {
		t.Errorf("left are the variables %v and the command %q", c.Env, c.Command)
	}
}

func TestApplier_RemovesFieldsThatAreNoLongerStated(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment(func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.WithMinReadySeconds(9) }))
	diff(t, "minReadySeconds", int32(9), stored(w, "web", &appsv1.Deployment{}).Spec.MinReadySeconds)
	w.pass(deployment()) // nothing stated is missing; only the hash differs
	w.wrote("apply", "apply")
	diff(t, "minReadySeconds", int32(0), stored(w, "web", &appsv1.Deployment{}).Spec.MinReadySeconds)
}

func TestApplier_AppliesAContestedChildOnce(t *testing.T) {
	w := newWorld(t)
	w.mutate = func(o client.Object) { o.(*appsv1.Deployment).Spec.Replicas = new(int32(9)) }
	w.pass(deployment())
	w.wrote("apply")
	diff(t, "counted", 1, w.contested)

	for range 3 {
		diff(t, "action", Unchanged, w.pass(deployment()).Action)
	}
	w.wrote()

	w.pass(deployment(replicas(3))) // the spec changed, so the change is worth another attempt
	w.wrote("apply")
	w.pass(deployment(replicas(3)))
	w.wrote()

	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(8)) })
	w.pass(deployment(replicas(3))) // the object changed: the other controller may have given up
	w.wrote("apply")
	w.mutate = nil
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(8)) })
	w.pass(deployment(replicas(3)))
	w.pass(deployment(replicas(3)))
	w.wrote("apply")
	diff(t, "replicas", int32(3), *stored(w, "web", &appsv1.Deployment{}).Spec.Replicas)
}

// Only writes for which the operator itself gave no reason are repairs.
func TestApplier_CountsRepairs(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	w.pass(deployment())
	diff(t, "skipped", 1, w.skipped)
	w.pass(deployment(replicas(3)))
	diff(t, "repairs after a change of the intent", 0, len(w.repaired))

	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(8)) })
	w.pass(deployment(replicas(3)))
	diff(t, "repairs", []Drift{DriftFields}, w.repaired)
	if err := w.server.Delete(t.Context(), stored(w, "web", &appsv1.Deployment{})); err != nil {
		t.Fatal(err)
	}
	w.pass(deployment(replicas(3)))
	diff(t, "repairs", []Drift{DriftFields, DriftDeleted}, w.repaired)
	diff(t, "failures", 0, len(w.failed))

	w.refuse = func(string, int) error { return apierrors.NewForbidden(schema.GroupResource{}, "web", nil) }
	if _, err := w.applier.Apply(t.Context(), owner(), deployment()); err == nil {
		t.Error("the write is not refused")
	}
	diff(t, "failures", 1, len(w.failed))
}

func TestApplier_DoesNotWriteUnownedObjects(t *testing.T) {
	foreign := func(change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "foreign"}}
		change(d)
		return d
	}
	for name, d := range map[string]*appsv1.Deployment{
		"invisible to the cache": foreign(func(*appsv1.Deployment) {}),
		"with our label": foreign(func(d *appsv1.Deployment) {
			d.Labels = map[string]string{naming.LabelManagedBy: naming.ManagedBy}
		}),
		"of another controller": foreign(func(d *appsv1.Deployment) {
			d.OwnerReferences = ownedBy("cache.example.com/v1alpha1", "Memcached", "web", "memcached-1")
		}),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, d)
			before := stored(w, "web", &appsv1.Deployment{})
			_, err := w.applier.Apply(t.Context(), owner(), deployment())
			if v := fault.Classify(err); v.Class != fault.Stall || v.Reason != common.ReasonConflict {
				t.Errorf("got %+v, want a stall for a conflict", v)
			}
			if len(w.actions) > 0 {
				t.Errorf("counted %q", w.actions)
			}
			diff(t, "object", before, stored(w, "web", &appsv1.Deployment{}))
		})
	}
}

func TestApplier_AdoptsChildrenOfTheLegacyOperator(t *testing.T) {
	w := newWorld(t)
	labels := map[string]string{"app": "web"}
	old := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "child-1", OwnerReferences: ownReferences()},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(4)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx:0", Env: []corev1.EnvVar{{Name: "OLD", Value: "1"}},
				}}},
			},
		},
	}
	if err := w.server.Create(t.Context(), old, client.FieldOwner("manager")); err != nil {
		t.Fatal(err)
	}
	// The annotation of kubectl rollout restart: removing it would restart the
	// pods again.
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": "then"}
	})
	// The fake client's first resource version is 1, as in the create.
	byHand(w, "web", &appsv1.Deployment{}, func(*appsv1.Deployment) {})
	w.writes = nil

	c := w.pass(deployment())
	diff(t, "action", TakenOver, c.Action)
	w.wrote("apply", patched, "apply")
	d := stored(w, "web", &appsv1.Deployment{})
	diff(t, "containers", []corev1.Container{{Name: "web", Image: "nginx:1"}}, d.Spec.Template.Spec.Containers)
	diff(t, "restart annotation", "then", d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"])
	diff(t, "UID", types.UID("child-1"), d.UID)
	for _, e := range d.ManagedFields {
		if e.Manager == "manager" {
			t.Error("the legacy operator still owns fields")
		}
	}
	w.pass(deployment())
	w.wrote()
}

func TestApplier_AppliesIfExistsToUncachedChildren(t *testing.T) {
	few := func(n int32) Intent {
		return deployment(func(d *appsv1ac.DeploymentApplyConfiguration) { d.Spec.WithReplicas(n) })
	}
	starting := func() Intent {
		in := few(2)
		in.IfExists = func(client.Object) Intent { return few(4) }
		return in
	}
	w := newWorld(t)
	w.pass(starting())
	diff(t, "created with", int32(2), *stored(w, "web", &appsv1.Deployment{}).Spec.Replicas)
	w.wrote("apply")

	w.restart()
	w.cache = func(client.Object) bool { return false }
	w.refuse = func(_ string, n int) error {
		if n == 1 {
			return conflict() // the API server's response to resourceVersion 1
		}
		return nil
	}
	w.pass(starting())
	diff(t, "kept", int32(4), *stored(w, "web", &appsv1.Deployment{}).Spec.Replicas)
	w.wrote("apply", "apply")

	f, err := w.applier.Diff(t.Context(), owner(), starting(), true)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "explained", Unchanged, f.Action)

	w.cache = nil
	if f, err = w.applier.Diff(t.Context(), owner(), starting(), false); err != nil || f.Action != Unchanged {
		t.Errorf("a Deployment that matches the intent for an existing one would be %s: %v", f.Action, err)
	}
}

// If they were left, the answer would show them as if a webhook had added them, until a restart
// of the operator: the pods would be replaced then.
func TestApplier_TakesOverWithoutTheAdditionsOfUsers(t *testing.T) {
	w := newWorld(t)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: "child-1", OwnerReferences: ownReferences(),
		Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
	}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx:0"}}
	if err := w.server.Create(t.Context(), d, client.FieldOwner("manager")); err != nil {
		t.Fatal(err)
	}
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}}
	})
	f, err := w.explain(deployment())
	if want := "spec.template.spec.containers[web].env would be removed"; err != nil || !slices.Contains(said(f), want) {
		t.Errorf("explained as %q, %v", said(f), err)
	}
	diff(t, "action", TakenOver, w.pass(deployment()).Action)
	if env := stored(w, "web", &appsv1.Deployment{}).Spec.Template.Spec.Containers[0].Env; len(env) > 0 {
		t.Errorf("left are %v", env)
	}
	w.restart()
	w.writes = nil
	diff(t, "after a restart", Unchanged, w.pass(deployment()).Action)
}

// The child has the operator's label but was written by updates: by an older
// version of the operator, or as a copy that a user made.
func TestApplier_AdoptsLabelledChildrenNeverApplied(t *testing.T) {
	w := newWorld(t)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: "child-1", OwnerReferences: ownReferences(),
		Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
	}}
	d.Spec.MinReadySeconds = 9
	if err := w.server.Create(t.Context(), d, client.FieldOwner("manager")); err != nil {
		t.Fatal(err)
	}
	diff(t, "action", TakenOver, w.pass(deployment()).Action)
	w.wrote(patched, "apply")
	diff(t, "minReadySeconds", int32(0), stored(w, "web", &appsv1.Deployment{}).Spec.MinReadySeconds)
}

func TestApplier_SendsNothingIfTheClaimIsRejected(t *testing.T) {
	w := newWorld(t)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", OwnerReferences: ownReferences(), Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
	}}
	if err := w.server.Create(t.Context(), d, client.FieldOwner("manager")); err != nil {
		t.Fatal(err)
	}
	w.refuse = func(string, int) error { return conflict() }
	_, err := w.applier.Apply(t.Context(), owner(), deployment())
	if fault.Classify(err).Class != fault.Quiet {
		t.Errorf("got %v, want a lost race", err)
	}
	w.wrote(patched)
}

func TestApplier_RetriesIfTheChildIsDeletedBetweenRequests(t *testing.T) {
	w := newWorld(t)
	w.refuse = func(string, int) error { return conflict() }
	_, err := w.applier.Apply(t.Context(), owner(), deployment())
	if v := fault.Classify(err); v.Class != fault.Quiet || v.Result.RequeueAfter == 0 {
		t.Errorf("got %+v, want a quiet retry", v)
	}
}

func TestApplier_Fallback(t *testing.T) {
	taken := apierrors.NewInvalid(schema.GroupKind{Kind: "Service"}, "web-service", fielderr.ErrorList{
		fielderr.Invalid(fielderr.NewPath("spec", "ports").Index(0).Child("nodePort"), 30010, "provided port is already allocated"),
	})
	withFallback := func() Intent {
		in, other := service(30010), service(0)
		in.HashIntent = &other
		in.Fallback = func(err error) (Intent, bool) { return service(0), fault.NodePort(err) }
		return in
	}
	t.Run("is applied where the refusal matches", func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(_ string, n int) error {
			if n == 1 {
				return taken
			}
			return nil
		}
		diff(t, "action", Created, w.pass(withFallback()).Action)
		diff(t, "requests", 2, len(w.bodies))
		first := w.bodies[0]["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"]
		_, stated := w.bodies[1]["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"]
		if first != 30010.0 || stated {
			t.Errorf("first stated node port %v, the fallback states one: %v", first, stated)
		}
		w.wrote("apply", "apply")
		// Learning the value that the cluster chose does not change the hash, so
		// nothing is written.
		byHand(w, "web-service", &corev1.Service{}, func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 31234 })
		learned, anyPort := service(31234), service(0)
		learned.HashIntent = &anyPort
		diff(t, "action", Unchanged, w.pass(learned).Action)
		w.wrote()
	})
	t.Run("is not applied on another refusal", func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(string, int) error { return apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("no")) }
		if _, err := w.applier.Apply(t.Context(), owner(), withFallback()); !apierrors.IsForbidden(err) {
			t.Errorf("got %v, want the refusal", err)
		}
		w.wrote("apply")
	})
	t.Run("is tried once", func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(string, int) error { return taken }
		if _, err := w.applier.Apply(t.Context(), owner(), withFallback()); !fault.NodePort(err) {
			t.Errorf("got %v, want the refusal", err)
		}
		w.wrote("apply", "apply")
	})
	t.Run("is applied when the refusal has lasted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.refuse = func(_ string, n int) error {
				if w.bodies[n-1]["spec"].(map[string]any)["ports"].([]any)[0].(map[string]any)["nodePort"] != nil {
					return taken
				}
				return nil
			}
			in := withFallback()
			in.FallbackAfter = 5 * time.Second
			began := time.Now()
			var tried []string
			for {
				tried = append(tried, time.Since(began).String())
				_, err := w.applier.Apply(t.Context(), owner(), in)
				if err == nil {
					break
				}
				v := fault.Classify(err)
				if v.Class != fault.Wait || v.Result.RequeueAfter <= 0 || len(tried) > 20 {
					t.Fatalf("got %+v, want to wait", v)
				}
				time.Sleep(v.Result.RequeueAfter)
			}
			diff(t, "attempts", []string{"0s", "250ms", "500ms", "1s", "2s", "4s", "5s"}, tried)
			diff(t, "requests", len(tried)+1, len(w.bodies))
		})
	})
	t.Run("is not needed", func(t *testing.T) {
		w := newWorld(t)
		w.pass(withFallback())
		w.wrote("apply")
		diff(t, "node port", int32(30010), stored(w, "web-service", &corev1.Service{}).Spec.Ports[0].NodePort)
	})
}

func TestApplier_Delete(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		want   []string
	}{
		"ours":          {func(*corev1.Service) {}, []string{"delete"}},
		"foreign":       {func(s *corev1.Service) { s.OwnerReferences = nil }, nil},
		"going already": {func(s *corev1.Service) { s.DeletionTimestamp, s.Finalizers = &now, []string{"x/y"} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-service", UID: "child-1", OwnerReferences: ownReferences()}}
			tc.change(s)
			w := newWorld(t, s)
			if err := w.applier.Delete(t.Context(), owner(), "Service", s); err != nil {
				t.Fatal(err)
			}
			w.wrote(tc.want...)
			diff(t, "counted", len(tc.want), len(w.actions))
		})
	}
	t.Run("gone already", func(t *testing.T) {
		w := newWorld(t)
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-service", OwnerReferences: ownReferences()}}
		if err := w.applier.Delete(t.Context(), owner(), "Service", s); err != nil {
			t.Error(err)
		}
	})
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t)
		w.refuse = func(string, int) error { return conflict() }
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-service", OwnerReferences: ownReferences()}}
		if err := w.applier.Delete(t.Context(), owner(), "Service", s); !apierrors.IsConflict(err) || len(w.actions) > 0 {
			t.Errorf("got %v, counted %q", err, w.actions)
		}
	})
}

// A child whose owner reference was removed is never garbage-collected, so the
// operator deletes it, unless the garbage collector orphaned it. It orphans
// children only if their owner is being deleted, which the cache may not have
// observed yet.
func TestApplier_DeletesChildWhoseOwnerReferenceWasRemoved(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for name, tc := range map[string]struct {
		stored  func(*corev1.ConfigMap) // changes the owner in the API server
		going   bool                    // the owner is observed to be being deleted
		deletes bool
	}{
		"its owner exists":                    {stored: func(*corev1.ConfigMap) {}, deletes: true},
		"its owner is being deleted":          {stored: func(o *corev1.ConfigMap) { o.DeletionTimestamp, o.Finalizers = &now, []string{"orphan"} }},
		"its owner was deleted":               {stored: nil},
		"its owner is known to release it":    {going: true, deletes: true},
		"its owner exists again, as another ": {stored: func(o *corev1.ConfigMap) { o.UID = "owner-2" }},
	} {
		t.Run(name, func(t *testing.T) {
			o := owner()
			child := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: "web-service", UID: "child-1",
				Annotations: map[string]string{naming.AnnotationApplied: "1-abc", naming.AnnotationOwner: string(ownerUID)},
			}}
			if tc.going {
				o.Object.SetDeletionTimestamp(&now)
			}
			w := newWorld(t, child)
			w.replaceOwner(tc.stored)
			err := w.applier.Delete(t.Context(), o, "Service", child)
			diff(t, "error", !tc.deletes, err != nil)
			diff(t, "deleted", tc.deletes, len(w.writes) == 1)
		})
	}
}

func TestApplier_ReleaseRemovesOnlyItsMarks(t *testing.T) {
	w := newWorld(t)
	w.pass(deployment())
	byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) {
		d.Labels["team"], d.Annotations["note"] = "a", "b"
		d.OwnerReferences = append(d.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "c", UID: "c"})
	})
	before := stored(w, "web", &appsv1.Deployment{})
	w.writes = nil

	if err := w.applier.Release(t.Context(), ownerWith(common.DeletionPolicyOrphan), deployment()); err != nil {
		t.Fatal(err)
	}
	w.wrote("patch application/merge-patch+json")
	d := stored(w, "web", &appsv1.Deployment{})
	diff(t, "labels", map[string]string{"team": "a"}, d.Labels)
	diff(t, "annotations", map[string]string{"note": "b"}, d.Annotations)
	diff(t, "owners", before.OwnerReferences[1:], d.OwnerReferences)
	diff(t, "spec", before.Spec, d.Spec)
	diff(t, "counted", []Action{Created, Released}, w.actions)

	if err := w.applier.Release(t.Context(), ownerWith(common.DeletionPolicyOrphan), deployment()); err != nil {
		t.Errorf("releasing again: %v", err)
	}
	w.wrote()
}

func TestApplier_ReleaseSkipsUnownedObjects(t *testing.T) {
	w := newWorld(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
	}})
	if err := w.applier.Release(t.Context(), ownerWith(common.DeletionPolicyOrphan), deployment()); err != nil {
		t.Fatal(err)
	}
	w.wrote()
}

// Children that accompany this one must not be written, so it is not enough to report
// that a race was lost.
func TestApplier_ReportsAnOwnerThatWasFaster(t *testing.T) {
	w := newWorld(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "web", UID: "theirs", Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
		OwnerReferences: ownedBy("cache.example.com/v1alpha1", "Memcached", "web", "m"),
	}})
	in := deployment()
	in.ObservedUID = new(types.UID) // there was none
	_, err := w.applier.Apply(t.Context(), owner(), in)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Reason != common.ReasonConflict {
		t.Errorf("got error %v, want a conflict", err)
	}
	w.wrote()
}

func TestCheckOwnership(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	handOver := map[string]string{naming.AnnotationOwner: string(ownerUID)}
	uncontrolled := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "other", UID: "other"}

	for name, tc := range map[string]struct {
		live metav1.ObjectMeta
		want string // class and reason; "" if the child may be written
		says []string
	}{
		"ours": {live: metav1.ObjectMeta{OwnerReferences: ownReferences()}},
		"nobody's": {
			metav1.ObjectMeta{}, "stall Conflict", []string{`Deployment "web"`, "has no owner", naming.AnnotationOwner + ": owner-1"},
		},
		"of another kind of the same name": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("cache.example.com/v1alpha1", "Memcached", "web", "m")},
			"stall Conflict",
			[]string{`Memcached "web"`},
		},
		"of another group's kind": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("other.domain/v1", "WebServer", "web", "m")}, "stall Conflict", []string{`WebServer "web"`},
		},
		"of another object of our kind": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("my.domain/v1", "WebServer", "shop", "m")}, "stall Conflict", []string{`WebServer "shop"`},
		},
		"of an earlier object of our name": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("my.domain/v1", "WebServer", "web", "owner-0")}, "wait Waiting", []string{"earlier WebServer"},
		},
		"of an earlier object in another version": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("my.domain/v2", "WebServer", "web", "owner-0")}, "wait Waiting", []string{"earlier WebServer"},
		},
		"owned and terminating": {
			metav1.ObjectMeta{OwnerReferences: ownReferences(), DeletionTimestamp: &now}, "wait Waiting", []string{"being deleted"},
		},
		"of another kind, and terminating": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("cache.example.com/v1alpha1", "Memcached", "web", "m"), DeletionTimestamp: &now},
			"stall Conflict",
			[]string{`Memcached "web"`},
		},
		"of an earlier object, and terminating": {
			metav1.ObjectMeta{OwnerReferences: ownedBy("my.domain/v1", "WebServer", "web", "owner-0"), DeletionTimestamp: &now}, "wait Waiting", []string{"being deleted"},
		},
		"unowned, and terminating": {
			metav1.ObjectMeta{DeletionTimestamp: &now}, "wait Waiting", []string{"being deleted"},
		},
		"handed over":           {live: metav1.ObjectMeta{Annotations: handOver}},
		"lost its owner":        {live: metav1.ObjectMeta{Annotations: handOver, Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}}},
		"owned but not by whom": {live: metav1.ObjectMeta{Annotations: handOver, OwnerReferences: []metav1.OwnerReference{{APIVersion: "my.domain/v1", Kind: "WebServer", Name: "web", UID: ownerUID}}}},
		"handed over to another": {
			metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationOwner: "owner-2"}}, "stall Conflict", []string{"has no owner"},
		},
		"handed over, another owns it too": {live: metav1.ObjectMeta{Annotations: handOver, OwnerReferences: []metav1.OwnerReference{uncontrolled}}},
		"handed over, another controls it": {
			metav1.ObjectMeta{Annotations: handOver, OwnerReferences: ownedBy("v1", "ConfigMap", "c", "c")}, "stall Conflict", []string{`ConfigMap "c"`},
		},
		"handed over, but Helm's by label": {
			metav1.ObjectMeta{Annotations: handOver, Labels: map[string]string{naming.LabelManagedBy: "Helm"}}, "stall Conflict", []string{"managed by Helm"},
		},
		"handed over, but Helm's by annotation": {
			metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationOwner: string(ownerUID), "meta.helm.sh/release-name": "r"}},
			"stall Conflict",
			[]string{"meta.helm.sh/release-name"},
		},
		"handed over, but Argo CD's by label": {
			metav1.ObjectMeta{Annotations: handOver, Labels: map[string]string{"argocd.argoproj.io/instance": "a"}}, "stall Conflict", []string{"argocd.argoproj.io/instance"},
		},
		"handed over, but Argo CD's by annotation": {
			metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationOwner: string(ownerUID), "argocd.argoproj.io/tracking-id": "a"}},
			"stall Conflict",
			[]string{"argocd.argoproj.io/tracking-id"},
		},
		"handed over, but Flux's": {
			metav1.ObjectMeta{Annotations: handOver, Labels: map[string]string{"kustomize.toolkit.fluxcd.io/name": "a"}}, "stall Conflict", []string{"fluxcd"},
		},
		// A chart's label does not change the owner of a child that the operator
		// controls.
		"owned, labelled by a tool": {live: metav1.ObjectMeta{OwnerReferences: ownReferences(), Labels: map[string]string{"argocd.argoproj.io/instance": "a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkOwnership(owner(), deployment(), &appsv1.Deployment{ObjectMeta: tc.live})
			got := ""
			if v := fault.Classify(err); err != nil {
				got = map[fault.Class]string{fault.Stall: "stall ", fault.Wait: "wait "}[v.Class] + v.Reason
			}
			if got != tc.want {
				t.Errorf("got %q (%v), want %q", got, err, tc.want)
			}
			for _, s := range tc.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %q", err, s)
				}
			}
		})
	}
}

func TestMemo_ComparesVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		written memo
		uid     types.UID
		version string
		newer   bool
	}{
		"later":                       {memo{uid: "u", version: "10"}, "u", "9", true},
		"equal":                       {memo{uid: "u", version: "10"}, "u", "10", false},
		"earlier":                     {memo{uid: "u", version: "9"}, "u", "10", false},
		"later of the next object":    {memo{uid: "u", version: "10"}, "v", "9", true},
		"earlier of another object":   {memo{uid: "u", version: "10"}, "v", "11", false},
		"no number, no order":         {memo{uid: "u", version: "x"}, "u", "y", false},
		"more digits are a later one": {memo{uid: "u", version: "100"}, "u", "99", true},
	} {
		t.Run(name, func(t *testing.T) {
			live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{UID: tc.uid, ResourceVersion: tc.version}}
			if got := tc.written.isNewerThan(live); got != tc.newer {
				t.Errorf("newer: got %v, want %v", got, tc.newer)
			}
		})
	}
}

func TestIntent_Hash(t *testing.T) {
	hash := func(in Intent) string {
		t.Helper()
		c, err := in.complete(owner())
		if err != nil {
			t.Fatal(err)
		}
		return c.hash
	}
	base := hash(deployment())
	if base == "" || !strings.HasPrefix(base, hashVersion+"-") {
		t.Errorf("hash %q does not begin with its version", base)
	}
	diff(t, "hash of the same intent", base, hash(deployment()))
	if hash(deployment(replicas(3))) == base {
		t.Error("another intent has the same hash")
	}
	other := deployment()
	c, err := other.complete(Owner{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "owner-2"}}, GVK: owner().GVK})
	if err != nil {
		t.Fatal(err)
	}
	if c.hash == base {
		t.Error("another owner's intent has the same hash: its owner reference would never be written")
	}
	as, in := deployment(), deployment(replicas(9))
	in.HashIntent = &as
	diff(t, "hash of the intent given by HashIntent", base, hash(in))
}

func TestIntent_Object(t *testing.T) {
	raw, err := service(30010).Object(owner().Object, owner().GVK)
	if err != nil {
		t.Fatal(err)
	}
	want := `"ownerReferences":[{"apiVersion":"my.domain/v1","kind":"WebServer","name":"web","uid":"owner-1","controller":true,"blockOwnerDeletion":true}]`
	if !strings.Contains(string(raw), want) {
		t.Errorf("%s\nlacks %s", raw, want)
	}
	in := service(0)
	diff(t, "name", `Service "web-service"`, in.String())
	if d := cmp.Diff(client.ObjectKey{Namespace: "ns", Name: "web-service"}, in.Key()); d != "" {
		t.Error(d)
	}
}

// The garbage collector deletes the children of a deleted owner, and the cache
// may observe their deletion first.
func TestApplier_RecreatesAChildOnlyIfItsOwnerExists(t *testing.T) {
	now := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for name, tc := range map[string]struct {
		owner      func(*corev1.ConfigMap)
		reconciled bool
		want       []string
	}{
		"it lives":                   {func(*corev1.ConfigMap) {}, true, []string{"apply"}},
		"the owner is deleted":       {nil, true, nil},
		"another took its name":      {func(o *corev1.ConfigMap) { o.UID = "owner-2" }, true, nil},
		"the owner is being deleted": {func(o *corev1.ConfigMap) { o.DeletionTimestamp, o.Finalizers = &now, []string{"x/y"} }, true, nil},
		"no reason to check":         {nil, false, []string{"apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.replaceOwner(tc.owner)
			o := owner()
			o.Reconciled = tc.reconciled
			_, err := w.applier.Apply(t.Context(), o, deployment())
			w.wrote(tc.want...)
			v := fault.Classify(err)
			if quiet := v.Class == fault.Quiet && v.Result.RequeueAfter > 0; quiet != (tc.want == nil) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// snapshot returns an intent for an immutable ConfigMap.
func snapshot(content string) Intent {
	return New(corev1ac.ConfigMap("copy", "ns").WithImmutable(true).WithData(map[string]string{"a": content}),
		func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
}

// A child is missing in the cache before the event of its disappearance is handled.
func TestApplier_SuspectsAChildThatItRemembers(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*world)
		want    []string
	}{
		"written": {prepare: func(w *world) { w.pass(snapshot("a")) }},
		"deleted by the operator": {
			prepare: func(w *world) {
				if err := w.applier.Delete(t.Context(), owner(), "ConfigMap", w.pass(snapshot("a")).Live); err != nil {
					t.Fatal(err)
				}
			},
			want: []string{"apply"},
		},
		"never created": {prepare: func(*world) {}, want: []string{"apply"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.prepare(w)
			w.replaceOwner(nil)
			if err := w.server.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "copy"}}); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			w.writes = nil
			_, err := w.applier.Apply(t.Context(), owner(), snapshot("a"))
			w.wrote(tc.want...)
			if v := fault.Classify(err); (v.Class == fault.Quiet) != (tc.want == nil) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestApplier_AnnotatesAndLogsTheFallback(t *testing.T) {
	refused := apierrors.NewInvalid(schema.GroupKind{Kind: "Deployment"}, "web", nil)
	for name, prepare := range map[string]func(*world, *Intent){
		"Fallback": func(w *world, in *Intent) {
			w.refuse = func(_ string, n int) error {
				if n == 1 {
					return refused
				}
				return nil
			}
			in.Fallback = func(error) (Intent, bool) { return deployment(), true }
		},
		"IfExists": func(w *world, in *Intent) {
			w.pass(deployment())
			in.IfExists = func(client.Object) Intent { return deployment() }
		},
		"IfExists, without the label": func(w *world, in *Intent) {
			w.pass(deployment())
			byHand(w, "web", &appsv1.Deployment{}, func(d *appsv1.Deployment) { delete(d.Labels, naming.LabelManagedBy) })
			in.IfExists = func(live client.Object) Intent {
				if live.GetName() != "web" {
					w.t.Errorf("got %v, not the live object", live)
				}
				return deployment()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			in := deployment()
			prepare(w, &in)
			w.writes = nil
			in.Annotate("example.com/mark", "yes")
			in.Changes = []Change{{Message: "it changes"}}
			var lines []string
			ctx := log.IntoContext(t.Context(), funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
			if _, err := w.applier.Apply(ctx, owner(), in); err != nil {
				t.Fatal(err)
			}
			if got := stored(w, "web", &appsv1.Deployment{}).Annotations["example.com/mark"]; got != "yes" {
				t.Errorf("the annotation is %q", got)
			}
			if logged := strings.Contains(strings.Join(lines, "\n"), "it changes"); logged != (name != "Fallback") { // the fallback is a create
				t.Errorf("logged %q", lines)
			}
		})
	}
}

func TestApplier_WritesARecordOnlyTogetherWithAnotherChange(t *testing.T) {
	w := newWorld(t)
	record := func() string { return stored(w, "web", &appsv1.Deployment{}).Annotations["example.com/record"] }
	apply := func(in Intent, value string) {
		t.Helper()
		w.writes = nil
		if value != "" {
			in.Record("example.com/record", value)
		}
		w.pass(in)
	}
	apply(deployment(), "1")
	w.wrote("apply")
	diff(t, "after the create", "1", record())
	for _, value := range []string{"2", "", "1"} {
		apply(deployment(), value)
		w.wrote()
		diff(t, "after another record", "1", record())
	}
	in := deployment()
	in.Annotate("example.com/mark", "yes")
	apply(in, "3")
	w.wrote("apply")
	diff(t, "after another change", "3", record())
}

func TestOwns(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*appsv1.Deployment)
		want   bool
	}{
		"controlled":         {func(*appsv1.Deployment) {}, true},
		"without owner":      {func(d *appsv1.Deployment) { d.OwnerReferences = nil }, true},
		"without label":      {func(d *appsv1.Deployment) { d.Labels = nil }, true},
		"another controller": {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID = "other" }, false},
		"another owner":      {func(d *appsv1.Deployment) { d.OwnerReferences[0].UID, d.OwnerReferences[0].Controller = "other", nil }, true},
		"given away":         {func(d *appsv1.Deployment) { d.OwnerReferences, d.Annotations = nil, nil }, false},
		"managed by another": {func(d *appsv1.Deployment) {
			d.OwnerReferences, d.Labels = nil, map[string]string{naming.LabelManagedBy: "Helm"}
		}, false},
		"of an earlier object": {func(d *appsv1.Deployment) {
			d.OwnerReferences, d.Annotations = nil, map[string]string{naming.AnnotationOwner: "earlier"}
		}, false},
		"never applied": {func(d *appsv1.Deployment) { d.OwnerReferences = nil; delete(d.Annotations, naming.AnnotationApplied) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.pass(deployment())
			d := stored(w, "web", &appsv1.Deployment{})
			tc.change(d)
			if got := Owns(owner().Object, d); got != tc.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// The API server reads what is applied as YAML.
func TestApplier_EscapesCharactersThatYAMLCannotContain(t *testing.T) {
	var all []rune
	for r := rune(1); r < 0x11000; r++ {
		if utf8.ValidRune(r) {
			all = append(all, r)
		}
	}
	want := map[string]string{"text": string(all)}
	in := New(corev1ac.ConfigMap("web", "ns").WithData(want), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
	raw, err := json.Marshal(in.request())
	if err != nil {
		t.Fatal(err)
	}
	var got corev1.ConfigMap
	if err := yaml.UnmarshalStrict(raw, &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Data, want) {
		t.Error("another text arrives")
	}
}
