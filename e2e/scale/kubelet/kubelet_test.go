package kubelet

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// run starts a simulated node with these pods.
func run(t *testing.T, pods ...*corev1.Pod) *fake.Clientset {
	t.Helper()
	client := fake.NewClientset()
	for _, p := range pods {
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- (&Kubelet{Client: client, Node: "simulated"}).Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return client
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "1"},
		Spec: corev1.PodSpec{
			NodeName:       node,
			InitContainers: []corev1.Container{{Name: "test", Image: "nginx:1"}},
			Containers:     []corev1.Container{{Name: "web", Image: "nginx:1"}},
		},
	}
}

// eventually waits until the condition is met.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func get(t *testing.T, client *fake.Clientset, name string) *corev1.Pod {
	t.Helper()
	p, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return p
}

func TestKubelet_MakesBoundPodsReady(t *testing.T) {
	client := run(t, pod("bound", "simulated"))
	eventually(t, "the pod to be Ready", func() bool { return isTrue(get(t, client, "bound"), corev1.PodReady) })
	got := get(t, client, "bound").Status
	if got.Phase != corev1.PodRunning || got.PodIP == "" || !got.ContainerStatuses[0].Ready || got.ContainerStatuses[0].State.Running == nil {
		t.Errorf("the container does not run: %+v", got)
	}
	if got.InitContainerStatuses[0].State.Terminated == nil {
		t.Errorf("the init container has not completed: %+v", got.InitContainerStatuses)
	}
}

func TestKubelet_WaitsForReadinessGates(t *testing.T) {
	gated := pod("gated", "simulated")
	gated.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/gate"}}
	client := run(t, gated)
	eventually(t, "the containers to be ready", func() bool { return isTrue(get(t, client, "gated"), corev1.ContainersReady) })
	p := get(t, client, "gated")
	if isTrue(p, corev1.PodReady) {
		t.Error("the pod is Ready before its gate is True")
	}
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: "example.com/gate", Status: corev1.ConditionTrue})
	if _, err := client.CoreV1().Pods("default").UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod to be Ready", func() bool { return isTrue(get(t, client, "gated"), corev1.PodReady) })
	if !isTrue(get(t, client, "gated"), "example.com/gate") {
		t.Error("the gate was removed")
	}
}

func TestKubelet_RemovesDeletedPods(t *testing.T) {
	deleted := pod("deleted", "simulated")
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/keeps-it-in-the-tracker"}
	client := run(t, deleted)
	eventually(t, "the pod to be removed", func() bool { return get(t, client, "deleted") == nil })
}

func TestKubelet_RegistersTheNode(t *testing.T) {
	client := run(t)
	eventually(t, "node and Lease", func() bool {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "simulated", metav1.GetOptions{})
		if err != nil || node.Status.Allocatable.Pods().Value() < 100_000 {
			return false
		}
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), "simulated", metav1.GetOptions{})
		return err == nil && *lease.Spec.HolderIdentity == "simulated"
	})
}
