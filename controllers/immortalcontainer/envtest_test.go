//go:build envtest

package immortalcontainer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// env is the API server of this package's tests.
var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, "../..", func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), immortalv1alpha1.AddToScheme(s))
	}, func(e *testkit.Env) { env = e })
}

// impatient is a clock for which every pod was created long ago, so that tests do
// not wait for the pause between two pods, which has a test of its own.
func impatient() time.Time { return time.Now().Add(time.Hour) }

func subject() testkit.Subject {
	return testkit.SubjectOf(func() converge.AnyKind { return Kind(impatient, config.Default()) })
}

func immortal(ns, name string) *immortalv1alpha1.ImmortalContainer {
	return &immortalv1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name},
		Spec:       immortalv1alpha1.ImmortalContainerSpec{Image: "nginx:1.23.1"},
	}
}

func specimen() testkit.KindUnderTest {
	return testkit.KindUnderTest{
		Subject:  subject(),
		Resource: "immortalcontainers",
		New:      func(ns, name string) converge.Object { return immortal(ns, name) },
		Children: func(name string) []client.Object {
			return []client.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-immortalpod"}}}
		},
		// The gate is removed when the pod is counted, which is recorded before.
		Created: []string{"patch immortalcontainers/status 200", "patch pods 200"},
		Edit:    func(o converge.Object) { o.(*immortalv1alpha1.ImmortalContainer).Spec.Image = "nginx:1.23.0" },
		Edited:  []string{"patch pods 200"},
		Orphan: func(o converge.Object) {
			o.(*immortalv1alpha1.ImmortalContainer).Spec.DeletionPolicy = common.DeletionPolicyOrphan
		},
		Serves: serves,
		Stated: func(o converge.Object) [][]byte {
			i := o.(*immortalv1alpha1.ImmortalContainer)
			raw, err := fresh(i, nil, false).Object(i, gvk) // without the gate
			if err != nil {
				panic(err) // the operator has just sent it
			}
			return [][]byte{raw}
		},
		// If the UID of its owner does not exist, the pod is garbage-collected. The
		// next one is created, and its gate is removed.
		TwoWrites: func(path string) bool {
			return strings.HasPrefix(path, "/metadata/ownerReferences") && strings.HasSuffix(path, "/uid")
		},
		Damages: 8, // almost no field of a live pod can be changed
	}
}

func TestImmortalContainer_RequestBudget(t *testing.T) {
	t.Parallel()
	env.Budget(t, specimen())
}

func TestImmortalContainer_OrphaningBudget(t *testing.T) {
	t.Parallel()
	env.Orphaning(t, specimen())
}

func TestReconciler_AdoptsARestoredBackup(t *testing.T) {
	t.Parallel()
	env.Restored(t, specimen())
}

func TestReconciler_FollowsTheDeletionPolicy(t *testing.T) {
	t.Parallel()
	env.PolicyChanged(t, specimen())
}

func TestImmortalContainer_RestoresEveryStatedField(t *testing.T) {
	t.Parallel()
	env.Drifting(t, specimen())
}

func TestImmortalContainer_NeverWritesUnownedPods(t *testing.T) {
	t.Parallel()
	env.Unowned(t, specimen(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-immortalpod"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "theirs", Image: "theirs:1"}}},
	})
}

// bornPod waits until a pod other than the given one runs, and returns its UID.
func bornPod(l *testkit.Sandbox, not string, starts int64) string {
	l.Helper()
	const name = "web"
	i := &immortalv1alpha1.ImmortalContainer{}
	l.Until(fmt.Sprintf("another pod of %s to be Ready, with %d starts", name, starts), i, name, func() bool {
		return meta.IsStatusConditionTrue(i.Status.Conditions, common.ConditionReady) && i.Status.PodUID != not && i.Status.StartTimes == starts
	})
	p := &corev1.Pod{}
	l.Get(p, name+"-immortalpod")
	if string(p.UID) != i.Status.PodUID || i.Status.CurrentPod != p.Name {
		l.Errorf("status tells of pod %s %s, there is %s %s", i.Status.CurrentPod, i.Status.PodUID, p.Name, p.UID)
	}
	return i.Status.PodUID
}

