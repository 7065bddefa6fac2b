package testkit

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// follow calls do for each object that changes, until ctx ends or something fails.
func (e *Env) follow(ctx context.Context, list client.ObjectList, failed <-chan error, do func(client.Object) error) error {
	for since := e.since; ctx.Err() == nil; since = "" { // it may be too old for another watch
		w, err := e.Admin.Watch(ctx, list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: since}})
		if err != nil {
			return fmt.Errorf("watching %T: %w", list, err)
		}
		for open := true; open; {
			var ev watch.Event
			select {
			case <-ctx.Done():
				return nil
			case err := <-failed:
				return err
			case ev, open = <-w.ResultChan():
			}
			if o, ok := ev.Object.(client.Object); ok && (ev.Type == watch.Added || ev.Type == watch.Modified) {
				if err := do(o); err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
		w.Stop()
	}
	return nil
}

// Rollouts simulates the Deployment controller and the kubelets: every Deployment
// is rolled out and available soon, independently of the others, unless its image
// has the tag "bad". It returns when ctx ends.
func (e *Env) Rollouts(ctx context.Context) error {
	c := &deploymentController{env: e, pending: map[client.ObjectKey]*appsv1.Deployment{}, failed: make(chan error, 1)}
	return e.follow(ctx, &appsv1.DeploymentList{}, c.failed, func(o client.Object) error {
		c.enqueue(ctx, o.(*appsv1.Deployment))
		return nil
	})
}

// deploymentController rolls out Deployments, at most one version of each at a time.
// Different Deployments do not wait for each other: hundreds of tests and runs share
// one deploymentController.
type deploymentController struct {
	env    *Env
	failed chan error

	mu      sync.Mutex
	pending map[client.ObjectKey]*appsv1.Deployment // the latest version of each that is being rolled out
}

func (c *deploymentController) enqueue(ctx context.Context, d *appsv1.Deployment) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := client.ObjectKeyFromObject(d)
	_, busy := c.pending[key]
	if !busy && d.Status.ObservedGeneration == d.Generation {
		return
	}
	c.pending[key] = d
	if !busy {
		go c.work(ctx, key)
	}
}

func (c *deploymentController) work(ctx context.Context, key client.ObjectKey) {
	for {
		// Pods are not ready at the instant when their Deployment changes.
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
		c.mu.Lock()
		d := c.pending[key]
		c.mu.Unlock()
		if err := c.env.Rollout(ctx, d); err != nil && ctx.Err() == nil {
			select {
			case c.failed <- err:
			default: // another failure is reported already
			}
		}
		if c.done(key, d) {
			return
		}
	}
}

// done removes a Deployment, unless it has changed since.
func (c *deploymentController) done(key client.ObjectKey, d *appsv1.Deployment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[key] != d {
		return false
	}
	delete(c.pending, key)
	return true
}

// Rollout writes the status of a Deployment that is rolled out. If there are more
// replicas than before, only the previous ones, or the first one, are available for a
// moment. If its image has the tag "bad", or it mounts a ConfigMap with the key
// "crash", the rollout has failed: one new pod crashes, the previous pods keep
// serving, and the deadline is exceeded.
func (e *Env) Rollout(ctx context.Context, d *appsv1.Deployment) error {
	if d.Status.ObservedGeneration == d.Generation || !d.DeletionTimestamp.IsZero() {
		return nil
	}
	n, before := ptr.Deref(d.Spec.Replicas, 1), d.DeepCopy()
	failed := n > 0 && (crashes(d.Spec.Template.Spec) || e.mountsCrash(ctx, d))
	if failed || hasFailed(before) {
		if err := e.crashing(ctx, d, failed); err != nil {
			return err
		}
	}
	if surge, _ := RolloutBounds(d); !failed && n > 0 && d.Spec.MinReadySeconds == math.MaxInt32-1 {
		more := min(int32(surge), n)        //nolint:gosec // a number of pods
		d.Status = appsv1.DeploymentStatus{ // its new pods are never available
			ObservedGeneration: d.Generation, Replicas: n + more, UpdatedReplicas: more, ReadyReplicas: n + more, AvailableReplicas: n, UnavailableReplicas: more,
			Conditions: []appsv1.DeploymentCondition{availability(true)},
		}
		return e.rollOut(ctx, d, before)
	}
	if !failed {
		if err := e.growing(ctx, d, n); err != nil {
			return err
		}
		before = d.DeepCopy()
	}
	now := metav1.Now()
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n,
		Conditions: []appsv1.DeploymentCondition{
			availability(true),
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable", LastUpdateTime: now, LastTransitionTime: now},
		},
	}
	if failed {
		was := before.Status.AvailableReplicas
		d.Status.Replicas, d.Status.UpdatedReplicas = was+1, 1
		d.Status.ReadyReplicas, d.Status.AvailableReplicas, d.Status.UnavailableReplicas = was, was, 1
		d.Status.Conditions[0] = availability(was > 0)
		d.Status.Conditions[1].Status, d.Status.Conditions[1].Reason = corev1.ConditionFalse, "ProgressDeadlineExceeded"
		// The failing pod was created before, and timestamps have whole seconds.
		d.Status.Conditions[1].LastTransitionTime = metav1.NewTime(now.Add(time.Second))
	}
	return e.rollOut(ctx, d, before)
}

