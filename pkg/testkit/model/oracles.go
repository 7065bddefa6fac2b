package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
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
	for end := began.Add(settleLimit); ; {
		if n := w.written(); n != written {
			began, written = time.Now(), n
		}
		found, err := w.judge(ctx)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			break
		}
		if now := time.Now(); now.Sub(began) > patience || now.After(end) {
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
	return w.remember(ctx)
}

// remember records what later steps are compared with.
func (w *World) remember(ctx context.Context) error {
	s, err := w.look(ctx)
	if err != nil || s == nil {
		return err
	}
	w.checkVersions(s)
	w.memory.touched, w.memory.edits, w.memory.doubtful, w.memory.historyDeleted = false, 0, false, false
	w.memory.restored = false
	w.memory.seen = w.memory.seen[max(0, len(w.memory.seen)-1):]
	w.rememberHealthy(s)
	w.memory.owed = s.spec["paused"] == true && s.ready() < len(s.pods)
	w.memory.edited, w.memory.perhaps = nil, nil
	works, _ := w.works(s.spec, s.in)
	switch {
	case works && !w.mayBeTooLate(s.spec, s.in) || s.isReady():
		w.memory.tooLate = ""
	case works:
		w.memory.tooLate = inputsOf(s.spec, s.in)
	}
	w.memory.failing, w.memory.evicted = !works, false
	w.memory.pinned = w.memory.pinned || has(s.spec, "rollout", "pinnedRevision")
	w.memory.floor = 0
	if s.deployment != nil {
		w.memory.floor = desiredReplicas(s.deployment)
	}
	return nil
}

// rememberHealthy records the revision of which all pods are ready.
func (w *World) rememberHealthy(s *scene) {
	m := &w.memory
	healthy := func(spec map[string]any) {
		m.healthy, m.healthyImage = runtimeCopy(spec), s.imageOf(spec, w.kind.Container)
		if s.deployment != nil {
			m.healthyTemplate = hashOfTemplate(s.deployment.Spec.Template)
		}
	}
	if w.serves(s, s.spec) {
		healthy(s.spec)
		m.statusLost, m.pinned = false, false
	}
	if m.perhaps != nil && s.deployment != nil && w.serves(s, m.perhaps) {
		healthy(m.perhaps)
	}
	if s.spec["paused"] != true {
		m.rollingOut = []map[string]any{s.spec}
		return
	}
	m.rollingOut = append(m.rollingOut, m.edited...)
	if s.deployment == nil || m.healthyTemplate == hashOfTemplate(s.deployment.Spec.Template) {
		return
	}
	for _, spec := range slices.Backward(m.rollingOut) {
		if w.serves(s, spec) {
			healthy(spec)
			return
		}
	}
}

// serves reports whether all pods run the image of a spec that works.
func (w *World) serves(s *scene, spec map[string]any) bool {
	works, _ := w.works(spec, s.in)
	return works && s.ready() > 0 && s.running(w.kind.Container)[s.imageOf(spec, w.kind.Container)] == len(s.pods) && spec["paused"] != true && !has(spec, "rollout", "pinnedRevision")
}

// rememberEdited records that all pods of a spec were ready before the operator saw
// the next one.
func (w *World) rememberEdited(s *scene) {
	if s == nil || s.deployment == nil {
		return
	}
	for _, spec := range w.memory.edited {
		if w.serves(s, spec) {
			w.memory.perhaps = spec
		}
	}
}

