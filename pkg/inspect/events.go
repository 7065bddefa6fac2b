package inspect

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// Pods returns the pods of an object, except those that are being deleted, sorted by name.
func (i Inspector) Pods(ctx context.Context, namespace string, ref Reference) ([]*corev1.Pod, error) {
	obj, _, err := i.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	w := &world{Inspector: i, namespace: namespace}
	pods := w.pods(ctx, obj)
	if len(w.notes) > 0 {
		return nil, fmt.Errorf("reading the pods of %s: %s", ref, strings.Join(w.notes, " "))
	}
	return slices.DeleteFunc(pods, func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }), nil
}

// Events returns the events of an object, of its children and of their ReplicaSets and pods,
// oldest first. Those of pods that no longer exist are included if their ReplicaSet exists.
func (i Inspector) Events(ctx context.Context, namespace string, ref Reference) ([]corev1.Event, error) {
	obj, _, err := i.Get(ctx, namespace, ref)
	if err != nil {
		return nil, err
	}
	return (&world{Inspector: i, namespace: namespace}).events(ctx, obj)
}

// events returns the events of an object as Events does.
func (w *world) events(ctx context.Context, obj *unstructured.Unstructured) ([]corev1.Event, error) {
	uids := map[types.UID]bool{obj.GetUID(): true}
	for _, t := range childTypes(obj) {
		for _, o := range w.labelled(ctx, t) {
			if naming.OwnerUID(o) == obj.GetUID() {
				uids[o.GetUID()] = true
			}
		}
	}
	for _, p := range w.pods(ctx, obj) {
		uids[p.UID] = true
	}
	var prefixes []string
	for _, rs := range w.labelled(ctx, &appsv1.ReplicaSet{}) {
		if len(rs.GetOwnerReferences()) > 0 && uids[rs.GetOwnerReferences()[0].UID] {
			uids[rs.GetUID()], prefixes = true, append(prefixes, rs.GetName()+"-")
		}
	}
	var list corev1.EventList
	if err := w.Client.List(ctx, &list, client.InNamespace(w.namespace)); err != nil {
		return nil, fmt.Errorf("listing events in namespace %q: %w", w.namespace, err)
	}
	all := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		of := e.InvolvedObject
		isPod := func(prefix string) bool { return of.Kind == "Pod" && strings.HasPrefix(of.Name, prefix) }
		return !uids[of.UID] && !slices.ContainsFunc(prefixes, isPod)
	})
	slices.SortStableFunc(all, func(a, b corev1.Event) int { return when(&a).Compare(when(&b)) })
	return all, nil
}

// Events writes a table of events.
func (p Printer) Events(w io.Writer, events []corev1.Event) error {
	rows := []row{{cells: cells("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")}}
	for _, e := range events {
		kind := cell{text: e.Type}
		if e.Type == corev1.EventTypeWarning {
			kind.color = yellow
		}
		object := strings.ToLower(e.InvolvedObject.Kind) + "/" + e.InvolvedObject.Name
		rows = append(rows, row{cells: []cell{{text: p.age(when(&e))}, kind, {text: e.Reason}, {text: object}, {text: oneLine(e.Message)}}})
	}
	var b strings.Builder
	p.table(&b, "", rows)
	return write(w, b.String())
}
