package model

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// Cluster simulates the controllers and the nodes of one namespace. It moves only
// on request.
type Cluster struct {
	// refusal is why no pods of Deployments are created, and full reports that no node can
	// run more than room other ones.
	refusal string
	full    bool
	room    int
	// lost are the pods on nodes that do not respond.
	lost map[types.UID]bool

	client    client.Client
	namespace string
	templates map[template]bool // that Deployments have had
	waiting   bool              // a rollout could exceed its deadline
	late      bool              // the deadlines of all rollouts are exceeded in this step
	pods      int               // created so far, for their names
}

// template is a template of a Deployment, by its hash.
type template struct {
	deployment types.UID
	hash       string
}

func newCluster(c client.Client, namespace string) *Cluster {
	return &Cluster{client: c, namespace: namespace, templates: map[template]bool{}, lost: map[types.UID]bool{}}
}

// keepsPodsOut reports whether pods are missing that a spec which works asks for.
func (c *Cluster) keepsPodsOut() bool { return c.refusal != "" || c.full || len(c.lost) > 0 }

// snapshot is the state of a namespace at one time.
type snapshot struct {
	pods        []corev1.Pod
	deployments []appsv1.Deployment
	in          inputs
}

func (c *Cluster) snapshot(ctx context.Context) (*snapshot, error) {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	var deployments appsv1.DeploymentList
	if err := c.client.List(ctx, &deployments, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("listing the Deployments: %w", err)
	}
	in, err := c.inputs(ctx)
	return &snapshot{pods.Items, deployments.Items, in}, err
}

// Step lets everything in the cluster move once, and reports whether anything
// moved.
func (c *Cluster) Step(ctx context.Context) (bool, error) {
	s, err := c.snapshot(ctx)
	if err != nil {
		return false, err
	}
	return c.move(ctx, s)
}

func (c *Cluster) move(ctx context.Context, s *snapshot) (bool, error) {
	moved := false
	for i := range s.pods {
		m, err := c.kubelet(ctx, &s.pods[i], s.in)
		if err != nil {
			return false, err
		}
		moved = moved || m
	}
	c.waiting = false
	for i := range s.deployments {
		m, err := c.rollOut(ctx, &s.deployments[i], s.pods, s.in)
		if err != nil {
			return false, err
		}
		moved = moved || m
	}
	return moved, nil
}

// PassDeadlines makes every rollout exceed its deadline, and reports whether that
// changed anything.
func (c *Cluster) PassDeadlines(ctx context.Context) (bool, error) {
	if !c.waiting {
		return false, nil
	}
	c.late = true
	defer func() { c.late = false }()
	return c.Step(ctx)
}

func (c *Cluster) inputs(ctx context.Context) (inputs, error) {
	in := inputs{}
	var cms corev1.ConfigMapList
	if err := c.client.List(ctx, &cms, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("listing the ConfigMaps: %w", err)
	}
	for _, m := range cms.Items {
		in["ConfigMap/"+m.Name] = map[string]string{}
		maps.Copy(in["ConfigMap/"+m.Name], m.Data)
	}
	var secrets corev1.SecretList
	if err := c.client.List(ctx, &secrets, client.InNamespace(c.namespace)); err != nil {
		return nil, fmt.Errorf("listing the Secrets: %w", err)
	}
	for _, s := range secrets.Items {
		in["Secret/"+s.Name] = map[string]string{}
		for k, v := range s.Data {
			in["Secret/"+s.Name][k] = string(v)
		}
	}
	return in, nil
}