func (w *World) judge(ctx context.Context) ([]Violation, error) {
	w.checks++
	var found []Violation
	bad := func(oracle, format string, args ...any) {
		found = append(found, Violation{oracle, fmt.Sprintf(format, args...)})
	}
	if err := w.judgeForeign(ctx, bad); err != nil {
		return nil, err
	}
	if !w.exists {
		return found, nil
	}
	s, err := w.look(ctx)
	if err != nil {
		return nil, err
	}
	if s == nil {
		bad("existence", "the object does not exist any more, and it was not deleted")
		return found, nil
	}
	adopts := w.memory.restored && !w.memory.touched
	if !adopts && (w.isGivenAway(s) || w.isOverlooked(s)) {
		return found, nil
	}
	since, _ := w.history.since(max(0, w.memory.deletedAt-1))
	w.memory.forgetDeletedHistory(s.deployment, since)
	e := w.expect(s.spec, s.in)
	children, err := w.auxiliary(ctx, e)
	if err != nil {
		return nil, err
	}
	// It was disowned while an earlier object was paused, and has outlived it: the object
	// reports it as Conflict.
	for ref, c := range children {
		if !adopts && e.children[ref] && c != nil && isGivenAway(c, s.object.GetUID()) {
			return found, nil
		}
	}
	w.judgeStatus(s, e, bad)
	w.judgePods(s, e, bad)
	may := max(1, w.memory.edits)
	if w.memory.owed {
		may++
	}
	if n := len(slices.Compact(slices.Clone(w.memory.seen))) - 1; e.ready && e.orReason == "" && !w.memory.touched && !w.memory.doubtful && n > may {
		bad("flip-flop", "the template of the Deployment changed %d times, and the spec %d times", n, w.memory.edits)
	}
	w.judgeChildren(s, e, children, bad)
	if err := w.judgeRevisions(ctx, s, bad); err != nil {
		return nil, err
	}
	return found, w.judgeMemory(ctx, s, bad)
}

// judgeRevisions checks that a number identifies one revision, of those that are kept
// and those that the status refers to: spec.rollout.pinnedRevision is a number.
func (w *World) judgeRevisions(ctx context.Context, s *scene, bad func(string, string, ...any)) error {
	if w.unaware { // docs/decisions/0008-revisions.md
		return nil
	}
	var kept appsv1.ControllerRevisionList
	if err := w.env.Admin.List(ctx, &kept, client.InNamespace(w.ns)); err != nil {
		return fmt.Errorf("listing the ControllerRevisions: %w", err)
	}
	names := map[int64]string{}
	identify := func(number int64, name string) {
		switch was := names[number]; {
		case number == 0 || name == "":
		case was == "":
			names[number] = name
		case was != name:
			bad("revision-numbers", "%s and %s both are revision %d", was, name, number)
		}
	}
	for i := range kept.Items {
		if metav1.IsControlledBy(&kept.Items[i], s.object) {
			identify(kept.Items[i].Revision, kept.Items[i].Name)
		}
	}
	if status, ok := s.object.Object["status"].(map[string]any); ok {
		for _, of := range []string{"current", "lastHealthy", "failed"} {
			n, _ := number(status, "revisions", of)
			identify(n, text(status, "revisions", of+"Name"))
		}
	}
	return nil
}