func availability(enough bool) appsv1.DeploymentCondition {
	c := appsv1.DeploymentCondition{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue, Reason: "MinimumReplicasAvailable", LastUpdateTime: metav1.Now(), LastTransitionTime: metav1.Now()}
	if !enough {
		c.Status, c.Reason = corev1.ConditionFalse, "MinimumReplicasUnavailable"
	}
	return c
}

func (e *Env) rollOut(ctx context.Context, d, before *appsv1.Deployment) error {
	if err := client.IgnoreNotFound(e.Admin.Status().Patch(ctx, d, client.MergeFrom(before))); err != nil {
		return fmt.Errorf("rolling out Deployment %s: %w", client.ObjectKeyFromObject(d), err)
	}
	return nil
}

// growing writes the status of a Deployment that has fewer pods available than n, and
// lets clients observe it.
func (e *Env) growing(ctx context.Context, d *appsv1.Deployment, n int32) error {
	available := max(1, d.Status.AvailableReplicas)
	if available >= n {
		return nil
	}
	before := d.DeepCopy()
	_, unavailable := RolloutBounds(d)
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n,
		ReadyReplicas: available, AvailableReplicas: available, UnavailableReplicas: n - available,
		Conditions: []appsv1.DeploymentCondition{availability(int(available) >= int(n)-unavailable)},
	}
	if err := e.rollOut(ctx, d, before); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-time.After(50 * time.Millisecond):
	}
	return nil
}

// RolloutBounds returns how many pods more than desired a rollout may create, and how
// many fewer it may leave available, like ResolveFenceposts and MaxUnavailable of
// Kubernetes' pkg/controller/deployment/util. With the strategy Recreate both are 0.
func RolloutBounds(d *appsv1.Deployment) (surge, unavailable int) {
	want := int(ptr.Deref(d.Spec.Replicas, 1))
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType || want == 0 {
		return 0, 0
	}
	quarter := intstr.FromString("25%")
	s, u := &quarter, &quarter
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		s, u = cmp.Or(r.MaxSurge, s), cmp.Or(r.MaxUnavailable, u)
	}
	surge, _ = intstr.GetScaledValueFromIntOrPercent(s, want, true)
	unavailable, _ = intstr.GetScaledValueFromIntOrPercent(u, want, false)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, min(unavailable, want)
}

// crashes reports whether a pod has an image that does not run.
func crashes(pod corev1.PodSpec) bool {
	return slices.ContainsFunc(pod.Containers, func(c corev1.Container) bool { return strings.HasSuffix(c.Image, ":bad") })
}

// mountsCrash reports whether a Deployment mounts a ConfigMap with the key
// "crash".
func (e *Env) mountsCrash(ctx context.Context, d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool {
		if v.ConfigMap == nil {
			return false
		}
		var c corev1.ConfigMap
		err := e.Admin.Get(ctx, client.ObjectKey{Namespace: d.Namespace, Name: v.ConfigMap.Name}, &c)
		_, crash := c.Data["crash"]
		return err == nil && crash
	})
}

