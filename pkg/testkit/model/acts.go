package model

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/testkit/wire"
)

var childKinds = []schema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "Service"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "NetworkPolicy"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress"},
	{Version: "v1", Kind: "Pod"},
	{Version: "v1", Kind: "ConfigMap"},
	{Group: "apps", Version: "v1", Kind: "ControllerRevision"},
}

func (w *World) child(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	for _, k := range childKinds {
		if k.Kind == ref.Kind {
			u.SetGroupVersionKind(k)
		}
	}
	err := w.env.Admin.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: ref.Name}, u)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return u, nil
}

// children returns the live objects of the types that the operator creates.
func (w *World) children(ctx context.Context) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, k := range childKinds {
		items, err := w.list(ctx, k)
		if err != nil {
			return nil, err
		}
		all = append(all, items...)
	}
	return all, nil
}

// list reads the objects of a type.
func (w *World) list(ctx context.Context, gvk schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	l := &unstructured.UnstructuredList{}
	l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err := w.env.Admin.List(ctx, l, client.InNamespace(w.ns)); err != nil {
		return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
	}
	return l.Items, nil
}

func (w *World) own(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	if w.foreign[ref] != nil {
		return nil, errSkip
	}
	u, err := w.child(ctx, ref)
	if err == nil && u == nil {
		return nil, errSkip
	}
	return u, err
}

func (w *World) patchChild(ctx context.Context, ref Ref, how types.PatchType, patch string) error {
	u, err := w.own(ctx, ref)
	if err != nil {
		return err
	}
	if strings.Contains(patch, "ownerReferences") {
		// Without its owner, a child of an earlier object is not deleted with that,
		// and has nothing to do with the one that has its name now.
		object, err := w.object(ctx)
		if err != nil || object == nil {
			return cmp.Or(err, errSkip)
		}
		if c := metav1.GetControllerOf(u); c != nil && c.UID != object.GetUID() {
			return errSkip
		}
	}
	if !w.memory.patch(ref) {
		return errSkip
	}
	options := []client.PatchOption{client.FieldOwner("kubectl-patch")}
	if how == types.ApplyPatchType {
		options = []client.PatchOption{client.FieldOwner("other-tool"), client.ForceOwnership}
	}
	err = w.env.Admin.Patch(ctx, u, client.RawPatch(how, []byte(patch)), options...)
	if apierrors.IsInvalid(err) || apierrors.IsNotFound(err) || apierrors.IsBadRequest(err) {
		return errSkip
	}
	return err
}

func (w *World) deleteChild(ctx context.Context, ref Ref) error {
	u, err := w.own(ctx, ref)
	if err != nil {
		return err
	}
	w.memory.deletions++
	return client.IgnoreNotFound(w.env.Admin.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

func (w *World) deployment(ctx context.Context) (*appsv1.Deployment, error) {
	var d appsv1.Deployment
	err := w.env.Admin.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: w.kind.Workload.Name}, &d)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the Deployment: %w", err)
	}
	return &d, nil
}

func (w *World) pods(ctx context.Context) ([]corev1.Pod, error) {
	var l corev1.PodList
	if err := w.env.Admin.List(ctx, &l, client.InNamespace(w.ns)); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	return l.Items, nil
}

// undo does the same as kubectl rollout undo.
func (w *World) undo(ctx context.Context) error {
	d, err := w.deployment(ctx)
	if err != nil {
		return err
	}
	if d == nil {
		return errSkip
	}
	t, annotations, ok := w.cluster.Earlier(d)
	if !ok || !w.memory.patch(w.kind.Workload) {
		return errSkip
	}
	raw, err := json.Marshal([]map[string]any{
		{"op": "replace", "path": "/spec/template", "value": t},
		{"op": "add", "path": "/metadata/annotations", "value": annotations},
	})
	if err != nil {
		return fmt.Errorf("encoding the ReplicaSet: %w", err)
	}
	return client.IgnoreNotFound(w.env.Admin.Patch(ctx, d, client.RawPatch(types.JSONPatchType, raw), client.FieldOwner("kubectl-rollout")))
}

func (w *World) deletePods(ctx context.Context, most int) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return errSkip
	}
	w.memory.evicted = true
	for i := range pods[:min(most, len(pods))] {
		w.memory.deletions++
		if err := w.env.Admin.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting a pod: %w", err)
		}
	}
	return nil
}

