//go:build envtest

package eviction_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/controllers/demoapplication"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/eviction"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
	"github.com/platform-operator/platform-operator/webhooks"
)

// env has the controllers of Kubernetes that matter to a drain, and two nodes that the
// tests simulate.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.MainWithoutNodes(m, "../..", controllers.AddToScheme, func(e *testkit.Env) { env = e }, os.Stderr)
}

// startControllers starts the controllers of Deployments, ReplicaSets and budgets.
func startControllers(t *testing.T) {
	t.Helper()
	c := env.AdminConfig
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(api.Config{
		Clusters:       map[string]*api.Cluster{"c": {Server: c.Host, CertificateAuthorityData: c.CAData}},
		AuthInfos:      map[string]*api.AuthInfo{"u": {ClientCertificateData: c.CertData, ClientKeyData: c.KeyData}},
		Contexts:       map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kcm := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-controller-manager"),
		"--kubeconfig="+kubeconfig, "--controllers=deployment-controller,replicaset-controller,disruption-controller", "--leader-elect=false", "--secure-port=0")
	if err := kcm.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = kcm.Process.Kill()
		_ = kcm.Wait()
	})
}

// startWebhook serves the webhooks with the account of the operator.
func startWebhook(t *testing.T) {
	t.Helper()
	local := envtest.WebhookInstallOptions{Paths: []string{"../../config/webhook/manifests.yaml"}}
	if err := local.Install(env.AdminConfig); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = local.Cleanup() })
	mgr, err := manager.New(env.Operator, manager.Options{
		Scheme: env.Scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{Host: local.LocalServingHost, Port: local.LocalServingPort, CertDir: local.LocalServingCertDir}),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := webhooks.Setup(mgr, config.Default(), nil); err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.Start(t.Context()) }()
}

// cluster simulates the scheduler and the kubelets of one namespace.
type cluster struct {
	*testing.T
	ns     string
	starts time.Duration
}

// start runs it until the test ends.
func (c cluster) start() {
	c.Helper()
	for _, name := range []string{"node1", "node2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := env.Admin.Create(c.Context(), node); err != nil && !apierrors.IsAlreadyExists(err) {
			c.Fatal(err)
		}
		c.cordon(name, false)
	}
	go func() {
		for c.Context().Err() == nil {
			for _, p := range c.pods(c.Context()) {
				if err := c.run(c.Context(), &p); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) && c.Context().Err() == nil {
					c.Errorf("running %s: %v", p.Name, err)
				}
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
}

func (c cluster) pods(ctx context.Context) []corev1.Pod {
	var l corev1.PodList
	_ = env.Admin.List(ctx, &l, client.InNamespace(c.ns))
	return l.Items
}

func (c cluster) run(ctx context.Context, p *corev1.Pod) error {
	switch {
	case p.DeletionTimestamp != nil:
		if time.Since(p.DeletionTimestamp.Add(-time.Duration(*p.DeletionGracePeriodSeconds)*time.Second)) > time.Second {
			return env.Admin.Delete(ctx, p, client.GracePeriodSeconds(0))
		}
	case p.Spec.NodeName == "":
		return c.schedule(ctx, p)
	case p.Status.Phase != corev1.PodRunning && time.Since(p.CreationTimestamp.Time) > c.starts:
		before := p.DeepCopy()
		p.Status.Phase = corev1.PodRunning
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()})
		return env.Admin.Status().Patch(ctx, p, client.MergeFrom(before))
	}
	return nil
}

func (c cluster) schedule(ctx context.Context, p *corev1.Pod) error {
	var nodes corev1.NodeList
	if err := env.Admin.List(ctx, &nodes); err != nil {
		return err
	}
	for _, n := range nodes.Items {
		if !n.Spec.Unschedulable {
			return env.Admin.SubResource("binding").Create(ctx, p, &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: n.Name}})
		}
	}
	if len(p.Status.Conditions) > 0 {
		return nil
	}
	before := p.DeepCopy()
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available", LastTransitionTime: metav1.Now()}}
	return env.Admin.Status().Patch(ctx, p, client.MergeFrom(before))
}