// rollOut is one sync of a Deployment, without ReplicaSets: the pods belong to the
// Deployment itself, and a hash identifies their template.
func (c *Cluster) rollOut(ctx context.Context, d *appsv1.Deployment, all []corev1.Pod, in inputs) (bool, error) {
	if !d.DeletionTimestamp.IsZero() {
		return false, nil
	}
	before := d.DeepCopy()
	hash := hashOfTemplate(d.Spec.Template)
	template := template{d.UID, hash}
	known := c.templates[template] // it would have a ReplicaSet
	c.templates[template] = true
	var fresh, old []*corev1.Pod
	for i := range all {
		p := &all[i]
		if owner := metav1.GetControllerOf(p); owner == nil || owner.UID != d.UID || !p.DeletionTimestamp.IsZero() || podstate.HasEnded(p) {
			continue
		}
		if p.Labels[hashLabel] == hash {
			fresh = append(fresh, p)
		} else {
			old = append(old, p)
		}
	}
	moved, refused := false, false
	if !d.Spec.Paused {
		var err error
		if fresh, old, moved, refused, err = c.replace(ctx, d, hash, fresh, old, in); err != nil {
			return false, err
		}
	}
	c.status(d, fresh, old, known, refused)
	if equality.Semantic.DeepEqual(before.Status, d.Status) {
		return moved, nil
	}
	if err := client.IgnoreNotFound(c.client.Status().Patch(ctx, d, client.MergeFrom(before))); err != nil {
		return false, fmt.Errorf("writing the status of Deployment %s: %w", d.Name, err)
	}
	return true, nil
}

// replace creates and deletes pods as far as maxSurge and maxUnavailable allow.
func (c *Cluster) replace(ctx context.Context, d *appsv1.Deployment, hash string, fresh, old []*corev1.Pod, in inputs) (nowFresh, nowOld []*corev1.Pod, moved, refused bool, err error) {
	want := int(ptr.Deref(d.Spec.Replicas, 1))
	surge, unavailable := testkit.RolloutBounds(d)
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		unavailable = want // all pods end before the first new one is created
	}
	for len(fresh) < want && len(fresh)+len(old) < want+surge {
		if c.refusal != "" {
			refused = true
			break
		}
		p, err := c.createPod(ctx, d, hash)
		if err != nil {
			return nil, nil, false, false, err
		}
		if _, err := c.kubelet(ctx, p, in); err != nil {
			return nil, nil, false, false, err
		}
		fresh, moved = append(fresh, p), true
	}
	// Pods that are not ready are deleted first, which does not reduce
	// availability.
	slices.SortStableFunc(old, func(a, b *corev1.Pod) int { return rank(a) - rank(b) })
	for len(old) > 0 {
		p := old[0]
		if podIs(p, corev1.PodReady) && ready(fresh)+ready(old)-1 < want-unavailable {
			break
		}
		if err := c.deletePod(ctx, p); err != nil {
			return nil, nil, false, false, err
		}
		old, moved = old[1:], true
	}
	slices.SortStableFunc(fresh, func(a, b *corev1.Pod) int { return rank(a) - rank(b) })
	for len(fresh) > want {
		if err := c.deletePod(ctx, fresh[0]); err != nil {
			return nil, nil, false, false, err
		}
		fresh, moved = fresh[1:], true
	}
	return fresh, old, moved, refused, nil
}

func (c *Cluster) createPod(ctx context.Context, d *appsv1.Deployment, hash string) (*corev1.Pod, error) {
	c.pods++
	p := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.Name = d.Namespace, fmt.Sprintf("%s-%s-%d", d.Name, hash, c.pods)
	p.Labels[hashLabel] = hash // a template has the labels of the selector
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	if err := c.client.Create(ctx, p); err != nil {
		return nil, fmt.Errorf("creating a pod of Deployment %s: %w", d.Name, err)
	}
	return p, nil
}

func (c *Cluster) deletePod(ctx context.Context, p *corev1.Pod) error {
	err := c.client.Delete(ctx, p, client.GracePeriodSeconds(0))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s: %w", p.Name, err)
	}
	return nil
}

// status sets the status like pkg/controller/deployment. In particular, a rollout
// that was complete once does not exceed its deadline when it is scaled later.
func (c *Cluster) status(d *appsv1.Deployment, fresh, old []*corev1.Pod, known, refused bool) {
	want := ptr.Deref(d.Spec.Replicas, 1)
	was := d.Status
	available := int32(ready(fresh) + ready(old)) //nolint:gosec // a small number of pods
	st := appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: int32(len(fresh) + len(old)), UpdatedReplicas: int32(len(fresh)), //nolint:gosec // a small number of pods
		ReadyReplicas: available, AvailableReplicas: available, UnavailableReplicas: max(0, want-available),
		Conditions: was.Conditions,
	}
	_, unavailable := testkit.RolloutBounds(d)
	if available >= want-int32(unavailable) { //nolint:gosec // a small number of pods
		setCondition(&st, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "")
	} else {
		setCondition(&st, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "")
	}
	if refused {
		setCondition(&st, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, "FailedCreate", fmt.Sprintf("pods %q is forbidden: %s", d.Name, c.refusal))
	} else {
		st.Conditions = slices.DeleteFunc(slices.Clone(st.Conditions), func(k appsv1.DeploymentCondition) bool { return k.Type == appsv1.DeploymentReplicaFailure })
	}
	c.progress(d, &st, was, known)
	d.Status = st
}

