package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// surroundings are what pods suffer that neither the spec nor the operator causes.
type surroundings struct {
	// refusal is why no pods of Deployments are created, and full reports that no node can
	// run more than room other ones.
	refusal string
	full    bool
	room    int
	// lost are the pods on nodes that do not respond.
	lost map[types.UID]bool
	// outage makes each test of a configuration fail: a name in it is not found.
	outage bool
	// dead reports that the autoscaler gets no metrics.
	dead bool
}

// keepsPodsOut reports whether pods are missing that a spec which works asks for.
func (s *surroundings) keepsPodsOut() bool { return s.refusal != "" || s.full || len(s.lost) > 0 }

// refusals are the messages of the API server about pods that it does not create.
var refusals = map[string]string{
	"quota":         "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1",
	"quota-limits":  "failed quota: q: must specify limits.cpu for: o",
	"limit-range":   "minimum cpu usage per Container is 1, but request is 100m",
	"webhook-down":  `Internal error occurred: failed calling webhook "sidecar.example.com": failed to call webhook: Post "https://sidecar.mesh.svc:443/inject?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused`,
	"account-gone":  `error looking up service account ns/o: serviceaccount "o" not found`,
	"quota-timeout": "resource quota evaluation timed out",
}

// surroundingOps returns the operations that change what surrounds the pods.
func surroundingOps() []Op {
	change := func(name string, kinds []string, f func(*surroundings)) Op {
		return early(other(name, kinds, func(_ context.Context, w *World) error { f(&w.cluster.surroundings); return nil }))
	}
	all := []Op{
		change("quota-off", deployed, func(s *surroundings) { s.refusal = "" }),
		change("nodes-full", deployed, func(s *surroundings) { s.full, s.room = true, 0 }),
		change("nodes-full-1", deployed, func(s *surroundings) { s.full, s.room = true, 1 }),
		change("nodes-added", deployed, func(s *surroundings) { s.full = false }),
		change("metrics-lost", web, func(s *surroundings) { s.dead = true }),
		change("metrics-back", web, func(s *surroundings) { s.dead = false }),
		life("pod-restarts", nil, 1, func(_ *Cluster, p *corev1.Pod) {
			restart(p.Status.ContainerStatuses, corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", Message: "no database"})
		}),
		life("nodes-reboot", nil, 100, reboot),
		life("pod-evicted", deployed, 1, func(_ *Cluster, p *corev1.Pod) { end(p, corev1.PodFailed, "Evicted", 137) }),
		life("pod-preempted", deployed, 1, func(_ *Cluster, p *corev1.Pod) { end(p, corev1.PodFailed, "Preempting", 137) }),
		ofPods(other("pod-outranked", deployed, func(ctx context.Context, w *World) error {
			w.cluster.full, w.cluster.room = true, 0 // a pod of a higher priority takes the room
			return w.deletePods(ctx, 1)
		})),
		life("node-lost", deployed, 1, func(c *Cluster, p *corev1.Pod) {
			setPodCondition(p, corev1.PodReady, corev1.ConditionFalse, "")
			c.lost[p.UID] = true
		}),
		other("node-back", deployed, func(ctx context.Context, w *World) error {
			lost := w.cluster.lost
			w.cluster.lost = map[types.UID]bool{}
			return w.live(ctx, 100, func(c *Cluster, p *corev1.Pod) {
				if lost[p.UID] {
					reboot(c, p)
				}
			})
		}),
		other("outage", nginx, outage),
		ofOwnership(other("restore", deployed, restore)),
	}
	for name, message := range refusals {
		all = append(all, change(name, deployed, func(s *surroundings) { s.refusal = message }))
	}
	return all
}

// life returns an operation that changes the status of the newest pods that run.
func life(name string, kinds []string, most int, change func(*Cluster, *corev1.Pod)) Op {
	o := other(name, kinds, func(ctx context.Context, w *World) error { return w.live(ctx, most, change) })
	o.fields = []string{fieldPods}
	return o
}

func (w *World) live(ctx context.Context, most int, change func(*Cluster, *corev1.Pod)) error {
	pods, err := w.pods(ctx)
	if err != nil {
		return err
	}
	created := func(p corev1.Pod) int {
		n, _ := strconv.Atoi(p.Name[strings.LastIndex(p.Name, "-")+1:]) // the only pod has no number
		return n
	}
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(created(b), created(a)) })
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
			continue
		}
		before := p.DeepCopy()
		change(w.cluster, p)
		if _, err := w.cluster.writePod(ctx, before, p); err != nil {
			return err
		}
		if most--; most == 0 {
			break
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

// outage makes the tests of the configurations of new pods fail until the operator has seen
// that three times. A revision that was healthy is not to blame.
func outage(ctx context.Context, w *World) error {
	s, err := w.look(ctx)
	if err != nil || s == nil || !w.serves(s, s.spec) || !s.isReady() || w.cluster.keepsPodsOut() {
		return orSkip(err)
	}
	w.cluster.outage = true
	defer func() { w.cluster.outage = false }()
	if err := w.deletePods(ctx, 1); err != nil {
		return err
	}
	if err := w.later(ctx); err != nil {
		return err
	}
	if s, err = w.look(ctx); err == nil && s != nil {
		w.judgeBlame(s, "a name in the configuration is not found for a while", w.violate)
	}
	return err
}

// restore replaces an object by one without a status, as a backup does, whose children have
// no owner.
func restore(ctx context.Context, w *World) error {
	u, err := w.object(ctx)
	if err != nil || u == nil || len(u.GetFinalizers()) > 0 || specOf(u)["paused"] == true || len(w.foreign) > 0 {
		return orSkip(err)
	}
	if err := w.env.Admin.Delete(ctx, u, client.PropagationPolicy(metav1.DeletePropagationOrphan)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the object: %w", err)
	}
	w.spec, w.exists = specOf(u), false
	if err := w.gone(ctx, u); err != nil {
		return err
	}
	err = w.create(ctx)
	w.memory.restored = true
	return err
}
