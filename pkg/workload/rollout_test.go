package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Pods are read at rest, and without a Deployment.
func TestObserveRollout(t *testing.T) {
	meta := func(name, owner string, labels map[string]string) metav1.ObjectMeta {
		m := metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-of-" + name), Labels: labels}
		if owner != "" {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "Web", Name: owner, UID: types.UID(owner), Controller: new(true)}}
		}
		return m
	}
	web, other := map[string]string{"app": "web", "x": "y"}, map[string]string{"app": "web"}
	deleted := meta("web-1", "web", nil)
	deleted.Finalizers, deleted.DeletionTimestamp = []string{"example.com/wait"}, new(metav1.Now())
	owned := []client.Object{&appsv1.Deployment{ObjectMeta: meta("web", "web", nil)}}
	unowned := []client.Object{&appsv1.Deployment{ObjectMeta: meta("web", "other", nil)}}
	common := []client.Object{
		&corev1.Pod{ObjectMeta: meta("web-x", "", web)}, &corev1.Pod{ObjectMeta: meta("other", "", other)},
		&appsv1.ControllerRevision{ObjectMeta: deleted}, &appsv1.ControllerRevision{ObjectMeta: meta("web-2", "web", nil)},
		&appsv1.ControllerRevision{ObjectMeta: meta("other-1", "other", nil)},
	}
	for name, tc := range map[string]struct {
		live       []client.Object
		deployment string
	}{
		"at rest":               {live: owned, deployment: "web"},
		"an unowned Deployment": {live: unowned},
		"no Deployment":         {},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(common...).WithObjects(tc.live...).
				WithIndex(&appsv1.ControllerRevision{}, naming.IndexOwner, func(o client.Object) []string {
					return []string{string(metav1.GetControllerOf(o).UID)}
				}).
				WithIndex(&corev1.Pod{}, podIndex("app"), Pods("app", map[string]string{"x": "y"}).IndexValues).Build()
			owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "web"}}
			seen, err := ObserveRollout(t.Context(), c, owner, "web", "app", web)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			if seen.Deployment != nil {
				got = append(got, seen.Deployment.Name)
			}
			for _, r := range seen.Revisions {
				got = append(got, r.Name)
			}
			for _, p := range seen.Pods {
				got = append(got, p.Name)
			}
			want := []string{"web-2", "web-x"}
			if tc.deployment != "" {
				want = append([]string{tc.deployment}, want...)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