// judgeMemory checks that the operator does not retain memory for children that no
// longer exist. There are only a few with a fixed name; revisions and snapshots
// have a new name for each content.
func (w *World) judgeMemory(ctx context.Context, s *scene, bad func(string, string, ...any)) error {
	for _, gvk := range []schema.GroupVersionKind{corev1.SchemeGroupVersion.WithKind("ConfigMap"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision")} {
		live, err := w.list(ctx, gvk)
		if err != nil {
			return err
		}
		if n := w.leader.op.Applier.Remembered(s.object.GetUID(), gvk.Kind); n > len(live) {
			bad("memory", "%d objects of kind %s are remembered, and %d exist", n, gvk.Kind, len(live))
		}
	}
	return nil
}

// judgeStatus checks that the status is true.
func (w *World) judgeStatus(s *scene, e expectation, bad func(string, string, ...any)) {
	ready := meta.FindStatusCondition(s.status.Conditions, common.ConditionReady)
	isReady := s.isReady()
	switch {
	case ready == nil:
		bad("status", "there is no condition Ready")
		return
	case s.status.ObservedGeneration != s.object.GetGeneration():
		bad("status", "observedGeneration is %d, and generation %d", s.status.ObservedGeneration, s.object.GetGeneration())
	case e.ready && !isReady && ready.Reason != e.orReason:
		bad("ready", "Ready is %s (%s: %s), want True: %s; %s", ready.Status, ready.Reason, ready.Message, e.why, s.summary())
	case !e.mayBeReady && isReady:
		bad("ready", "Ready is True (%s: %s): %s", ready.Reason, ready.Message, e.why)
	}
	if e.innocent || e.ready && e.orReason == "" {
		w.judgeBlame(s, e.why, bad)
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

// judgeBlame checks that a spec is blamed only for failures that it causes.
func (w *World) judgeBlame(s *scene, why string, bad func(string, string, ...any)) {
	ready := meta.FindStatusCondition(s.status.Conditions, common.ConditionReady)
	valid := meta.FindStatusCondition(s.status.Conditions, webserverv1.ConditionConfigValid)
	switch {
	case ready != nil && (ready.Reason == common.ReasonRolledBack || ready.Reason == common.ReasonRolloutFailed):
		bad("blame", "Ready is %s (%s: %s): %s", ready.Status, ready.Reason, ready.Message, why)
	case valid != nil && valid.Status == metav1.ConditionFalse:
		bad("blame", "ConfigValid is False (%s: %s): %s", valid.Reason, valid.Message, why)
	}
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

// workload returns the child that runs the pods, nil if there is none.
func (s *scene) workload() metav1.Object {
	switch {
	case s.deployment != nil:
		return s.deployment
	case len(s.pods) > 0:
		return &s.pods[0]
	}
	return nil
}

// isGivenAway reports whether the workload has no owner, and either lacks the
// annotation that names this object or has the label of another tool: it is
// unowned, and the operator must not modify it.
func (w *World) isGivenAway(s *scene) bool {
	child := s.workload()
	return child != nil && isGivenAway(child, s.object.GetUID())
}

// isOverlooked reports whether the workload lacks the label by which the operator finds
// it, and is not applied, which would restore the label.
func (w *World) isOverlooked(s *scene) bool {
	child := s.workload()
	if child == nil || naming.IsLabelled(child) {
		return false
	}
	_, available := w.works(s.spec, s.in)
	isolated := has(s.spec, "networkPolicy") && w.foreign[policyOf(w.kind)] != nil // it waits for its NetworkPolicy
	return s.spec["paused"] == true || s.spec["suspend"] == true || !available || isolated
}

func isGivenAway(child metav1.Object, object types.UID) bool {
	if metav1.GetControllerOf(child) != nil {
		return false
	}
	tool := child.GetLabels()[naming.LabelManagedBy]
	return child.GetAnnotations()[naming.AnnotationOwner] != string(object) || tool != "" && tool != naming.ManagedBy
}

// judgePods checks that the pods are those that the model expects.
func (w *World) judgePods(s *scene, e expectation, bad func(string, string, ...any)) {
	images := s.running(w.kind.Container)
	if e.serves {
		least := 1
		if s.deployment != nil {
			_, u := testkit.RolloutBounds(s.deployment)
			least = max(1, int(desiredReplicas(s.deployment))-u)
		}
		if s.ready() < least {
			bad("serving", "%d pods are ready, want at least %d: %s; %s", s.ready(), least, e.why, s.summary())
		}
	}
	if e.image != "" && s.ready() > 0 && images[e.image] < s.ready() && images[e.orImage] < s.ready() {
		bad("image", "the pods run %v, want %s: %s", images, e.image, e.why)
	}
	if e.image != "" && s.deployment != nil {
		for _, c := range s.deployment.Spec.Template.Spec.Containers {
			if c.Name == w.kind.Container && c.Image != e.image && c.Image != e.orImage {
				bad("image", "the Deployment has %s, want %s: %s; %s", c.Image, e.image, e.why, s.summary())
			}
		}
	}
	if e.replicas >= 0 && s.deployment != nil && int64(desiredReplicas(s.deployment)) != e.replicas {
		bad("replicas", "the Deployment has %d replicas, want %d: %s", desiredReplicas(s.deployment), e.replicas, e.why)
	}
	if e.serves && w.kind.hasDeployment() && s.deployment == nil {
		bad("serving", "there is no Deployment: %s", e.why)
	}
	if !w.kind.hasDeployment() {
		if e.replicas >= 0 && int64(len(s.pods)) != e.replicas {
			bad("replicas", "there are %d pods, want %d: %s", len(s.pods), e.replicas, e.why)
		}
		counted, _ := number(s.object.Object, "status", "startTimes")
		n := int64(w.history.releasedPods() - w.memory.releasedBefore)
		for _, p := range s.pods {
			if len(p.Spec.SchedulingGates) > 0 && text(s.object.Object, "status", "podUID") == string(p.UID) {
				n++ // it is counted before it is allowed to run
			}
		}
		// A pod that is deleted manually after it was counted and before it was
		// allowed to run stays counted.
		if !w.memory.statusLost && (counted < n || counted > n+w.memory.deletions) {
			bad("start-times", "status.startTimes is %d, and %d pods were let run", counted, n)
		}
	}
	if w.expectsUntouchedPods(e) {
		w.judgeTemplate(s, bad)
	}
}

func (w *World) expectsUntouchedPods(e expectation) bool {
	return e.serves && w.kind.hasDeployment()
}

// judgeTemplate checks that the pods contain only what the spec can ask for.
func (w *World) judgeTemplate(s *scene, bad func(string, string, ...any)) {
	if s.deployment == nil {
		return
	}
	pod := s.deployment.Spec.Template.Spec
	for _, c := range pod.Containers {
		if c.Name != w.kind.Container && c.Name != "exporter" {
			bad("drift", "the Deployment has an unowned container %q", c.Name)
		}
	}
	if pod.HostPID || pod.HostNetwork {
		bad("drift", "the pods share namespaces with the node")
	}
	if s.deployment.Spec.Paused {
		bad("drift", "the Deployment is paused")
	}
	if s.deployment.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		bad("drift", "the Deployment has the strategy %s", s.deployment.Spec.Strategy.Type)
	}
}

// auxiliary reads the children, except for the workload, that e is about and that no
// other client created, nil if there is none.
func (w *World) auxiliary(ctx context.Context, e expectation) (map[Ref]*unstructured.Unstructured, error) {
	children := map[Ref]*unstructured.Unstructured{}
	for ref := range e.children {
		if w.foreign[ref] != nil {
			continue
		}
		c, err := w.child(ctx, ref)
		if err != nil {
			return nil, err
		}
		children[ref] = c
	}
	return children, nil
}

// judgeChildren checks that the expected auxiliary resources exist, and no others,
// and that the object owns them.
func (w *World) judgeChildren(s *scene, e expectation, children map[Ref]*unstructured.Unstructured, bad func(string, string, ...any)) {
	for ref, c := range children {
		want := e.children[ref]
		switch {
		case want && c == nil:
			bad("children", "there is no %s: the spec asks for it", ref)
		case !want && c != nil && c.GetDeletionTimestamp() == nil && naming.IsLabelled(c):
			bad("children", "%s exists, and the spec does not ask for it", ref)
		case want && naming.OwnerUID(c) != s.object.GetUID():
			bad("ownership", "%s does not belong to the object", ref)
		case want && isBound(c) == (text(s.spec, "deletionPolicy") == string(common.DeletionPolicyOrphan)):
			bad("ownership", "the owner references of %s are %v: the deletion policy is %q", ref, c.GetOwnerReferences(), text(s.spec, "deletionPolicy"))
		}
		// Without the revisions, the operator does not know the ports of earlier pods.
		forgotten := w.memory.historyDeleted && w.memory.healthy == nil
		if port := ""; c != nil && ref.Kind == "Service" && s.ready() > 0 && want && !forgotten {
			if port = s.unreachable(c); port != "" {
				bad("reachable", "port %s of %s leads to no pod; %s", port, ref, s.summary())
			}
		}
		if c != nil && ref.Kind == "Service" && strings.Contains(mustJSON(c.Object["spec"]), `"port":1234`) {
			bad("drift", "%s has a port that another client set", ref)
		}
	}
}

// judgeForeign checks that unowned objects have not changed since they were
// created.
func (w *World) judgeForeign(ctx context.Context, bad func(string, string, ...any)) error {
	for ref, was := range w.foreign {
		c, err := w.child(ctx, ref)
		if err != nil {
			return err
		}
		switch {
		case c == nil:
			bad("foreign", "unowned %s was deleted", ref)
		case !equality.Semantic.DeepEqual(w.unchanging(c), was):
			bad("foreign", "unowned %s was changed:\n%s\nwas\n%s", ref, mustJSON(w.unchanging(c)), mustJSON(was))
		}
	}
	return nil
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
	if s.status.ObservedGeneration != s.object.GetGeneration() {
		w.rememberEdited(s) // a reconcile of the latest edit may be delayed
	}
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
	inputs := inputsOf(s.spec, s.in)
	if w.memory.rolledBackInputs != inputs {
		w.memory.rolledBack = ""
	}
	// The operator may see an earlier object of this name after its deletion.
	versions = slices.DeleteFunc(slices.Clone(versions), func(d *appsv1.Deployment) bool {
		o := metav1.GetControllerOf(d)
		return o != nil && o.UID != w.memory.uid
	})
	for _, d := range versions {
		seen := templateOf(d)
		w.memory.seen = append(w.memory.seen, seen)
		if w.memory.rolledBack == seen.hash && !w.memory.statusLost && !w.memory.touched && !has(s.spec, "rollout", "pinnedRevision") {
			w.violate("failed-again", "a revision that had failed was rolled out again, for the same spec: %s", imagesOf(d))
			w.memory.rolledBack = ""
		}
		if r := desiredReplicas(d); has(s.spec, "autoscaling") && w.memory.floor > 0 && r < min(w.memory.floor, maxReplicas(s.spec)) {
			w.violate("replicas-dropped", "the Deployment went from %d to %d replicas, and the autoscaler asked for no less", w.memory.floor, r)
			w.memory.floor = 0
		}
		if least, ok := number(s.spec, "autoscaling", "minReplicas"); ok && !w.memory.touched && !w.memory.hadReplicas && w.memory.edits == 0 && int64(desiredReplicas(d)) < least {
			w.violate("replicas-minimum", "the Deployment was created with %d replicas, and the minimum is %d", desiredReplicas(d), least)
			w.memory.hadReplicas = true
		}
	}
	if len(versions) > 0 {
		w.memory.hadReplicas = true
	}
	// The failed revision, if it was just rolled back.
	ready := meta.FindStatusCondition(s.status.Conditions, common.ConditionReady)
	if s.deployment == nil || ready == nil || ready.Reason != common.ReasonRolledBack || s.status.ObservedGeneration != s.object.GetGeneration() {
		return
	}
	// A pin that was removed at once replaced a template that had not failed.
	if slices.ContainsFunc(w.memory.edited, func(spec map[string]any) bool { return has(spec, "rollout", "pinnedRevision") }) {
		return
	}
	// A template that another client has changed is still the one of that revision.
	now := templateOf(s.deployment)
	if n := len(w.memory.seen); n > 1 && w.memory.seen[n-2].revision != now.revision {
		w.memory.rolledBack, w.memory.rolledBackInputs = w.memory.seen[n-2].hash, inputs
	}
}

// template identifies a pod template, and the revision for which the operator wrote it.
type template struct{ hash, revision string }

func templateOf(d *appsv1.Deployment) template {
	return template{hashOfTemplate(d.Spec.Template), d.Spec.Template.Annotations[naming.AnnotationTemplate]}
}

func imagesOf(d *appsv1.Deployment) string {
	var all []string
	for _, c := range d.Spec.Template.Spec.Containers {
		all = append(all, c.Image)
	}
	return strings.Join(all, ", ")
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
	ready := meta.FindStatusCondition(s.status.Conditions, common.ConditionReady)
	if ready != nil {
		all = append(all, fmt.Sprintf("Ready %s %s %q", ready.Status, ready.Reason, ready.Message))
	}
	return strings.Join(all, "; ")
}

func mustJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(raw)
}
