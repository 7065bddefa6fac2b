package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

// sampleResults compares two operators, of which the second one misses some goals.
func sampleResults() results {
	of := func(version string, cpu time.Duration) measured {
		return measured{
			Version:  version,
			Batches:  []batch{{100, 20 * time.Second, 100 * cpu, 90}, {100, 24 * time.Second, 120 * cpu, 300}, {100, 22 * time.Second, 110 * cpu, 270}},
			Restarts: []restart{{0, time.Second, time.Second, 60}, {600, 2 * time.Second, 200 * cpu, 110}, {600, time.Second, 300 * cpu, 120}},
			RestCPU:  []float64{0.002, 0.004},
		}
	}
	return results{Objects: 600, Began: time.Now(), Operators: []measured{of("v1", 5*time.Millisecond), of("v2", 15*time.Millisecond)}}
}

func TestResults_Markdown(t *testing.T) {
	got, err := sampleResults().markdown()
	if err != nil {
		t.Fatal(err)
	}
	got = regexp.MustCompile("`, .*\n").ReplaceAllString(got, "`, TODAY; MACHINE.\n")
	golden.File(t, "testdata/benchmarks.md", []byte(got))
}

func TestResults_DoNotJudgeMemoryWithFewObjects(t *testing.T) {
	r := sampleResults()
	if missed := strings.Join(r.missed(), "; "); strings.Contains(missed, "memory") {
		t.Errorf("missed with %d objects: %s", r.Objects, missed)
	}
	r.Objects = memoryGoalObjects
	if missed := strings.Join(r.missed(), "; "); !strings.Contains(missed, "memory (RSS), maximum") {
		t.Errorf("not missed with %d objects: %s", r.Objects, missed)
	}
}

func TestIsReady_ComparesTheGeneration(t *testing.T) {
	object := func(generation, observed int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"generation": generation},
			"status":   map[string]any{"observedGeneration": observed, "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}},
		}}
	}
	if !isReady(object(2, 2)) || isReady(object(3, 2)) {
		t.Error("a WebServer is Ready if the condition is True in its latest generation")
	}
}

func TestNode_RunsAndRemovesPods(t *testing.T) {
	const gate = "example.com/gate"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", Finalizers: []string{"example.com/kept"}}, Spec: corev1.PodSpec{
		NodeName: nodeName, Containers: []corev1.Container{{Name: "c", Image: "i"}}, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: gate}},
	}}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	n := &node{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod).WithStatusSubresource(pod).Build()}
	reconcile := func() {
		t.Helper()
		if _, err := n.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)}); err != nil {
			t.Fatal(err)
		}
		if err := n.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	if pod.Status.Phase != corev1.PodRunning || conditionOf(pod, corev1.PodReady) != corev1.ConditionFalse || pod.Status.PodIP == "" {
		t.Errorf("before its gate is True: %+v", pod.Status)
	}
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: gate, Status: corev1.ConditionTrue})
	if err := n.client.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if conditionOf(pod, corev1.PodReady) != corev1.ConditionTrue || !pod.Status.ContainerStatuses[0].Ready {
		t.Errorf("after its gate is True: %+v", pod.Status)
	}
}