func (c cluster) cordon(name string, cordoned bool) {
	c.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"unschedulable":%v}}`, cordoned))
	if err := env.Admin.Patch(c.Context(), node, patch); err != nil {
		c.Fatal(err)
	}
}

// seen is what was seen while a pod was evicted.
type seen struct {
	leastReady, mostPods int
	refused              int
	took                 time.Duration
}

// evict evicts a pod as kubectl drain does, but asks more often.
func (c cluster) evict(p corev1.Pod) seen {
	c.Helper()
	began, tried, s := time.Now(), time.Time{}, seen{leastReady: 9}
	for ; ; time.Sleep(20 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			c.Fatalf("the pod is still there: %+v", s)
		}
		ready, pods, gone := 0, 0, true
		for _, x := range c.pods(c.Context()) {
			gone = gone && x.Name != p.Name
			if x.DeletionTimestamp != nil {
				continue
			}
			pods++
			if x.Status.Phase == corev1.PodRunning {
				ready++
			}
		}
		s.leastReady, s.mostPods, s.took = min(s.leastReady, ready), max(s.mostPods, pods), time.Since(began)
		if gone {
			return s
		}
		if time.Since(tried) < time.Second {
			continue
		}
		tried = time.Now()
		err := env.Admin.SubResource("eviction").Create(c.Context(), &p, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: c.ns, Name: p.Name}})
		switch {
		case apierrors.IsTooManyRequests(err):
			s.refused++
			c.Logf("%s: %v", s.took.Round(100*time.Millisecond), err)
		case client.IgnoreNotFound(err) != nil:
			c.Fatal(err)
		}
	}
}

// only returns the only pod, which is ready.
func (c cluster) only() corev1.Pod {
	c.Helper()
	var only corev1.Pod
	err := testkit.Eventually(c.Context(), "one pod that is ready", func(ctx context.Context) (bool, error) {
		pods := c.pods(ctx)
		if len(pods) != 1 || pods[0].Status.Phase != corev1.PodRunning {
			return false, fmt.Errorf("there are %d", len(pods))
		}
		only = pods[0]
		return true, nil
	})
	if err != nil {
		c.Fatal(err)
	}
	return only
}

// TestDrain drains the node of the only pod of an object with the controllers of Kubernetes.
func TestDrain(t *testing.T) {
	startControllers(t)
	startWebhook(t)
	l := env.NewSandbox(t, testkit.SubjectOf(func() converge.AnyKind { return demoapplication.Kind(config.Default()) }))
	c := cluster{t, l.Namespace, 3 * time.Second}
	c.start()
	l.Start()
	a := &demoapplicationv1.DemoApplication{
		ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "app"},
		Spec:       demoapplicationv1.DemoApplicationSpec{Image: "nginx:1.27.4", Ports: []demoapplicationv1.Port{{Port: 80}}},
	}
	l.Create(a)
	l.Ready(a, "app")

	for range 2 {
		pod := c.only()
		c.cordon(pod.Spec.NodeName, true)
		s := c.evict(pod)
		t.Logf("%+v", s)
		if s.leastReady < 1 || s.mostPods > 2 || s.refused == 0 || s.took > c.starts+10*time.Second {
			t.Errorf("seen: %+v", s)
		}
		if next := c.only(); next.Spec.NodeName == pod.Spec.NodeName {
			t.Errorf("the pod is on the same node")
		}
		l.Ready(a, "app")
		c.cordon(pod.Spec.NodeName, false)
	}
	if len(a.Status.LastActions) > 0 {
		t.Errorf("actions: %v", a.Status.LastActions)
	}

	// Without room, the request is over after ten minutes, most of which have passed.
	pod := c.only()
	c.cordon("node1", true)
	c.cordon("node2", true)
	pod.Annotations[naming.AnnotationEvictionRequested] = time.Now().Add(5*time.Second - eviction.Wait).UTC().Format(time.RFC3339)
	if err := env.Admin.Update(t.Context(), &pod); err != nil {
		t.Fatal(err)
	}
	s := c.evict(pod)
	t.Logf("%+v", s)
	if s.mostPods > 2 || s.refused == 0 || s.took > 20*time.Second {
		t.Errorf("seen: %+v", s)
	}
	l.Until("the action", a, "app", func() bool {
		return len(a.Status.LastActions) == 1 && a.Status.LastActions[0].Type == common.ActionAllowEviction
	})
	t.Log(a.Status.LastActions[0].Message)
	c.cordon("node1", false)
	l.Ready(a, "app")
}
