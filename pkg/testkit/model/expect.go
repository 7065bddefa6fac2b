package model

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/platform-operator/platform-operator/apis/common"
)

// memory is what the model records about one object, from its creation on.
type memory struct {
	uid types.UID
	// healthy is the spec of the last revision of which all pods were ready.
	healthy map[string]any
	// healthyImage is the image that its pods ran, and healthyTemplate is the
	// template that the Deployment had then.
	healthyImage, healthyTemplate string
	// rollingOut are the specs that the operator may have rolled out before the
	// object was paused. Their pods may become ready afterwards.
	rollingOut []map[string]any
	// historyDeleted reports whether the revisions were deleted since everything
	// settled last, and deletedAt is how many versions of the Deployment there were
	// before.
	historyDeleted bool
	deletedAt      int
	// pinned reports whether another revision has been rolled out since, by pinning
	// it.
	pinned bool
	// rolledBack is the template that had failed when it was rolled back, and
	// rolledBackInputs are its inputs.
	rolledBack       string
	rolledBackInputs string
	// statusLost reports whether the status was erased.
	statusLost bool
	// versions is how many versions of the Deployment have been checked.
	versions int
	// floor is the minimum number of pods while an autoscaler sets it.
	floor int32
	// hadReplicas reports whether the Deployment has existed.
	hadReplicas bool
	// restored reports whether the object was restored in this step: it adopts its children.
	restored bool
	// releasedBefore is how many pods had run before the object was created.
	releasedBefore int
	// deletions is how many pods were deleted manually, and evicted whether that was in
	// this step.
	deletions int64
	evicted   bool
	// failing reports whether the spec did not work when everything settled last.
	failing bool
	// tooLate are the inputs of pods that work, but for which it may have been too late.
	tooLate string
	// owed reports whether the object was paused when everything settled last, and not
	// all pods were ready: it may be rolled back before what the spec asks for now can be
	// written.
	owed bool
	// patched is how many times each child was changed manually.
	patched map[Ref]int
	// touched reports whether a child was changed manually in this step.
	touched bool
	// policyAt is the generation that changed the deletion policy last; 0 if none did.
	policyAt int64
	// changedFor are the inputs of pods, but for the content of the ConfigMap, when that
	// was changed last.
	changedFor string
	// edits is how many times the inputs of pods were changed in this step, and
	// doubtful whether one of these changes did not work.
	edits    int
	doubtful bool
	// edited are the specs since everything settled last, and perhaps is one of them
	// of which all pods were ready before the operator could see the next one. It
	// depends on the order of events whether that counts as healthy.
	edited  []map[string]any
	perhaps map[string]any
	// seen are the templates since everything settled last.
	seen []template
}

// expectation is what a user may expect of an object that has settled. It follows
// from docs/api, and does not depend on what the operator has done.
type expectation struct {
	// ready reports whether Ready must be True.
	ready bool
	// orReason is the reason that Ready may have if it is not True nevertheless.
	orReason string
	// mayBeReady reports whether Ready may be True.
	mayBeReady bool
	// innocent reports whether the spec is not to blame, whatever its pods suffer.
	innocent bool
	// serves reports whether pods must serve, of this spec or an earlier one.
	serves bool
	// image is what the pods must run, "" if that is not known, and orImage is what
	// they may run instead.
	image, orImage string
	// replicas is how many pods there must be, -1 if that is not known.
	replicas int64
	// children are the auxiliary resources, and whether each must exist.
	children map[Ref]bool
	// why is the reason for the expectation.
	why string
}

// neutral are the fields of a spec that do not affect pods.
var neutral = []string{"replicas", "replica", "size", "service", "expose", "autoscaling", "podDisruptionBudget", "networkPolicy", "paused", "deletionPolicy"}

// inputsOf returns the part of a spec that pods are created from, and the content
// of the ConfigMap and the Secret that it may refer to.
func inputsOf(spec map[string]any, in inputs) string {
	s := runtimeCopy(spec)
	for _, f := range neutral {
		delete(s, f)
	}
	if r, ok := s["rollout"].(map[string]any); ok {
		s["restartedAt"] = r["restartedAt"]
		if refersToConfigMap(spec) {
			s["restartOnConfigChange"] = r["restartOnConfigChange"]
		}
	}
	delete(s, "rollout")
	for field, value := range s {
		if value == nil {
			delete(s, field)
		}
	}
	ports, _ := s["ports"].([]any)
	for _, p := range ports {
		for _, ofService := range []string{"name", "nodePort", "appProtocol"} {
			delete(p.(map[string]any), ofService)
		}
	}
	raw, err := json.Marshal([]any{s, in["ConfigMap/cm"], in["Secret/secret"]})
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return string(raw)
}

func refersToConfigMap(spec map[string]any) bool {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	return strings.Contains(string(raw), `"name":"cm"`)
}

