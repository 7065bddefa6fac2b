package testkit

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Restored replaces an object with a history, and its children, by what a backup has of them:
// without UIDs, owner references, managed fields and status. The object adopts all of them, and
// changes no pod.
func (e *Env) Restored(t *testing.T, s KindUnderTest) {
	l := e.NewSandbox(t, s.Subject).Start()
	const name = "web"
	obj := s.New(l.Namespace, name)
	l.Create(obj)
	l.Ready(obj, name)
	l.Edit(obj, name, func() { s.Edit(obj) })
	l.Ready(obj, name)
	l.Stop()
	before := s.restored(l, obj)
	l.Start()
	l.Ready(obj, name)
	l.Settle()
	after := s.listChildren(l)
	for key, child := range before {
		now := after[key]
		switch {
		case now == nil || now.GetUID() != child.GetUID():
			t.Errorf("%v was deleted", key)
		case !IsChild(now, obj):
			t.Errorf("%v has the owners %v", key, now.GetOwnerReferences())
		}
		if diff := cmp.Diff(podSpec(child), podSpec(now)); diff != "" {
			t.Errorf("%v would replace its pods (-before +after):\n%s", key, diff)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d children, want %d", len(after), len(before))
	}
	l.Requests()
	l.Restart()
	l.Expect("restart after the adoption")
}

// listChildren returns all children in the namespace, by kind and name.
func (s KindUnderTest) listChildren(l *Sandbox) map[string]*unstructured.Unstructured {
	l.Helper()
	all := map[string]*unstructured.Unstructured{}
	for _, t := range s.Subject.Children {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(builtinKind(t))
		if err := l.Admin.List(l.Context(), list, client.InNamespace(l.Namespace), client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy}); err != nil {
			l.Fatal(err)
		}
		for i := range list.Items {
			if o := &list.Items[i]; o.GetAnnotations()[naming.AnnotationApplied] != "" {
				all[o.GetKind()+" "+o.GetName()] = o
			}
		}
	}
	return all
}

// restored replaces an object and its children by their restored copies. It returns the
// children.
func (s KindUnderTest) restored(l *Sandbox, obj converge.Object) map[string]*unstructured.Unstructured {
	l.Helper()
	children := s.listChildren(l)
	copyOf := &unstructured.Unstructured{}
	gvk, err := apiutil.GVKForObject(obj, l.Admin.Scheme())
	if err != nil {
		l.Fatal(err)
	}
	copyOf.SetGroupVersionKind(gvk)
	l.Get(copyOf, obj.GetName())
	for _, o := range append(slices.Collect(maps.Values(children)), copyOf) { // the object last
		if err := l.Admin.Delete(l.Context(), o.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
			l.Fatal(err)
		}
		for _, field := range []string{"uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"} {
			unstructured.RemoveNestedField(o.Object, "metadata", field)
		}
		for _, path := range [][]string{{"status"}, {"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "nodeName"}} {
			unstructured.RemoveNestedField(o.Object, path...)
		}
		l.Create(o)
	}
	return children
}

// podSpec returns the pod template of a Deployment, or the spec of a pod, without its node.
func podSpec(o *unstructured.Unstructured) any {
	if o == nil {
		return nil
	}
	switch o.GetKind() {
	case "Deployment":
		template, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
		return template
	case "Pod":
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		delete(spec, "nodeName")
		return spec
	}
	return nil
}
