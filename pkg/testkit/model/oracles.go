package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// scene is everything that is compared, read at one time.
type scene struct {
	object     *unstructured.Unstructured
	spec       map[string]any
	status     common.Status
	deployment *appsv1.Deployment
	pods       []corev1.Pod // that belong to the workload
	in         inputs
}

func (w *World) look(ctx context.Context) (*scene, error) {
	all, err := w.cluster.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return w.lookAt(ctx, all)
}

// lookAt returns nil if the object does not exist.
func (w *World) lookAt(ctx context.Context, all *snapshot) (*scene, error) {
	u, err := w.object(ctx)
	if err != nil || u == nil {
		return nil, err
	}
	s := &scene{object: u, spec: specOf(u), status: statusOf(u), in: all.in}
	for i := range all.deployments {
		if w.kind.hasDeployment() && all.deployments[i].Name == w.kind.Workload.Name {
			s.deployment = all.deployments[i].DeepCopy()
		}
	}
	for _, p := range all.pods {
		if w.kind.hasDeployment() && podstate.HasEnded(&p) {
			continue
		}
		if s.deployment != nil && metav1.IsControlledBy(&p, s.deployment) || !w.kind.hasDeployment() && p.Name == w.kind.Workload.Name {
			s.pods = append(s.pods, *p.DeepCopy())
		}
	}
	return s, nil
}

func (s *scene) condition(of string) *metav1.Condition {
	return meta.FindStatusCondition(s.status.Conditions, of)
}

// isReady reports whether Ready is True for the current generation.
func (s *scene) isReady() bool {
	return s.status.ObservedGeneration == s.object.GetGeneration() && meta.IsStatusConditionTrue(s.status.Conditions, common.ConditionReady)
}

func (s *scene) ready() int {
	n := 0
	for i := range s.pods {
		n += rank(&s.pods[i])
	}
	return n
}

// running returns the images that the containers of that name run, and how many run
// each.
func (s *scene) running(container string) map[string]int {
	all := map[string]int{}
	for _, p := range s.pods {
		for _, c := range p.Status.ContainerStatuses {
			if c.Name == container && c.State.Running != nil {
				all[strings.TrimPrefix(c.Image, "docker.io/library/")]++ // the notation of containerd
			}
		}
	}
	return all
}

// imageOf returns the image of a spec, or that of the Deployment if the spec has
// none, because the default depends on the history.
func (s *scene) imageOf(spec map[string]any, container string) string {
	if image := text(spec, "image"); image != "" || s.deployment == nil {
		return image
	}
	for _, c := range s.deployment.Spec.Template.Spec.Containers {
		if c.Name == container {
			return c.Image
		}
	}
	return ""
}