func TestImmortalContainer_RecreatesThePodHoweverItEnds(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*testing.T, *corev1.Pod) error{
		"deleted": func(t *testing.T, p *corev1.Pod) error { return env.Admin.Delete(t.Context(), p) },
		"evicted": func(t *testing.T, p *corev1.Pod) error { return finish(t.Context(), p, corev1.PodFailed, "Evicted") },
		"failed":  func(t *testing.T, p *corev1.Pod) error { return finish(t.Context(), p, corev1.PodFailed, "") },
		"succeeded": func(t *testing.T, p *corev1.Pod) error {
			return finish(t.Context(), p, corev1.PodSucceeded, "")
		},
	}
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			l := env.NewSandbox(t, subject()).Start()
			l.Create(immortal(l.Namespace, "web"))
			first := bornPod(l, "", 1)
			p := &corev1.Pod{}
			l.Get(p, "web-immortalpod")
			if err := end(t, p); err != nil {
				t.Fatal(err)
			}
			bornPod(l, first, 2)
		})
	}
}

func finish(ctx context.Context, p *corev1.Pod, phase corev1.PodPhase, reason string) error {
	before := p.DeepCopy()
	p.Status.Phase, p.Status.Reason = phase, reason
	return env.Admin.Status().Patch(ctx, p, client.MergeFrom(before))
}

func TestImmortalContainer_ChangesTheImageInPlace(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	i := immortal(l.Namespace, "web")
	l.Create(i)
	uid := bornPod(l, "", 1)
	l.Edit(i, "web", func() { i.Spec.Image = "nginx:1.23.0" })
	l.Ready(i, "web")
	if i.Status.PodUID != uid || i.Status.StartTimes != 1 || i.Status.Image != "nginx:1.23.0" {
		t.Errorf("status %+v, want the same pod %s, 1 start and the new image", i.Status, uid)
	}
}