// expect is the model.
func (w *World) expect(spec map[string]any, in inputs) expectation {
	e := expectation{mayBeReady: true, replicas: -1}
	m := &w.memory
	works, available := w.works(spec, in)
	paused := spec["paused"] == true
	pinned := has(spec, "rollout", "pinnedRevision")
	conflict := w.conflict(spec)
	e.children = w.expectChildren(spec)
	switch {
	case paused:
		e.why = "paused"
		e.children = nil // they do not change
		return e
	case has(spec, "networkPolicy") && w.foreign[policyOf(w.kind)] != nil:
		e.why = "no pod may be created without its NetworkPolicy, whose name is taken"
		e.mayBeReady = false
		return e
	case !w.kind.hasDeployment():
		return w.expectPod(e, spec, works, conflict)
	}
	want := w.wanted(spec)
	e.replicas = want
	switch {
	case pinned:
		e.why = "a revision is pinned"
		e.replicas = -1
	case w.cluster.keepsPodsOut():
		e.why = "the cluster does not run the pods"
		e.innocent = works && !conflict && !w.mayBeTooLate(spec, in)
	case !w.restarts(spec) && (has(spec, "config", "configMapRef") || has(spec, "content", "configMapRef")) && m.changedFor == inputsOf(spec, nil):
		e.why = "a change of the ConfigMap waits for the next change of the spec"
	case works && !conflict && w.mayBeTooLate(spec, in):
		e.why = "the spec works, but the pods that showed why it did not were deleted, and the next ones had only a second"
		e.ready, e.serves = true, want != 0
		e.orReason = common.ReasonRolledBack
		if text(spec, "rollout", "onFailure") == "Halt" && m.rolledBack == "" {
			e.orReason = common.ReasonRolloutFailed
		}
	case works && !conflict:
		e.why = "the spec works"
		e.ready, e.serves, e.image = true, want != 0, text(spec, "image")
	case works:
		e.why = "the spec works, and a name is taken"
		e.mayBeReady = false
		e.serves, e.image = want != 0, text(spec, "image")
	case m.healthy == nil:
		e.why = "the spec does not work, and there is none to roll back to"
		e.mayBeReady = want == 0
	default:
		e.why = "the spec does not work, and an earlier one did"
		e.mayBeReady = want == 0 || w.keepsRunning(spec, in)
		healthyWorks, _ := w.works(m.healthy, in)
		// After a rollback, Halt keeps the revision in use.
		rolledBack := m.rolledBack != "" && m.rolledBackInputs == inputsOf(spec, in) && m.edits <= 1 && !m.statusLost
		halt := text(spec, "rollout", "onFailure") == "Halt" && !rolledBack
		// A missing ConfigMap or Secret that pods use directly prevents new pods of
		// any revision, and with Halt there is no rollback.
		if healthyWorks && available && !halt {
			e.serves, e.image, e.orImage = want != 0, m.healthyImage, text(m.perhaps, "image")
			if m.pinned || want == 0 {
				e.image = "" // the pinned revision became healthy later; without pods no rollout fails
			}
		}
	}
	if !available && m.healthy == nil {
		e.replicas = -1 // there never was a template to scale
	}
	if has(spec, "autoscaling") {
		e.replicas = -1
		if w.cluster.dead && e.mayBeReady {
			e.ready, e.mayBeReady, e.why = false, false, e.why+", and its autoscaler gets no metrics"
		}
	}
	return e
}

// mayBeTooLate reports whether a spec may be rolled back although it works again. The pods
// that showed that a Secret or ConfigMap was missing were deleted, and the deadline, which
// is a second in most chains, was exceeded before there were others.
func (w *World) mayBeTooLate(spec map[string]any, in inputs) bool {
	m := &w.memory
	return m.healthy != nil && (m.failing && m.evicted || m.tooLate == inputsOf(spec, in))
}

// mostPatches is how many times a child may be changed manually. What keeps changing is
// restored a minute later (docs/decisions/0042-disputes.md), which no chain waits for.
const mostPatches = 5

// patch counts a manual change of a child, and reports whether there were not too many
// before.
func (m *memory) patch(child Ref) bool {
	if m.patched[child] == mostPatches {
		return false
	}
	if m.patched == nil {
		m.patched = map[Ref]int{}
	}
	m.patched[child]++
	return true
}

// forgetDeletedHistory forgets what was healthy if it was deleted: a user who
// deletes the revisions gives up the rollback of a rollout that has started. A
// revision that the Deployment has is not lost. current is the Deployment, nil if
// there is none, and since are its versions since the revisions were deleted,
// including the one that it had then.
func (m *memory) forgetDeletedHistory(current *appsv1.Deployment, since []*appsv1.Deployment) {
	kept := current != nil && !slices.ContainsFunc(append(slices.Clone(since), current), func(d *appsv1.Deployment) bool {
		return hashOfTemplate(d.Spec.Template) != m.healthyTemplate
	})
	if m.historyDeleted && !kept {
		m.healthy, m.healthyImage, m.healthyTemplate = nil, "", ""
	}
}