func (c *Cluster) progress(d *appsv1.Deployment, st *appsv1.DeploymentStatus, was appsv1.DeploymentStatus, known bool) {
	const (
		newRS     = "NewReplicaSetCreated"
		updated   = "ReplicaSetUpdated"
		available = "NewReplicaSetAvailable"
		timedOut  = "ProgressDeadlineExceeded"
		paused    = "DeploymentPaused"
		resumed   = "DeploymentResumed"
	)
	reason := ""
	if at := conditionIndex(st, appsv1.DeploymentProgressing); at >= 0 {
		reason = st.Conditions[at].Reason
	}
	switch {
	case d.Spec.Paused:
		if reason != timedOut {
			setCondition(st, appsv1.DeploymentProgressing, corev1.ConditionUnknown, paused, "")
		}
		return
	case reason == paused:
		reason = resumed
		setCondition(st, appsv1.DeploymentProgressing, corev1.ConditionUnknown, resumed, "")
	}
	if !known {
		reason = newRS
		setCondition(st, appsv1.DeploymentProgressing, corev1.ConditionTrue, newRS, "")
	}
	if st.Replicas == st.UpdatedReplicas && reason == available {
		return // it was complete: scaling does not time out
	}
	want := ptr.Deref(d.Spec.Replicas, 1)
	complete := st.UpdatedReplicas == want && st.Replicas == want && st.AvailableReplicas == want
	gotOn := st.UpdatedReplicas > was.UpdatedReplicas || st.Replicas-st.UpdatedReplicas < was.Replicas-was.UpdatedReplicas ||
		st.ReadyReplicas > was.ReadyReplicas || st.AvailableReplicas > was.AvailableReplicas
	switch {
	case complete:
		setCondition(st, appsv1.DeploymentProgressing, corev1.ConditionTrue, available, "")
	case gotOn:
		c.waiting = true
		setCondition(st, appsv1.DeploymentProgressing, corev1.ConditionTrue, updated, "")
	case c.late || reason == timedOut:
		setCondition(st, appsv1.DeploymentProgressing, corev1.ConditionFalse, timedOut, "")
		if reason != timedOut {
			// The pods were created before, and timestamps have whole seconds.
			st.Conditions[conditionIndex(st, appsv1.DeploymentProgressing)].LastTransitionTime = metav1.NewTime(metav1.Now().Add(time.Second))
		}
	default:
		c.waiting = true
	}
}

func ready(pods []*corev1.Pod) int {
	n := 0
	for _, p := range pods {
		n += rank(p)
	}
	return n
}

func rank(p *corev1.Pod) int {
	if podIs(p, corev1.PodReady) {
		return 1
	}
	return 0
}

func hashOfTemplate(t corev1.PodTemplateSpec) string {
	raw, err := json.Marshal(t)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	h := fnv.New32a()
	_, _ = h.Write(raw)
	return fmt.Sprintf("%08x", h.Sum32())
}

func setCondition(st *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType, s corev1.ConditionStatus, reason, message string) {
	now := metav1.Now()
	next := appsv1.DeploymentCondition{Type: t, Status: s, Reason: reason, Message: message, LastUpdateTime: now, LastTransitionTime: now}
	st.Conditions = slices.Clone(st.Conditions)
	at := conditionIndex(st, t)
	if at < 0 {
		st.Conditions = append(st.Conditions, next)
		return
	}
	was := st.Conditions[at]
	if was.Status == s {
		next.LastTransitionTime = was.LastTransitionTime
	}
	if was.Status != s || was.Reason != reason || was.Message != message {
		st.Conditions[at] = next
	}
}

func conditionIndex(st *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) int {
	return slices.IndexFunc(st.Conditions, func(k appsv1.DeploymentCondition) bool { return k.Type == t })
}