func (w *World) deleteRevisions(ctx context.Context) error {
	if !w.memory.historyDeleted {
		w.memory.historyDeleted = true
		_, w.memory.deletedAt = w.history.since(0)
	}
	return w.env.Admin.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(w.ns))
}

// eraseStatus removes the status, like a restore from a backup.
func (w *World) eraseStatus(ctx context.Context) error {
	u, err := w.object(ctx)
	if err != nil || u == nil {
		return orSkip(err)
	}
	u.Object["status"] = map[string]any{}
	err = w.env.Admin.Status().Update(ctx, u)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errSkip
	}
	if apierrors.IsInvalid(err) { // some counts in the status are required
		u.Object["status"] = map[string]any{"replicas": int64(0), "readyReplicas": int64(0), "updatedReplicas": int64(0), "startTimes": int64(0)}
		err = w.env.Admin.Status().Update(ctx, u)
	}
	if err == nil {
		w.memory.statusLost = true
	}
	return err
}

func orSkip(err error) error {
	if err == nil {
		return errSkip
	}
	return err
}

// inputName returns the name of the ConfigMap or Secret that specs refer to.
func inputName(kind string) string {
	if kind == "Secret" {
		return "secret"
	}
	return "cm"
}

func (w *World) writeInput(ctx context.Context, kind, content string) error {
	w.memory.edits++
	w.memory.doubtful = w.memory.doubtful || strings.Contains(content, wrongConfig)
	var o client.Object
	named := metav1.ObjectMeta{Namespace: w.ns, Name: inputName(kind)}
	if kind == "Secret" {
		o = &corev1.Secret{ObjectMeta: named, StringData: map[string]string{"tls.crt": content, "tls.key": content}}
	} else {
		o = &corev1.ConfigMap{ObjectMeta: named, Data: map[string]string{"server.conf": content, "index.html": content}}
	}
	err := w.env.Admin.Create(ctx, o)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if u, err := w.object(ctx); err == nil && u != nil && kind == "ConfigMap" {
		w.memory.changedFor = inputsOf(specOf(u), nil)
	}
	return w.env.Admin.Update(ctx, o)
}

func (w *World) deleteInput(ctx context.Context, kind string) error {
	w.memory.edits++
	w.memory.doubtful = true
	var o client.Object = &corev1.ConfigMap{}
	if kind == "Secret" {
		o = &corev1.Secret{}
	}
	o.SetNamespace(w.ns)
	o.SetName(inputName(kind))
	err := w.env.Admin.Delete(ctx, o)
	if apierrors.IsNotFound(err) {
		return errSkip
	}
	return err
}

// foreignSpecs are the specs of unowned objects, by kind.
var foreignSpecs = map[string]string{
	"Service":                 `{"ports":[{"port":4321}],"selector":{"app":"theirs"}}`,
	"Ingress":                 `{"defaultBackend":{"service":{"name":"theirs","port":{"number":80}}}}`,
	"HorizontalPodAutoscaler": `{"maxReplicas":3,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"theirs"}}`,
	"PodDisruptionBudget":     `{"maxUnavailable":1,"selector":{"matchLabels":{"app":"theirs"}}}`,
	"NetworkPolicy":           `{"podSelector":{"matchLabels":{"app":"theirs"}}}`,
}

// putForeign replaces a child by an unowned object of the same name.
func (w *World) putForeign(ctx context.Context, ref Ref) error {
	if w.foreign[ref] != nil {
		return errSkip
	}
	for range 20 {
		live, err := w.child(ctx, ref)
		if err != nil {
			return err
		}
		if live != nil {
			if err := client.IgnoreNotFound(w.env.Admin.Delete(ctx, live)); err != nil {
				return fmt.Errorf("deleting %s: %w", ref, err)
			}
		}
		u := &unstructured.Unstructured{}
		for _, k := range childKinds {
			if k.Kind == ref.Kind {
				u.SetGroupVersionKind(k)
			}
		}
		u.SetNamespace(w.ns)
		u.SetName(ref.Name)
		var spec map[string]any
		if err := json.Unmarshal([]byte(foreignSpecs[ref.Kind]), &spec); err != nil {
			return fmt.Errorf("decoding the spec of another's %s: %w", ref.Kind, err)
		}
		u.Object["spec"] = runtimeCopy(spec)
		err = w.env.Admin.Create(ctx, u, client.FieldOwner("somebody"))
		if err == nil {
			w.foreign[ref] = w.unchanging(u)
			return nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating another's %s: %w", ref, err)
		}
	}
	return errSkip // the operator is faster each time
}