// check compares an object that has settled with the model. A violation is given
// time to heal: a delay is not a violation. The time begins again whenever the
// operator writes, because the deadline of a rollout may pass first.
func (w *World) check(ctx context.Context) error {
	began, written := time.Now(), w.written()
	for limit := began.Add(settleLimit); ; {
		if n := w.written(); n != written {
			began, written = time.Now(), n
		}
		found, err := w.judge(ctx)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return w.remember(ctx)
		}
		if now := time.Now(); now.Sub(began) > patience || now.After(limit) {
			for _, v := range found {
				w.violate(v.Oracle, "%s", v.Detail)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		if err := w.settle(ctx); err != nil || len(w.found) > 0 {
			return err
		}
	}
}

// remember records what later steps are compared with.
func (w *World) remember(ctx context.Context) error {
	s, err := w.look(ctx)
	if err != nil || s == nil {
		return err
	}
	w.checkVersions(s)
	m := &w.memory
	runs, _ := works(s.spec, s.in)
	running := s.running(w.kind.Container)
	image := s.imageOf(s.spec, w.kind.Container)
	frozen := s.spec["paused"] == true || has(s.spec, "rollout", "pinnedRevision")
	if runs && !frozen && s.ready() > 0 && running[image] == len(s.pods) {
		m.healthy, m.healthyImage, m.unsure, m.historyDeleted = s.spec, image, false, false
	}
	m.unsure = m.unsure || frozen
	m.rolledBack = ""
	if c := s.condition(common.ConditionReady); c != nil && c.Reason == common.ReasonRolledBack {
		m.rolledBack = inputsOf(s.spec, s.in)
	}
	m.failing, m.touched, m.edits, m.doubtful = !runs, false, 0, frozen // what a pause has kept back may be rolled out first
	m.seen = m.seen[max(0, len(m.seen)-1):]
	m.floor = 0
	if s.deployment != nil {
		m.floor = ptr.Deref(s.deployment.Spec.Replicas, 1)
	}
	return nil
}

func (w *World) judge(ctx context.Context) ([]Violation, error) {
	w.checks++
	var found []Violation
	bad := func(oracle, format string, args ...any) {
		found = append(found, Violation{oracle, fmt.Sprintf(format, args...)})
	}
	if !w.exists {
		return nil, nil
	}
	s, err := w.look(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		bad("existence", "the object does not exist any more, and it was not deleted")
		return found, nil
	}
	w.checkVersions(s)
	e := w.expect(s.spec, s.in)
	w.judgeStatus(s, e, bad)
	w.judgePods(s, e, bad)
	w.judgeTemplates(e, bad)
	return found, w.judgeService(ctx, s, bad)
}

// judgeTemplates checks that pods are not replaced more often than their inputs changed.
// One that does not work is replaced once more.
func (w *World) judgeTemplates(e expectation, bad func(string, string, ...any)) {
	m := &w.memory
	may := max(1, m.edits)
	if m.doubtful || !e.ready {
		may = 2*may + 1
	}
	if n := len(slices.Compact(slices.Clone(m.seen))) - 1; !m.touched && !m.historyDeleted && n > may {
		bad("flip-flop", "the template of the Deployment changed %d times, and the spec %d times", n, m.edits)
	}
}

// judgeStatus checks that the status is true.
func (w *World) judgeStatus(s *scene, e expectation, bad func(string, string, ...any)) {
	ready := s.condition(common.ConditionReady)
	isReady := s.isReady()
	switch {
	case ready == nil:
		bad("status", "there is no condition Ready")
		return
	case s.status.ObservedGeneration != s.object.GetGeneration():
		bad("status", "observedGeneration is %d, and generation %d", s.status.ObservedGeneration, s.object.GetGeneration())
	case e.ready && !isReady:
		bad("ready", "Ready is %s (%s: %s), want True: %s; %s", ready.Status, ready.Reason, ready.Message, e.why, s.summary())
	case !e.mayBeReady && isReady:
		bad("ready", "Ready is True (%s: %s): %s", ready.Reason, ready.Message, e.why)
	}
	if e.innocent && (ready.Reason == common.ReasonRolledBack || ready.Reason == common.ReasonRolloutFailed) {
		bad("blame", "Ready is %s (%s: %s): %s", ready.Status, ready.Reason, ready.Message, e.why)
	}
	if valid := s.condition(webserverv1.ConditionConfigValid); e.innocent && valid != nil && valid.Status == metav1.ConditionFalse {
		bad("blame", "ConfigValid is False (%s: %s): %s", valid.Reason, valid.Message, e.why)
	}
	serving := s.ready()
	if n, counts := number(s.object.Object, "status", "readyReplicas"); counts && int(n) != serving {
		bad("truth", "status.readyReplicas is %d, and %d pods are ready", n, serving)
	}
	available := meta.IsStatusConditionTrue(s.status.Conditions, common.ConditionAvailable)
	switch {
	case available && serving == 0:
		bad("available", "Available is True, and no pod is ready")
	case !available && serving > 0:
		bad("available", "Available is not True, and %d pods are ready", serving)
	}
}

// judgeService checks that each port of the Service leads to a ready pod. Without the
// revisions, the operator does not know the ports of earlier pods, and a new port waits for
// new pods.
func (w *World) judgeService(ctx context.Context, s *scene, bad func(string, string, ...any)) error {
	if w.kind.Service == "" || s.ready() == 0 || w.memory.historyDeleted || w.cluster.keepsPodsOut() {
		return nil
	}
	service, err := w.child(ctx, serviceOf(w.kind))
	if errors.Is(err, errSkip) {
		return nil
	}
	if err != nil {
		return err
	}
	if port := s.unreachable(service); port != "" {
		bad("reachable", "port %s leads to no pod; %s", port, s.summary())
	}
	return nil
}

// unreachable returns a port of a Service that leads to no ready pod that listens on it, or
// "". A container listens on the ports that it states.
func (s *scene) unreachable(service *unstructured.Unstructured) string {
	var svc corev1.Service
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(service.Object, &svc); err != nil {
		return err.Error()
	}
	for _, to := range svc.Spec.Ports {
		if !slices.ContainsFunc(s.pods, func(p corev1.Pod) bool {
			return podIs(&p, corev1.PodReady) && slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool {
				return slices.ContainsFunc(c.Ports, func(port corev1.ContainerPort) bool {
					return to.TargetPort == intstr.FromString(port.Name) || to.TargetPort == intstr.FromInt32(port.ContainerPort)
				})
			})
		}) {
			return fmt.Sprintf("%d (%s)", to.Port, to.TargetPort.String())
		}
	}
	return ""
}