// Changes that another version of the operator would make are applied to the next
// pod. The running one is kept, and fields that can be changed in place are
// changed.
func TestImmortalContainer_OperatorUpgradeKeepsThePod(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	i := immortal(l.Namespace, "web")
	// Admission adds tolerations to a pod; the operator must not remove them.
	i.Spec.Pod = &common.Pod{Tolerations: []common.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}}
	i.Spec.Env = []common.EnvVar{{Name: "A", Value: "b"}}
	l.Create(i)
	// An earlier version of the operator created it, with some fields more and some
	// fewer than this one.
	earlier := podSpec(i)
	earlier.WithHostname("web").WithSubdomain("s")
	earlier.SecurityContext, earlier.EnableServiceLinks = nil, nil
	ac := corev1ac.Pod("web-immortalpod", l.Namespace).WithLabels(i.PodLabels()).
		WithLabels(map[string]string{naming.LabelManagedBy: naming.ManagedBy}).
		WithAnnotations(map[string]string{
			naming.AnnotationTemplate: inputs(i), annotationStated: encode(earlier),
			naming.AnnotationApplied: "0-other", naming.AnnotationOwner: string(i.UID),
		}).
		WithOwnerReferences(metav1ac.OwnerReference().WithAPIVersion(immortalv1alpha1.GroupVersion.String()).WithKind(immortalv1alpha1.Kind).
			WithName(i.Name).WithUID(i.UID).WithController(true).WithBlockOwnerDeletion(true))
	earlier.Containers[0].WithImage(i.Spec.Image)
	ac.WithSpec(earlier)
	if err := env.Admin.Apply(t.Context(), ac, client.FieldOwner(naming.FieldManager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	i.Status.PodUID, i.Status.StartTimes = string(*ac.UID), 1
	if err := env.Admin.Status().Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	l.Start()
	uid := bornPod(l, "", 1)
	if uid != string(*ac.UID) {
		t.Fatal("the pod was replaced")
	}
	l.Requests()
	l.Restart()
	l.Expect("restart after the upgrade")
	began := time.Now()
	l.Edit(i, "web", func() {
		i.Spec.Image, i.Spec.Pod.Labels = "nginx:1.23.0", map[string]common.LabelValue{"team": "a"}
	})
	l.Ready(i, "web")
	p := &corev1.Pod{}
	l.Get(p, "web-immortalpod")
	if string(p.UID) != uid || p.Spec.Hostname != "web" || p.Spec.Containers[0].Image != "nginx:1.23.0" || p.Labels["team"] != "a" || i.Status.StartTimes != 1 {
		t.Errorf("pod %+v with labels %v, %d starts", p.Spec, p.Labels, i.Status.StartTimes)
	}
	l.ExpectOf(time.Since(began), "patch immortalcontainers/status 200", "a change in place", "patch pods 200", "patch immortalcontainers/status 200")
	// A change that requires another pod creates one as this version does.
	l.Edit(i, "web", func() { i.Spec.Env[0].Value = "c" })
	bornPod(l, uid, 2)
	l.Get(p, "web-immortalpod")
	if p.Spec.Hostname != "" || p.Spec.SecurityContext.SeccompProfile == nil || p.Spec.Containers[0].Env[0].Value != "c" {
		t.Errorf("pod %+v", p.Spec)
	}
	l.Requests()
	l.Restart()
	l.Expect("restart after the pod was replaced")
}

func TestImmortalContainer_SuspendAndResume(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	i := immortal(l.Namespace, "web")
	l.Create(i)
	first := bornPod(l, "", 1)
	l.Requests()
	l.Edit(i, "web", func() { i.Spec.Suspend = true })
	l.Gone(&corev1.Pod{}, "web-immortalpod")
	l.Ready(i, "web")
	if c := meta.FindStatusCondition(i.Status.Conditions, common.ConditionReady); c.Reason != common.ReasonSuspended || i.Status.StartTimes != 1 || i.Status.PodUID != first || i.Status.CurrentPod != "" {
		t.Errorf("Ready %s, status %+v", c.Reason, i.Status)
	}
	l.Requests()
	l.Restart()
	l.Expect("restart while it is suspended")
	l.Edit(i, "web", func() { i.Spec.Suspend = false })
	bornPod(l, first, 2)
}

func TestImmortalContainer_DoesNotWriteThePodWhilePaused(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	i := immortal(l.Namespace, "web")
	l.Create(i)
	first := bornPod(l, "", 1)
	l.Edit(i, "web", func() { i.Spec.Paused, i.Spec.Image = true, "nginx:1.23.0" })
	paused := func() bool {
		c := meta.FindStatusCondition(i.Status.Conditions, common.ConditionReady)
		return c != nil && c.ObservedGeneration == i.Generation && c.Reason == common.ReasonPaused
	}
	l.Until("Ready to be False for Paused", i, "web", paused)
	p := &corev1.Pod{}
	l.Get(p, "web-immortalpod")
	if p.Spec.Containers[0].Image != "nginx:1.23.1" {
		t.Errorf("image %s while it is paused", p.Spec.Containers[0].Image)
	}
	if err := env.Admin.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	l.Requests()
	l.Until("still to be paused", i, "web", paused)
	if err := env.Admin.Get(t.Context(), client.ObjectKeyFromObject(p), p); !apierrors.IsNotFound(err) {
		t.Errorf("a pod came back while it was paused: %v", err)
	}
	l.Edit(i, "web", func() { i.Spec.Paused = false })
	bornPod(l, first, 2)
}

func TestImmortalContainer_CreatesAndDeletesTheNetworkPolicy(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	i := immortal(l.Namespace, "web")
	i.Spec.NetworkPolicy = &common.NetworkPolicy{Preset: common.NetworkPolicyIsolated}
	l.Create(i)
	uid := bornPod(l, "", 1)
	n := &networkingv1.NetworkPolicy{}
	l.Edit(n, "web-immortalpod", func() { n.Spec.Ingress = append(n.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{}) })
	l.Until("the rule that lets everybody in to go", n, "web-immortalpod", func() bool { return len(n.Spec.Ingress) == 1 })
	l.Edit(i, "web", func() { i.Spec.NetworkPolicy = nil })
	l.Gone(n, "web-immortalpod")
	l.Ready(i, "web")
	if i.Status.PodUID != uid {
		t.Error("the pod was replaced")
	}
}

// The schema alone rejects these specs.
func TestSchema_RejectsInvalidSpecs(t *testing.T) {
	t.Parallel()
	ns := env.NewNamespace(t)
	for name, tc := range map[string]struct{ spec, want string }{
		"nothing more":   {`{}`, ""},
		"everything":     {`{env: [{name: A, value: b}], command: [a], args: [b], probes: {liveness: {tcpSocket: {port: 80}}}, resources: {limits: {memory: 1Gi}}, pod: {priorityClassName: high}, security: {profile: Restricted}, networkPolicy: {preset: Isolated}, suspend: true, paused: true}`, ""},
		"a spread alone": {`{pod: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]}}`, "spec.pod.topologySpreadConstraints: Invalid value: each constraint must have a labelSelector"},
		"a spread":       {`{pod: {topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]}}`, ""},
		"root":           {`{security: {runAsUser: 0}}`, "spec.security.runAsUser"},
		"a rollout":      {`{rollout: {}}`, `unknown field "spec.rollout"`},
		"path of a node": {`{pod: {volumes: [{name: a, hostPath: {path: /}}]}}`, "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{Object: map[string]any{}}
			var spec map[string]any
			if err := yaml.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			spec["image"] = "nginx"
			u.Object["spec"] = spec
			u.SetGroupVersionKind(immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind))
			u.SetNamespace(ns)
			u.SetName("a")
			err := env.Admin.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict"))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestImmortalContainer_AdoptsThePodOfTheLegacyOperator(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	i := immortal(l.Namespace, "web")
	l.Create(i)
	i.Status.CurrentPod, i.Status.StartTimes = "web-immortalpod", 7
	if err := env.Admin.Status().Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: l.Namespace, Name: "web-immortalpod", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(i, immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind))},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "acontainer", Image: "nginx:1.23.1"}}},
	}
	if err := env.Admin.Create(t.Context(), p, client.FieldOwner("immortalcontainer-operator")); err != nil {
		t.Fatal(err)
	}
	l.Start()
	// The fields that this operator adds to the pod of the legacy operator cannot
	// be changed in a running pod, so it is replaced once, and counted once.
	bornPod(l, string(p.UID), 8)
}

