package rollout

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Draining nodes one by one replaces all pods of a revision at rest, and each
// new pod pulls a moving tag again.
func TestObserve_ShowsTheImageOfPodsThatWereReplaced(t *testing.T) {
	w := serving(t)
	owner := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}}
	d := w.seen.Deployment.DeepCopy()
	d.Namespace, d.Name, d.UID = "ns", "web", "d"
	d.OwnerReferences = []metav1.OwnerReference{{APIVersion: "x/v1", Kind: "Web", Name: "web", UID: types.UID("u"), Controller: new(true)}}
	p := pod(d.Spec.Template.Annotations[naming.AnnotationTemplate], corev1.ContainerStatus{Name: "web", Ready: true, ImageID: "sha256:moved"})
	p.Namespace, p.Name, p.Labels = "ns", "web-1", map[string]string{"app": "web"}
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(d, &p).
		WithIndex(&appsv1.ControllerRevision{}, naming.IndexOwner, func(client.Object) []string { return nil }).
		WithIndex(&corev1.Pod{}, podIndex("app"), Pods("app", nil).IndexValues).Build()
	seen, err := Observe(t.Context(), c, owner, "web", "app", map[string]string{"app": "web"})
	if err != nil {
		t.Fatal(err)
	}
	seen.Revisions = w.seen.Revisions
	decision, err := Decide(w.question(), seen)
	if err != nil {
		t.Fatal(err)
	}
	decision.Report(&w.status, seen.Deployment, seen.Pods, 3, "web", converge.Outcome{Now: w.now})
	if w.status.ImageID != "sha256:moved" {
		t.Errorf("all pods run sha256:moved, and status.imageID is %s", w.status.ImageID)
	}
}
