package eviction

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// Path is where the webhook is served.
const Path = "/evict"

// timeout limits the requests of the webhook, which are shorter than the API server
// waits for its answer.
const timeout = 2 * time.Second

// Cluster provides the clients of the webhook, of which the reader is not cached.
type Cluster interface {
	GetAPIReader() client.Reader
	GetClient() client.Client
}

// Webhook returns the handler of requests to evict pods. It reads from the API server, as
// every replica of the operator serves it. What it cannot decide is allowed.
func Webhook(c Cluster) *admission.Webhook {
	return &admission.Webhook{Handler: evictions{c, time.Now}}
}

type evictions struct {
	cluster Cluster
	now     func() time.Time
}

// Handle implements admission.Handler.
func (e evictions) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.DryRun != nil && *req.DryRun {
		return admission.Allowed("")
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	until, err := e.refusedUntil(ctx, types.NamespacedName{Namespace: req.Namespace, Name: req.Name})
	if err != nil {
		log.FromContext(ctx).Info("An eviction is allowed because it cannot be decided about", "pod", req.Namespace+"/"+req.Name, "error", err.Error())
	}
	if err != nil || until.IsZero() {
		return admission.Allowed("")
	}
	// Clients retry an eviction after this status, as they do for a PodDisruptionBudget.
	return refuse(fmt.Sprintf(
		"another pod is started before this one may be evicted, which is when that pod is ready, and in any case at %s", until.UTC().Format(time.RFC3339)))
}

// refusedUntil returns until when a pod must not be evicted, or zero if it may be.
func (e evictions) refusedUntil(ctx context.Context, key types.NamespacedName) (time.Time, error) {
	pod := &corev1.Pod{}
	if err := e.cluster.GetAPIReader().Get(ctx, key, pod); err != nil {
		return time.Time{}, client.IgnoreNotFound(err) //nolint:wrapcheck // it names the pod
	}
	now := e.now()
	r := of(pod, now)
	if !isCandidate(pod) || r.Over {
		return time.Time{}, nil
	}
	if spare, err := e.hasSpare(ctx, pod); spare || err != nil {
		return time.Time{}, err
	}
	if !r.At.IsZero() {
		return r.Until(), nil
	}
	if leaves, err := e.leaves(ctx, pod); !leaves || err != nil {
		return time.Time{}, err
	}
	r.At = now.Truncate(time.Second)
	return r.Until(), e.record(ctx, pod, r.At)
}

// leaves reports whether the node of a pod accepts no such pods any more: it is cordoned,
// or has a taint that the pod does not tolerate. Without that, a client that can connect to
// the webhook could have pods replaced.
func (e evictions) leaves(ctx context.Context, pod *corev1.Pod) (bool, error) {
	node := &corev1.Node{}
	if err := e.cluster.GetAPIReader().Get(ctx, client.ObjectKey{Name: pod.Spec.NodeName}, node); err != nil {
		return false, fmt.Errorf("reading the node: %w", err)
	}
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(log.FromContext(ctx), &taint, true)
		})
	}), nil
}

// isCandidate reports whether a pod may be one of an object's Deployment that serves.
func isCandidate(p *corev1.Pod) bool {
	c := metav1.GetControllerOf(p)
	return naming.IsLabelled(p) && c != nil && c.Kind == "ReplicaSet" && p.DeletionTimestamp == nil && !podstate.HasEnded(p) && podstate.Ready(p)
}

// hasSpare reports whether enough pods remain when a pod is evicted. It is also true if
// no budget of the operator states how many there must be.
func (e evictions) hasSpare(ctx context.Context, pod *corev1.Pod) (bool, error) {
	var budgets policyv1.PodDisruptionBudgetList
	err := e.cluster.GetAPIReader().List(ctx, &budgets, client.InNamespace(pod.Namespace), client.MatchingLabels{naming.LabelManagedBy: naming.ManagedBy})
	if err != nil {
		return false, fmt.Errorf("listing the budgets: %w", err)
	}
	for _, b := range budgets.Items {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		keep, stated := b.Annotations[naming.AnnotationKeepAvailable]
		if !stated {
			return true, nil
		}
		n, err := strconv.ParseInt(keep, 10, 32)
		return int64(b.Status.CurrentHealthy) > n, err //nolint:wrapcheck // it quotes the value
	}
	return true, nil
}

// record records the first request on the pod. The cost makes the ReplicaSet controller
// delete this pod, rather than the one that replaces it.
func (e evictions) record(ctx context.Context, pod *corev1.Pod, at time.Time) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID,
		"annotations": map[string]string{
			naming.AnnotationEvictionRequested: at.UTC().Format(time.RFC3339),
			corev1.PodDeletionCost:             strconv.Itoa(-1 << 31),
		},
	}})
	if err != nil {
		return fmt.Errorf("encoding the request: %w", err)
	}
	// Otherwise the client would watch the pods of the cluster, to wait for its own writes.
	err = e.cluster.GetClient().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch), client.DisableReadYourWritesConsistency)
	if err != nil {
		return fmt.Errorf("recording the request: %w", err)
	}
	return nil
}

// refuse refuses a request in the way of a PodDisruptionBudget.
func refuse(message string) admission.Response {
	r := admission.Denied("")
	r.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusTooManyRequests, Reason: metav1.StatusReasonTooManyRequests, Message: message}
	return r
}
