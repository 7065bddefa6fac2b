//go:build envtest

package webhooks_test

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/webhooks"
	"github.com/platform-operator/platform-operator/webhooks/admissiontest/generate"
)

// FuzzWhatWeAdmitKubernetesAdmits checks that an API server accepts the children of
// every accepted object, both as new objects and as updates of the children of an
// earlier object of that name.
func FuzzWhatWeAdmitKubernetesAdmits(f *testing.F) {
	addSeeds(f)
	admin := webhooks.Admin()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "fuzz-"}}
	if err := admin.Create(f.Context(), ns); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		d := generate.NewDice(bytes)
		first := drawObject(d, drawKind(t, d), nil)
		if !first.mend(t, nil) {
			return
		}
		applied := applyChildren(t, admin, ns.Name, first)
		if then := drawObject(d, first.known, first); then.mend(t, nil) {
			applied = append(applied, applyChildren(t, admin, ns.Name, then)...)
		}
		for _, child := range applied {
			if err := admin.Delete(t.Context(), child, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
	})
}

// applyChildren applies the children of an object in the way of the operator, and returns them.
func applyChildren(t *testing.T, admin client.Client, namespace string, o *drawn) []*unstructured.Unstructured {
	t.Helper()
	made, err := children(o.typed(t))
	if err != nil {
		t.Fatalf("%v\n%s", err, o.json())
	}
	var all []*unstructured.Unstructured
	refused := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s is refused: %v\n%s\nbefore: %s", what, err, o.json(), o.old)
		}
	}
	for _, raw := range made {
		child := &unstructured.Unstructured{}
		if err := child.UnmarshalJSON(raw); err != nil {
			t.Fatal(err)
		}
		if group := child.GroupVersionKind().Group; group == "gateway.networking.k8s.io" || group == "monitoring.coreos.com" {
			continue // not an API of Kubernetes
		}
		child.SetNamespace(namespace)
		if child.GetKind() == "Pod" { // it is replaced instead of updated
			if err := admin.Delete(t.Context(), child.DeepCopy(), client.GracePeriodSeconds(0)); err != nil && !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
		sent := child.DeepCopy()
		refused(child.GetKind()+" "+child.GetName(), admin.Patch(t.Context(), child, client.RawPatch(types.ApplyPatchType, mustJSON(t, sent)), client.FieldOwner("platform-operator"), client.ForceOwnership))
		all = append(all, sent)
		// There are rules of pods that a template need not obey.
		if template := templateIn(t, child.GetKind(), raw); template != nil {
			pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
			pod.Namespace, pod.Name = namespace, "pod"
			refused("a pod of "+child.GetKind()+" "+child.GetName(), admin.Create(t.Context(), pod, client.DryRunAll))
		}
	}
	return all
}

// templateIn returns the pod template of a Deployment or a Job, nil for others.
func templateIn(t *testing.T, kind string, raw []byte) *corev1.PodTemplateSpec {
	t.Helper()
	var d appsv1.Deployment
	var j batchv1.Job
	switch kind {
	case "Deployment":
		if err := json.Unmarshal(raw, &d); err != nil {
			t.Fatal(err)
		}
		return &d.Spec.Template
	case "Job":
		if err := json.Unmarshal(raw, &j); err != nil {
			t.Fatal(err)
		}
		return &j.Spec.Template
	}
	return nil
}

func mustJSON(t *testing.T, o *unstructured.Unstructured) []byte {
	t.Helper()
	raw, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
