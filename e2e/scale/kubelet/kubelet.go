// Package kubelet simulates a node of endless capacity: pods that the scheduler
// binds to it become Ready at once, and pods that are being deleted are removed. No
// container runs.
package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
)

const (
	workers = 16
	// renewEvery is the default of the kubelet.
	renewEvery = 10 * time.Second
	// leaseSeconds is the default of the kubelet.
	leaseSeconds = 40
)

// Kubelet is one simulated node.
type Kubelet struct {
	Client kubernetes.Interface
	Node   string

	pods  atomic.Uint32 // for their addresses
	lease *coordinationv1.Lease
}

// Run registers the node and serves its pods until the context ends.
func (k *Kubelet) Run(ctx context.Context) error {
	if err := k.register(ctx); err != nil {
		return err
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
	factory := informers.NewSharedInformerFactoryWithOptions(k.Client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", k.Node).String()
	}))
	informer := factory.Core().V1().Pods().Informer()
	if err := informer.SetTransform(dropManagedFields); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	add := func(o any) {
		if key, err := cache.MetaNamespaceKeyFunc(o); err == nil {
			queue.Add(key)
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    add,
		UpdateFunc: func(_, o any) { add(o) },
	}); err != nil {
		return fmt.Errorf("watching pods: %w", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { informer.RunWithContext(ctx) })
	wg.Go(func() { k.renewLease(ctx) })
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) // false if the context has ended
	for range workers {
		wg.Go(func() {
			for k.next(ctx, queue, informer.GetStore()) {
			}
		})
	}
	<-ctx.Done()
	queue.ShutDown()
	wg.Wait()
	return nil
}

// dropManagedFields saves memory: they are half of a pod.
func dropManagedFields(o any) (any, error) {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.ManagedFields = nil
	}
	return o, nil
}

// next processes one pod of the queue, and reports whether more can follow.
func (k *Kubelet) next(ctx context.Context, queue workqueue.TypedRateLimitingInterface[string], store cache.Store) bool {
	key, shutdown := queue.Get()
	if shutdown {
		return false
	}
	defer queue.Done(key)
	o, exists, err := store.GetByKey(key)
	if err == nil && exists {
		err = k.sync(ctx, o.(*corev1.Pod))
	}
	if err != nil {
		queue.AddRateLimited(key)
		return true
	}
	queue.Forget(key)
	return true
}

// sync sends the one request that the pod needs, if any.
func (k *Kubelet) sync(ctx context.Context, pod *corev1.Pod) error {
	if pod.DeletionTimestamp != nil {
		now := int64(0)
		err := k.Client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
			GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &pod.UID},
		})
		return ignoreOutdated(err)
	}
	want := k.status(pod)
	if pod.Status.Phase == corev1.PodRunning && isTrue(pod, corev1.PodReady) == isTrue(&corev1.Pod{Status: want}, corev1.PodReady) {
		return nil
	}
	// The UID makes the request fail if the pod was replaced by another one.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": want})
	if err != nil {
		return fmt.Errorf("writing a patch: %w", err)
	}
	_, err = k.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return ignoreOutdated(err)
}

// ignoreOutdated drops the errors of a pod that was deleted or replaced: the watch
// will report that.
func ignoreOutdated(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// status returns the status of the pod while all its containers run. Like on a real
// node, the pod is Ready once its readiness gates are True.
func (k *Kubelet) status(pod *corev1.Pod) corev1.PodStatus {
	now := metav1.Now()
	ready := corev1.ConditionTrue
	for _, gate := range pod.Spec.ReadinessGates {
		if !isTrue(pod, gate.ConditionType) {
			ready = corev1.ConditionFalse
		}
	}
	s := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "10.10.10.1", StartTime: &now, PodIP: pod.Status.PodIP}
	if s.PodIP == "" {
		n := k.pods.Add(1)
		s.PodIP = fmt.Sprintf("10.%d.%d.%d", 128+n>>16&0x7f, n>>8&0xff, n&0xff)
	}
	s.HostIPs = []corev1.HostIP{{IP: s.HostIP}}
	s.PodIPs = []corev1.PodIP{{IP: s.PodIP}}
	for condition, status := range map[corev1.PodConditionType]corev1.ConditionStatus{
		corev1.PodReadyToStartContainers: corev1.ConditionTrue,
		corev1.PodInitialized:            corev1.ConditionTrue,
		corev1.ContainersReady:           corev1.ConditionTrue,
		corev1.PodReady:                  ready,
	} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: condition, Status: status, LastTransitionTime: now})
	}
	for _, c := range pod.Spec.InitContainers {
		s.InitContainerStatuses = append(s.InitContainerStatuses,
			containerStatus(c, c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways, now))
	}
	for _, c := range pod.Spec.Containers {
		s.ContainerStatuses = append(s.ContainerStatuses, containerStatus(c, true, now))
	}
	return s
}

func containerStatus(c corev1.Container, running bool, now metav1.Time) corev1.ContainerStatus {
	s := corev1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: c.Image, ContainerID: "simulated://" + c.Name,
		Ready: true, Started: &running, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
	}
	if !running {
		s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: now, FinishedAt: now, ContainerID: s.ContainerID,
		}}
	}
	return s
}

func isTrue(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == condition {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// register creates the node and its Lease.
func (k *Kubelet) register(ctx context.Context) error {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("1M"),
		corev1.ResourceMemory:           resource.MustParse("1Pi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("1Pi"),
		corev1.ResourcePods:             resource.MustParse("1M"),
	}
	now := metav1.Now()
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.Node, Labels: map[string]string{
			corev1.LabelHostname: k.Node, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			corev1.LabelTopologyZone: "simulated", corev1.LabelTopologyRegion: "simulated",
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.10.10.1"}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Simulated",
				Message: "The node is simulated.", LastHeartbeatTime: now, LastTransitionTime: now,
			}},
		},
	}
	if _, err := k.Client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating the node: %w", err)
	}
	holder, seconds := k.Node, int32(leaseSeconds)
	lease, err := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: k.Node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now.Time},
		},
	}, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		lease, err = k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, k.Node, metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("creating the Lease of the node: %w", err)
	}
	k.lease = lease
	return nil
}

// renewLease keeps the node Ready. A failed renewal is repeated at the next tick;
// the node becomes NotReady after four of them.
func (k *Kubelet) renewLease(ctx context.Context) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			k.lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
			if l, err := k.Client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, k.lease, metav1.UpdateOptions{}); err == nil {
				k.lease = l
			}
		}
	}
}