// judgePods checks that the pods are those that the model expects.
func (w *World) judgePods(s *scene, e expectation, bad func(string, string, ...any)) {
	images := s.running(w.kind.Container)
	if e.serves {
		least := 1
		if s.deployment != nil {
			_, u := testkit.RolloutBounds(s.deployment)
			least = max(1, int(ptr.Deref(s.deployment.Spec.Replicas, 1))-u)
		}
		if s.ready() < least {
			bad("serving", "%d pods are ready, want at least %d: %s; %s", s.ready(), least, e.why, s.summary())
		}
	}
	if e.image != "" && s.ready() > 0 && images[e.image] < s.ready() {
		bad("image", "the pods run %v, want %s: %s", images, e.image, e.why)
	}
	if e.image != "" && s.deployment != nil {
		for _, c := range s.deployment.Spec.Template.Spec.Containers {
			if c.Name == w.kind.Container && c.Image != e.image {
				bad("image", "the Deployment has %s, want %s: %s; %s", c.Image, e.image, e.why, s.summary())
			}
		}
	}
	if e.replicas >= 0 && s.deployment != nil && int64(ptr.Deref(s.deployment.Spec.Replicas, 1)) != e.replicas {
		bad("replicas", "the Deployment has %d replicas, want %d: %s", ptr.Deref(s.deployment.Spec.Replicas, 1), e.replicas, e.why)
	}
	if e.serves && w.kind.hasDeployment() && s.deployment == nil {
		bad("serving", "there is no Deployment: %s", e.why)
	}
	if !w.kind.hasDeployment() {
		if e.replicas >= 0 && int64(len(s.pods)) != e.replicas {
			bad("replicas", "there are %d pods, want %d: %s", len(s.pods), e.replicas, e.why)
		}
	}
}

// checkInstant checks what must hold at each instant, not only after settling.
func (w *World) checkInstant(ctx context.Context, all *snapshot) error {
	if !w.exists {
		return nil
	}
	s, err := w.lookAt(ctx, all)
	if err != nil || s == nil {
		return err
	}
	w.checks++
	paused := s.spec["paused"] == true
	pinned := has(s.spec, "rollout", "pinnedRevision")
	if image := text(s.spec, "image"); s.isReady() && image != "" && !pinned && !paused && !w.memory.touched {
		for other := range s.running(w.kind.Container) {
			if other != image {
				w.violate("instant-image", "Ready is True for a spec with %s, and a container runs %s", image, other)
			}
		}
	}
	w.checkVersions(s)
	return nil
}

// checkVersions checks each version of the Deployment since the last call.
func (w *World) checkVersions(s *scene) {
	versions, n := w.history.since(w.memory.versions)
	w.memory.versions = n
	for _, d := range versions {
		// The operator may see an earlier object of this name after its deletion.
		if o := metav1.GetControllerOf(d); o != nil && o.UID != w.memory.uid {
			continue
		}
		w.memory.seen = append(w.memory.seen, hashOfTemplate(d.Spec.Template))
		if r := ptr.Deref(d.Spec.Replicas, 1); has(s.spec, "autoscaling") && w.memory.floor > 0 && r < min(w.memory.floor, maxReplicas(s.spec)) {
			w.violate("replicas-dropped", "the Deployment went from %d to %d replicas, and the autoscaler asked for no less", w.memory.floor, r)
			w.memory.floor = 0
		}
	}
}

func maxReplicas(spec map[string]any) int32 {
	n, ok := number(spec, "autoscaling", "maxReplicas")
	if !ok {
		return 1 << 30
	}
	return int32(n) //nolint:gosec // the schema limits it
}

// summary returns the state of the pods in one line.
func (s *scene) summary() string {
	var all []string
	for _, p := range s.pods {
		if len(p.Spec.SchedulingGates) > 0 || p.DeletionTimestamp != nil || len(p.Status.ContainerStatuses) == 0 {
			all = append(all, fmt.Sprintf("pod %s, gates %v, deleted %v, %s", p.UID, p.Spec.SchedulingGates, p.DeletionTimestamp, p.Status.Phase))
		}
		for _, c := range p.Status.ContainerStatuses {
			state := "running"
			if c.State.Waiting != nil {
				state = c.State.Waiting.Reason
			}
			all = append(all, c.Name+" "+c.Image+" "+state)
		}
	}
	if ready := s.condition(common.ConditionReady); ready != nil {
		all = append(all, fmt.Sprintf("Ready %s %s %q", ready.Status, ready.Reason, ready.Message))
	}
	return strings.Join(all, "; ")
}
