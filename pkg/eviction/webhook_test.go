package eviction

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// ready returns a pod of a ReplicaSet of the operator that is ready.
func ready(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "web-1", UID: "uid", Labels: map[string]string{"app": "web", naming.LabelManagedBy: naming.ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "rs", Controller: new(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: "node1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func since(age time.Duration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations = requested(age).Annotations }
}

// budget returns the budget of the pods, with the number of pods to keep, if any.
func budget(keep string, healthy int32) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", Labels: map[string]string{naming.LabelManagedBy: naming.ManagedBy}},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		Status:     policyv1.PodDisruptionBudgetStatus{CurrentHealthy: healthy},
	}
	if keep != "" {
		b.Annotations = map[string]string{naming.AnnotationKeepAvailable: keep}
	}
	return b
}

type cluster struct{ client.Client }

func (c cluster) GetAPIReader() client.Reader { return c }
func (c cluster) GetClient() client.Client    { return c }

func TestWebhook(t *testing.T) {
	finalized := func(p *corev1.Pod) {
		deleted(p)
		p.Finalizers = []string{"example.com/wait"}
	}
	other := budget("1", 1)
	other.Spec.Selector.MatchLabels["app"] = "other"
	for name, tc := range map[string]struct {
		live     []client.Object
		node     corev1.NodeSpec // cordoned if it is empty
		dryRun   bool
		fails    bool
		refused  bool
		until    time.Duration // from now
		recorded bool
	}{
		"the only pod":                     {live: []client.Object{ready(), budget("1", 1)}, refused: true, until: Wait, recorded: true},
		"the only pod, asked again":        {live: []client.Object{ready(since(time.Minute)), budget("1", 1)}, refused: true, until: Wait - time.Minute},
		"it has been replaced":             {live: []client.Object{ready(since(time.Minute)), budget("1", 2)}},
		"it could not be replaced":         {live: []client.Object{ready(since(Wait)), budget("1", 1)}},
		"it could not be, a while ago":     {live: []client.Object{ready(since(2 * Wait)), budget("1", 1)}, refused: true, until: Wait, recorded: true},
		"the only one of several is ready": {live: []client.Object{ready(), budget("2", 1)}, refused: true, until: Wait, recorded: true},
		"one of more than have to stay":    {live: []client.Object{ready(), budget("1", 2)}},
		"a taint of an autoscaler": {
			live: []client.Object{ready(), budget("1", 1)}, refused: true, until: Wait, recorded: true,
			node: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}},
		},
		"a taint that the pod tolerates": {
			live: []client.Object{budget("1", 1), ready(func(p *corev1.Pod) {
				p.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
			})},
			node: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}},
		},
		"a taint that only repels": {
			live: []client.Object{ready(), budget("1", 1)},
			node: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "busy", Effect: corev1.TaintEffectPreferNoSchedule}}},
		},
		"a node that stays": {live: []client.Object{ready(), budget("1", 1)}, node: corev1.NodeSpec{ProviderID: "x"}},
		"a node that was uncordoned": {
			live: []client.Object{ready(since(time.Minute)), budget("1", 1)}, node: corev1.NodeSpec{ProviderID: "x"},
			refused: true, until: Wait - time.Minute,
		},
		"no node":                        {live: []client.Object{budget("1", 1), ready(func(p *corev1.Pod) { p.Spec.NodeName = "other" })}},
		"a budget that states no number": {live: []client.Object{ready(), budget("", 1)}},
		"a budget of other pods":         {live: []client.Object{ready(), other}},
		"no budget":                      {live: []client.Object{ready()}},
		"no pod":                         {live: []client.Object{budget("1", 1)}},
		"a dry run":                      {live: []client.Object{ready(), budget("1", 1)}, dryRun: true},
		"the record cannot be written":   {live: []client.Object{ready(), budget("1", 1)}, fails: true},
		"a pod that is not ready": {live: []client.Object{budget("1", 1), ready(func(p *corev1.Pod) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
		})}},
		"a pod that is being deleted": {live: []client.Object{ready(finalized), budget("1", 1)}},
		"a pod that has ended":        {live: []client.Object{ready(failed), budget("1", 1)}},
		"a pod of another kind": {live: []client.Object{budget("1", 1), ready(func(p *corev1.Pod) {
			p.OwnerReferences[0].Kind = "ImmortalContainer"
		})}},
		"an unowned pod": {live: []client.Object{budget("1", 1), ready(func(p *corev1.Pod) {
			delete(p.Labels, naming.LabelManagedBy)
		})}},
	} {
		t.Run(name, func(t *testing.T) {
			patches := 0
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}, Spec: tc.node}
			node.Spec.Unschedulable = cmp.Equal(tc.node, corev1.NodeSpec{})
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.live...).WithObjects(node).WithInterceptorFuncs(interceptor.Funcs{
				Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if tc.fails {
						return errors.New("refused")
					}
					if !(&client.PatchOptions{}).ApplyOptions(opts).DisableReadYourWritesConsistency {
						t.Error("the client starts to watch pods")
					}
					patches++
					return w.Patch(ctx, o, p, opts...)
				},
			}).Build()
			h := evictions{cluster{c}, func() time.Time { return now }}
			got := h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Namespace: "ns", Name: "web-1", DryRun: &tc.dryRun}})
			if got.Allowed == tc.refused {
				t.Fatalf("allowed: %v, %v", got.Allowed, got.Result)
			}
			if (patches == 1) != tc.recorded {
				t.Errorf("%d patches", patches)
			}
			if !tc.refused {
				return
			}
			if at := now.Add(tc.until).Format(time.RFC3339); got.Result.Code != http.StatusTooManyRequests || !strings.HasSuffix(got.Result.Message, " "+at) {
				t.Errorf("got %d %q, want until %s", got.Result.Code, got.Result.Message, at)
			}
			var p corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "web-1"}, &p); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{naming.AnnotationEvictionRequested: now.Add(tc.until - Wait).Format(time.RFC3339)}
			if tc.recorded {
				want[corev1.PodDeletionCost] = "-2147483648"
			}
			if diff := cmp.Diff(want, p.Annotations); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