func hasFailed(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Reason == "ProgressDeadlineExceeded" })
}

// crashing creates the crashing pod of a Deployment, or deletes it.
func (e *Env) crashing(ctx context.Context, d *appsv1.Deployment, there bool) error {
	p := &corev1.Pod{ObjectMeta: *d.Spec.Template.ObjectMeta.DeepCopy(), Spec: *d.Spec.Template.Spec.DeepCopy()}
	p.Namespace, p.Name = d.Namespace, d.Name+"-bad"
	p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))}
	err := client.IgnoreNotFound(e.Admin.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(0)))
	if err == nil && there {
		if !crashes(p.Spec) { // because of what it mounts
			p.Spec.Containers[0].Image += ":bad"
		}
		err = e.Admin.Create(ctx, p)
	}
	if err == nil && there {
		err = e.runPod(ctx, p)
	}
	if err != nil {
		return fmt.Errorf("letting a pod of Deployment %s crash: %w", client.ObjectKeyFromObject(d), err)
	}
	if there {
		e.awaitReceipt(ctx, p)
	}
	return nil
}

// awaitReceipt waits until the operators of a pod's namespace have received it. The
// deadline of a rollout ends minutes after its pods crashed, but here it ends at once,
// and the watch of Deployments may be ahead of that of pods. An operator that is being
// killed, or that watches no pods, receives nothing: so the wait has a limit.
func (e *Env) awaitReceipt(ctx context.Context, p *corev1.Pod) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_ = Eventually(ctx, "the operators to receive a pod", func(ctx context.Context) (received bool, err error) {
		if err := e.Admin.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return apierrors.IsNotFound(err), err
		}
		received = true
		e.running.Range(func(o, namespaces any) bool {
			if of := namespaces.([]string); len(of) > 0 && !slices.Contains(of, p.Namespace) {
				return true
			}
			received, err = o.(*Operator).Received(ctx, corev1.SchemeGroupVersion.WithKind("Pod"), p)
			return received && err == nil
		})
		return received, err
	})
}

// Kubelet simulates the scheduler and the kubelets for pods without scheduling
// gates: each runs and is ready immediately, or crashes if its image has the tag
// "bad". It returns when ctx ends.
func (e *Env) Kubelet(ctx context.Context) error {
	return e.follow(ctx, &corev1.PodList{}, nil, func(o client.Object) error { return e.runPod(ctx, o.(*corev1.Pod)) })
}

func (e *Env) runPod(ctx context.Context, p *corev1.Pod) error {
	ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	if len(p.Spec.SchedulingGates) > 0 || ended || p.Status.ObservedGeneration == p.Generation || !p.DeletionTimestamp.IsZero() {
		return nil
	}
	before, now := p.DeepCopy(), metav1.Now()
	p.Status.ObservedGeneration = p.Generation
	// Like a kubelet, it reports that it has observed a new image before it stops
	// the container of the old one.
	if len(p.Status.ContainerStatuses) > 0 {
		if err := e.Admin.Status().Patch(ctx, p, client.MergeFrom(before)); err != nil {
			return ignoreGone(p, err)
		}
		before = p.DeepCopy()
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: now}}
	p.Status.ContainerStatuses = nil
	for _, c := range p.Spec.Containers {
		if crashes(p.Spec) {
			p.Status.Conditions[0].Status = corev1.ConditionFalse
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, ContainerID: containerID(p, c), RestartCount: 3,
				State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no such file"}},
			})
			continue
		}
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ContainerID: containerID(p, c), Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return ignoreGone(p, e.Admin.Status().Patch(ctx, p, client.MergeFrom(before)))
}

func ignoreGone(p *corev1.Pod, err error) error {
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("running pod %s: %w", client.ObjectKeyFromObject(p), err)
	}
	return nil
}

// containerID returns the ID of a pod's container, which is different for each
// generation, because only a change of its image changes the spec of a running pod.
func containerID(p *corev1.Pod, c corev1.Container) string {
	return fmt.Sprintf("test://%s-%s-%d", p.UID, c.Name, p.Generation)
}
