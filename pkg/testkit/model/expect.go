package model

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what the model records about one object, from its creation on.
type memory struct {
	uid types.UID
	// healthy is the spec of the last revision of which all pods were ready, and
	// healthyImage the image that its pods ran. unsure reports whether another revision
	// may have become healthy since: between two edits that followed each other at once,
	// while the object was paused or pinned, or if its status was lost.
	healthy      map[string]any
	healthyImage string
	unsure       bool
	// historyDeleted reports whether the revisions were deleted since.
	historyDeleted bool
	// rolledBack are the inputs of pods that were rolled back when everything settled
	// last, if they were.
	rolledBack string
	// failing reports whether the spec did not work then.
	failing bool
	// versions is how many versions of the Deployment have been checked, and seen are the
	// templates since everything settled last.
	versions int
	seen     []string
	// floor is the minimum number of pods while an autoscaler sets it.
	floor int32
	// patched is how many times each child was changed manually, and touched reports
	// whether one was in this step.
	patched map[Ref]int
	touched bool
	// edits is how many times the inputs of pods were changed in this step, and
	// doubtful whether one of these changes did not work.
	edits    int
	doubtful bool
}

// edited records that the inputs of pods may have changed.
func (m *memory) edited(doubtful bool) {
	m.edits++
	m.unsure = m.unsure || m.edits > 1
	m.doubtful = m.doubtful || doubtful
}

// mostPatches is how many times a child may be changed manually. What keeps changing is
// restored a minute later (docs/decisions/0042-disputes.md), which no chain waits for.
const mostPatches = 5

// patch counts a manual change of a child, and reports whether there were not too many
// before.
func (m *memory) patch(child Ref) bool {
	if m.patched == nil {
		m.patched = map[Ref]int{}
	}
	m.patched[child]++
	return m.patched[child] <= mostPatches
}

// mayRollBack reports whether there is a revision to roll back to. Who deletes the revisions
// gives up the rollback of a rollout that has started.
func (m *memory) mayRollBack() bool { return m.healthy != nil && !m.historyDeleted }

// expectation is what a user may expect of an object that has settled. It follows
// from docs/api, and does not depend on what the operator has done.
type expectation struct {
	// ready reports whether Ready must be True, and mayBeReady whether it may.
	ready, mayBeReady bool
	// innocent reports whether the spec is not to blame, whatever its pods suffer.
	innocent bool
	// serves reports whether pods must serve, of this spec or an earlier one.
	serves bool
	// image is what the pods must run, "" if that is not known.
	image string
	// replicas is how many pods there must be, -1 if that is not known.
	replicas int64
	// why is the reason for the expectation.
	why string
}

// inputsOf returns the part of a spec that decides about a rollout, and the content of the
// ConfigMap and the Secret that it may refer to.
func inputsOf(spec map[string]any, in inputs) string {
	spec = merge(spec, map[string]any{"rollout": map[string]any{"onFailure": nil}})
	return fmt.Sprintf("%#v", []any{spec, in["ConfigMap/cm"], in["Secret/secret"]})
}

// expect is the model.
func (w *World) expect(spec map[string]any, in inputs) expectation {
	m := &w.memory
	runs, complete := works(spec, in)
	want := w.wanted(spec)
	e := expectation{mayBeReady: true, replicas: want}
	switch {
	case spec["paused"] == true:
		e.why, e.replicas = "paused", -1
	case has(spec, "rollout", "pinnedRevision"):
		e.why, e.replicas = "a revision is pinned", -1
	case text(spec, "expose", "type") == "Gateway":
		// The cluster does not serve the kind HTTPRoute.
		e.why, e.mayBeReady = "an HTTPRoute cannot be created", false
		e.serves = runs && want != 0 && !w.cluster.keepsPodsOut()
	case spec["suspend"] == true:
		e.why, e.ready, e.replicas = "suspended", true, 0
	case w.cluster.keepsPodsOut() && w.kind.hasDeployment():
		e.why, e.innocent = "the cluster does not run the pods", runs
	case runs:
		e.why, e.ready, e.innocent, e.serves, e.image = "the spec works", true, true, want != 0, text(spec, "image")
	case !w.kind.hasDeployment():
		e.why, e.mayBeReady = "the spec does not work", false
	case !m.mayRollBack():
		e.why = "the spec does not work, and there is none to roll back to"
		e.mayBeReady = want == 0 || !complete && m.healthy != nil // pods that run keep running
		if m.healthy == nil && !complete {
			e.replicas = -1 // there never was a template to scale
		}
	default:
		e.why = "the spec does not work, and an earlier one did"
		e.mayBeReady = want == 0 || !complete // pods that run keep running
		healthyWorks, _ := works(m.healthy, in)
		// After a rollback, Halt keeps the revision in use.
		halt := text(spec, "rollout", "onFailure") == "Halt" && (m.rolledBack != inputsOf(spec, in) || m.edits > 1)
		// A missing ConfigMap or Secret that pods use directly prevents new pods of
		// any revision, and with Halt there is no rollback.
		if healthyWorks && complete && !halt && want != 0 {
			e.serves = true
			if !m.unsure {
				e.image = m.healthyImage
			}
		}
	}
	if has(spec, "autoscaling") {
		e.replicas = -1
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
func works(spec map[string]any, in inputs) (works, complete bool) {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	s := string(raw)
	usesMap := strings.Contains(s, `"name":"cm"`)
	usesSecret := strings.Contains(s, `"name":"secret"`) || strings.Contains(s, `"secretName":"secret"`)
	complete = (!usesMap || in["ConfigMap/cm"] != nil) && (!usesSecret || in["Secret/secret"] != nil)
	return complete && runs(text(spec, "image")), complete
}
