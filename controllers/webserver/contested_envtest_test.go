//go:build envtest

package webserver

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// mutateDeployments changes a stated field of each Deployment that is written in
// the namespace, and adds an exclusive one.
func mutateDeployments(l *testkit.Sandbox) {
	l.Helper()
	policy := &admissionv1.MutatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: l.Namespace},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: l.Namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}},
				}}},
			},
			FailurePolicy:      new(admissionv1.Fail),
			ReinvocationPolicy: admissionv1.NeverReinvocationPolicy,
			Mutations: []admissionv1.Mutation{{
				PatchType: admissionv1.PatchTypeApplyConfiguration,
				ApplyConfiguration: &admissionv1.ApplyConfiguration{Expression: `Object{spec: Object.spec{
					revisionHistoryLimit: 7,
					template: Object.spec.template{spec: Object.spec.template.spec{hostname: "changed"}}}}`},
			}},
		},
	}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: l.Namespace},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: l.Namespace},
	}
	for _, o := range []client.Object{policy, binding} {
		l.Create(o)
		l.Cleanup(func() {
			if err := l.Admin.Delete(context.Background(), o); err != nil {
				l.Error(err)
			}
		})
	}
	l.Eventually("the policy to be effective", func(ctx context.Context) (bool, error) {
		labels := map[string]string{"app": "probe"}
		d := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: "probe"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "probe", Image: "probe"}}},
				},
			},
		}
		err := l.Admin.Create(ctx, d, client.DryRunAll)
		return err == nil && *d.Spec.RevisionHistoryLimit == 7, err
	})
}

// A policy changes the Deployments in the operator's own requests. Each process writes
// them once, which changes no field of their spec, and then leaves them as they are.
func TestWebServer_WritesContestedChildrenOncePerProcess(t *testing.T) {
	t.Parallel()
	const objects = 3
	l := env.NewSandbox(t, subject())
	mutateDeployments(l)
	l.Start()
	for i := range objects {
		name := fmt.Sprintf("web-%d", i)
		w := webServer(l.Namespace, name)
		l.Create(w)
		l.Ready(w, name)
		d := &appsv1.Deployment{}
		l.Get(d, name)
		if d.Spec.Template.Spec.Hostname == "" {
			t.Errorf("the policy did not change %s", name)
		}
	}
	l.Settle()
	specs := func() (all []appsv1.DeploymentSpec) {
		for i := range objects {
			d := &appsv1.Deployment{}
			l.Get(d, fmt.Sprintf("web-%d", i))
			all = append(all, d.Spec)
		}
		return all
	}
	created := specs()
	expectWrites := func(process string) {
		t.Helper()
		deployments := 0
		for _, r := range l.Requests() {
			if r.Resource == "deployments" && r.IsWrite() {
				deployments++
			}
		}
		if deployments != objects {
			t.Errorf("%s sent %d writes of Deployments, want %d", process, deployments, objects)
		}
	}
	expectWrites("the first process")

	l.Restart()
	l.Settle()
	expectWrites("the second process")
	if d := cmp.Diff(created, specs()); d != "" {
		t.Errorf("the second process changed the Deployments (-before +after):\n%s", d)
	}
}