func (w *World) removeForeign(ctx context.Context, ref Ref) error {
	if w.foreign[ref] == nil {
		return errSkip
	}
	u, err := w.child(ctx, ref)
	if err != nil || u == nil {
		return orSkip(err)
	}
	delete(w.foreign, ref)
	return client.IgnoreNotFound(w.env.Admin.Delete(ctx, u))
}

// unchanging returns the fields of an unowned object that must not change.
func (w *World) unchanging(u *unstructured.Unstructured) map[string]any {
	c := u.DeepCopy()
	delete(c.Object, "status")
	c.SetResourceVersion("")
	c.SetManagedFields(slices.DeleteFunc(c.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Subresource == "status" }))
	return c.Object
}

// faultOps returns the operations that disturb the operator.
func faultOps() []Op {
	all := []Op{
		ofHistory(other("restart-operator", nil, func(ctx context.Context, w *World) error {
			w.kill()
			return w.start(ctx)
		})),
		early(other("two-namespaces", nil, func(ctx context.Context, w *World) error {
			w.others = []string{metav1.NamespaceDefault}
			w.kill()
			return w.start(ctx)
		})),
		disturb(other("stale-object", nil, stale(func(k *Kind) []string { return []string{k.Name + "s"} }))),
		disturb(other("stale-workload", nil, stale(func(k *Kind) []string {
			if k.hasDeployment() {
				return []string{"deployments"}
			}
			return []string{"pods"}
		}))),
		disturb(other("stale-children", nil, stale(func(*Kind) []string {
			var all []string
			for _, gvk := range childKinds {
				resource, _ := meta.UnsafeGuessKindToResource(gvk)
				all = append(all, resource.Resource)
			}
			return all
		}))),
		disturb(other("stale-all", nil, stale(func(*Kind) []string { return []string{""} }))),
		disturb(other("break-watches", nil, func(_ context.Context, w *World) error {
			w.leader.wire.BreakWatches()
			return nil
		})),
		early(other("clock-back", nil, func(_ context.Context, w *World) error { w.skew.Add(-int64(24 * time.Hour)); return nil })),
		early(other("clock-forth", nil, func(_ context.Context, w *World) error { w.skew.Add(int64(24 * time.Hour)); return nil })),
	}
	for n := 1; n <= 4; n++ {
		all = append(all,
			disturb(other(fmt.Sprintf("crash-before-%d", n), nil, armed(wire.Fault{Kind: wire.CrashBefore, At: n}))),
			disturb(other(fmt.Sprintf("crash-after-%d", n), nil, armed(wire.Fault{Kind: wire.CrashAfter, At: n}))))
	}
	for n := 1; n <= 2; n++ {
		for _, code := range []int{http.StatusConflict, http.StatusTooManyRequests, http.StatusInternalServerError} {
			all = append(all, disturb(other(fmt.Sprintf("refuse-%d-%d", code, n), nil, armed(wire.Fault{Kind: wire.Refuse, At: n, Code: code}))))
		}
		all = append(all, disturb(other(fmt.Sprintf("lose-answer-%d", n), nil, armed(wire.Fault{Kind: wire.Lose, At: n}))))
	}
	return all
}

func armed(f wire.Fault) func(context.Context, *World) error {
	return func(_ context.Context, w *World) error {
		if w.leader.wire.IsDead() {
			return errSkip
		}
		w.leader.wire.Arm(f)
		return nil
	}
}

// stale delays the events of some resources until the operator has had time to react
// to everything else.
func stale(resources func(*Kind) []string) func(context.Context, *World) error {
	return func(_ context.Context, w *World) error {
		l := w.leader
		if l.wire.IsDead() {
			return errSkip
		}
		w.unaware = w.unaware || len(w.others) > 0 // it does not wait for its own writes
		for _, resource := range resources(w.kind) {
			l.wire.Freeze(resource)
		}
		w.afterOps = append(w.afterOps, func(ctx context.Context) error {
			err := w.idle(ctx)
			if err == nil {
				_, err = w.cluster.Step(ctx)
			}
			if err == nil {
				var s *scene
				s, err = w.look(ctx)
				w.rememberEdited(s)
			}
			if err == nil {
				err = w.idle(ctx)
			}
			l.wire.Thaw()
			return err
		})
		return nil
	}
}

// later executes some turns.
func (w *World) later(ctx context.Context) error {
	for range 5 {
		moved, err := w.turn(ctx)
		if err != nil || !moved {
			return err
		}
	}
	return nil
}
