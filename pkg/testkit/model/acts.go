package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

func gvkOf(kind string) schema.GroupVersionKind {
	return childKinds[slices.IndexFunc(childKinds, func(k schema.GroupVersionKind) bool { return k.Kind == kind })]
}

// child reads a child; the error is errSkip if it does not exist.
func (w *World) child(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvkOf(ref.Kind))
	err := w.env.Admin.Get(ctx, client.ObjectKey{Namespace: w.ns, Name: ref.Name}, u)
	if apierrors.IsNotFound(err) {
		return nil, errSkip
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", ref, err)
	}
	return u, nil
}

// children returns the live objects of the types that the operator creates.
func (w *World) children(ctx context.Context) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, gvk := range childKinds {
		l := &unstructured.UnstructuredList{}
		l.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		if err := w.env.Admin.List(ctx, l, client.InNamespace(w.ns)); err != nil {
			return nil, fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		all = append(all, l.Items...)
	}
	return all, nil
}

func (w *World) patchChild(ctx context.Context, ref Ref, how types.PatchType, patch string) error {
	u, err := w.child(ctx, ref)
	if err != nil {
		return err
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
	u, err := w.child(ctx, ref)
	if err != nil {
		return err
	}
	return client.IgnoreNotFound(w.env.Admin.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// scale sets the replicas of an autoscaled Deployment, like the autoscaler.
func (w *World) scale(ctx context.Context, replicas int32) error {
	if _, err := w.child(ctx, hpaOf(w.kind)); err != nil {
		return err
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: w.kind.Workload.Name}}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	err := w.env.Admin.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale), client.FieldOwner("kube-controller-manager"))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return errSkip
	}
	return err
}

// deletePods deletes pods. Those that show why a spec does not work are not deleted: the
// next ones would have only a second, the deadline of most chains, to show that it works again.
func (w *World) deletePods(ctx context.Context, most int) error {
	all, err := w.cluster.snapshot(ctx)
	if err != nil {
		return err
	}
	pods := all.pods
	if len(pods) == 0 || w.memory.failing {
		return errSkip
	}
	for i := range pods[:min(most, len(pods))] {
		if err := w.env.Admin.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting a pod: %w", err)
		}
	}
	return nil
}

func (w *World) deleteRevisions(ctx context.Context) error {
	w.memory.historyDeleted = true
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
	if apierrors.IsInvalid(err) { // some counts in the status are required
		u.Object["status"] = map[string]any{"replicas": int64(0), "readyReplicas": int64(0), "updatedReplicas": int64(0), "startTimes": int64(0)}
		err = w.env.Admin.Status().Update(ctx, u)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errSkip
	}
	w.memory.unsure = true
	return err
}

func orSkip(err error) error { return cmp.Or(err, errSkip) }

// inputOf returns the ConfigMap or the Secret that specs refer to.
func (w *World) inputOf(kind, content string) client.Object {
	meta := metav1.ObjectMeta{Namespace: w.ns, Name: "cm"}
	if kind == "Secret" {
		meta.Name = "secret"
		return &corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"tls.crt": content, "tls.key": content}}
	}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"server.conf": content, "index.html": content}}
}

func (w *World) writeInput(ctx context.Context, kind, content string) error {
	w.memory.edited(false)
	err := w.env.Admin.Create(ctx, w.inputOf(kind, content))
	if apierrors.IsAlreadyExists(err) {
		err = w.env.Admin.Update(ctx, w.inputOf(kind, content))
	}
	return err
}

func (w *World) deleteInput(ctx context.Context, kind string) error {
	w.memory.edited(true)
	err := w.env.Admin.Delete(ctx, w.inputOf(kind, ""))
	if apierrors.IsNotFound(err) {
		return errSkip
	}
	return err
}

// live changes the status of the newest pods that run.
func (w *World) live(ctx context.Context, most int, change func(*Cluster, *corev1.Pod)) error {
	all, err := w.cluster.snapshot(ctx)
	if err != nil {
		return err
	}
	pods := all.pods
	created := func(p corev1.Pod) int {
		n, _ := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:]) // the only pod has no number
		return n
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(created(b), created(a)) })
	pods = slices.DeleteFunc(pods, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil })
	for i := range pods[:min(most, len(pods))] {
		before := pods[i].DeepCopy()
		change(w.cluster, &pods[i])
		if _, err := w.cluster.writePod(ctx, before, &pods[i]); err != nil {
			return err
		}
	}
	return nil
}

// end ends a pod.
func end(p *corev1.Pod, phase corev1.PodPhase, reason string, code int32) {
	p.Status.Phase, p.Status.Reason = phase, reason
	setPodCondition(p, corev1.PodReady, corev1.ConditionFalse, "PodCompleted")
	for i := range p.Status.ContainerStatuses {
		s := &p.Status.ContainerStatuses[i]
		s.Ready, s.State = false, corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
}

// restart restarts containers.
func restart(all []corev1.ContainerStatus, exit corev1.ContainerStateTerminated) {
	for i := range all {
		s := &all[i]
		s.RestartCount++
		s.LastTerminationState.Terminated = &exit
		if s.State.Running != nil {
			s.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.Now()}
		}
	}
}

// reboot restarts the node of a pod, whose init containers run again.
func reboot(_ *Cluster, p *corev1.Pod) {
	restart(p.Status.InitContainerStatuses, corev1.ContainerStateTerminated{Reason: "Completed"})
	restart(p.Status.ContainerStatuses, corev1.ContainerStateTerminated{ExitCode: 255, Reason: "Unknown"})
}