// The gate is removed once the pod is counted, which does not happen to a released
// pod.
func TestImmortalContainer_OrphanedPodRunsUncounted(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	i := immortal(l.Namespace, "web")
	i.Spec.DeletionPolicy, i.Finalizers = common.DeletionPolicyOrphan, []string{naming.Finalizer}
	l.Create(i)
	l.Create(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-immortalpod", Namespace: l.Namespace, Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(i, immortalv1alpha1.GroupVersion.WithKind("ImmortalContainer"))},
		},
		Spec: corev1.PodSpec{
			Containers:      []corev1.Container{{Name: "acontainer", Image: "nginx:1.27.3"}},
			SchedulingGates: []corev1.PodSchedulingGate{{Name: naming.Domain + "/counted"}, {Name: "example.com/quota"}},
		},
	})
	if err := l.Admin.Delete(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	l.Start()
	l.Gone(i, "web")
	p := &corev1.Pod{}
	l.Get(p, "web-immortalpod")
	want := []corev1.PodSchedulingGate{{Name: "example.com/quota"}} // a gate that the operator does not own
	if d := cmp.Diff(want, p.Spec.SchedulingGates); d != "" || len(p.OwnerReferences) > 0 {
		t.Errorf("owners %v, gates (-want +got):\n%s", p.OwnerReferences, d)
	}
}

// A running pod is not terminated because its label or owner reference was removed.
func TestImmortalContainer_KeepsAPodWithoutLabelOrOwner(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func(*corev1.Pod){
		"label":     func(p *corev1.Pod) { delete(p.Labels, naming.LabelManagedBy) },
		"reference": func(p *corev1.Pod) { p.OwnerReferences = nil },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := env.NewSandbox(t, subject()).Start()
			i := immortal(l.Namespace, "web")
			l.Create(i)
			uid := bornPod(l, "", 1)
			p := &corev1.Pod{}
			l.Edit(p, "web-immortalpod", func() { damage(p) })
			l.Until("the marks to come back", p, "web-immortalpod", func() bool {
				return p.Labels[naming.LabelManagedBy] != "" && metav1.IsControlledBy(p, i)
			})
			l.Get(i, "web")
			if string(p.UID) != uid || i.Status.StartTimes != 1 {
				t.Errorf("pod %s with %d starts, was %s with 1", p.UID, i.Status.StartTimes, uid)
			}
		})
	}
}

func TestImmortalContainer_ReconcilesOnlyWatchedNamespaces(t *testing.T) {
	t.Parallel()
	env.Namespaces(t, specimen())
}