// expectPod is expect for the kind that runs one pod.
func (w *World) expectPod(e expectation, spec map[string]any, works, conflict bool) expectation {
	switch {
	case spec["suspend"] == true:
		e.why, e.ready, e.replicas = "suspended", !conflict, 0
		e.mayBeReady = !conflict
	case works:
		e.why, e.ready, e.serves, e.replicas, e.image = "the spec works", !conflict, true, 1, text(spec, "image")
		e.mayBeReady = !conflict
	default:
		e.why, e.mayBeReady, e.replicas = "the spec does not work", false, 1
	}
	return e
}

// wanted returns how many pods a spec asks for; -1 means that an autoscaler
// decides.
func (w *World) wanted(spec map[string]any) int64 {
	if has(spec, "autoscaling") {
		return -1
	}
	if n, ok := number(spec, w.kind.Replicas); ok {
		return n
	}
	return 1
}

// works reports whether pods of a spec become ready, and complete whether
// everything exists that the operator needs to create them.
func (w *World) works(spec map[string]any, in inputs) (works, complete bool) {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	s := string(raw)
	works, complete = runs(text(spec, "image")), true
	usesMap := refersToConfigMap(spec)
	if usesMap && in["ConfigMap/cm"] == nil {
		works, complete = false, false
	}
	usesSecret := strings.Contains(s, `"name":"secret"`) || strings.Contains(s, `"secretName":"secret"`)
	if usesSecret && in["Secret/secret"] == nil {
		works, complete = false, false
	}
	if w.kind.Name == "webserver" {
		wrong := strings.Contains(text(spec, "config", "inline"), wrongConfig)
		if usesMap && has(spec, "config", "configMapRef") {
			wrong = wrong || strings.Contains(in["ConfigMap/cm"]["server.conf"], wrongConfig)
		}
		works = works && !wrong
	}
	return works, complete
}

// keepsRunning reports whether pods that run can be those of a spec although new
// ones would not start: they were started before a Secret, or a ConfigMap that they
// use as it is, was deleted. There are no snapshots of Secrets.
func (w *World) keepsRunning(spec map[string]any, in inputs) bool {
	if inputsOf(spec, nil) != inputsOf(w.memory.healthy, nil) {
		return false
	}
	snapshots := w.restarts(spec)
	unmounted := runtimeCopy(spec)
	if !snapshots {
		delete(unmounted, "env")
		delete(unmounted, "envFrom")
	}
	if volumes, ok, _ := unstructured.NestedSlice(unmounted, "pod", "volumes"); ok {
		pod, _ := unmounted["pod"].(map[string]any)
		pod["volumes"] = slices.DeleteFunc(volumes, func(v any) bool {
			volume, _ := v.(map[string]any)
			return !snapshots && has(volume, "configMap")
		})
	}
	started := maps.Clone(in)
	if started == nil {
		started = inputs{}
	}
	started["Secret/secret"] = map[string]string{}
	works, _ := w.works(unmounted, started)
	return works
}

// restarts reports whether pods are replaced if the content of a ConfigMap changes.
func (w *World) restarts(spec map[string]any) bool {
	if on, ok, _ := unstructured.NestedBool(spec, "rollout", "restartOnConfigChange"); ok {
		return on
	}
	return w.kind.Restarts
}

// conflict reports whether an unowned object has the name of a child that a spec
// asks for.
func (w *World) conflict(spec map[string]any) bool {
	children := w.expectChildren(spec)
	for ref := range w.foreign {
		if children[ref] {
			return true
		}
	}
	// An HTTPRoute cannot be created, because the cluster does not serve the kind.
	return text(spec, "expose", "type") == "Gateway"
}

// expectChildren returns the children that exist only if a spec asks for them, and
// whether it does.
func (w *World) expectChildren(spec map[string]any) map[Ref]bool {
	k, children := w.kind, map[Ref]bool{}
	if k.Policy != "" {
		children[policyOf(k)] = has(spec, "networkPolicy")
	}
	if !k.hasDeployment() {
		return children
	}
	ports, _ := spec["ports"].([]any)
	children[serviceOf(k)] = k.Name != "demoapplication" || len(ports) > 0
	// An unowned PodDisruptionBudget does not select these pods.
	most := w.wanted(spec)
	if most == -1 {
		most = int64(maxReplicas(spec))
	}
	children[pdbOf(k)] = has(spec, "podDisruptionBudget") || most > 1 || most == 1 && k.Scales // which is replaced before it is evicted
	if k.Scales {
		children[hpaOf(k)] = has(spec, "autoscaling")
		children[ingressOf(k)] = text(spec, "expose", "type") == "Ingress"
	}
	return children
}

// last returns the last element of a list, or the zero value if it is empty.
func last[T any](all []T) T {
	var none T
	if len(all) == 0 {
		return none
	}
	return all[len(all)-1]
}
