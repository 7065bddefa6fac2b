package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// spareUpdates is how many additional updates of an object a crash may cause: the
// one that was lost, and one that reports an intermediate state.
const spareUpdates = 2

// writeCounts counts successful writes of one object.
type writeCounts struct{ creates, updates, deletes int }

// tallies counts the writes by "resource/name". If the server chose the name of an
// object, its creation is counted for the resource.
func tallies(rs []testkit.Request) map[string]writeCounts {
	all := map[string]writeCounts{}
	for _, q := range rs {
		if !q.IsWrite() || !q.Succeeded() {
			continue
		}
		key := q.Resource + "/" + q.Name
		t := all[key]
		switch {
		case created(q):
			t.creates++
		case isDelete(q):
			t.deletes++
		default:
			t.updates++
		}
		all[key] = t
	}
	return all
}

func isDelete(q testkit.Request) bool { return q.Verb == "delete" || q.Verb == "deletecollection" }

// compareTallies returns the differences. Creates and deletes must be the same,
// because users notice each of them; updates are compared only if spare > 0.
func compareTallies(want, got map[string]writeCounts, spare int) []string {
	all := maps.Clone(want)
	maps.Copy(all, got)
	var wrong []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		w, g := want[k], got[k]
		if w.creates != g.creates {
			wrong = append(wrong, fmt.Sprintf("%s is created %d times, want %d", k, g.creates, w.creates))
		}
		if w.deletes != g.deletes {
			wrong = append(wrong, fmt.Sprintf("%s is deleted %d times, want %d", k, g.deletes, w.deletes))
		}
		if spare > 0 && g.updates > w.updates+spare {
			wrong = append(wrong, fmt.Sprintf("%s is updated %d times, want at most %d", k, g.updates, w.updates+spare))
		}
	}
	return wrong
}

// loose returns the resources of which different runs wrote objects with different
// names, such as revisions whose names depend on the content of a Secret.
func loose(runs []*result) map[string]bool {
	wrote := map[string]int{}
	for _, r := range runs {
		for key := range r.tally {
			wrote[key]++
		}
	}
	found := map[string]bool{}
	for key, n := range wrote {
		if n < len(runs) {
			found[resourceIn(key)] = true
		}
	}
	return found
}

// fold counts the objects of loose resources together.
func fold(all map[string]writeCounts, loose map[string]bool) map[string]writeCounts {
	folded := map[string]writeCounts{}
	for key, t := range all {
		if resource := resourceIn(key); loose[resource] {
			key = resource + " whose names vary"
		}
		sum := folded[key]
		folded[key] = writeCounts{sum.creates + t.creates, sum.updates + t.updates, sum.deletes + t.deletes}
	}
	return folded
}

func resourceIn(key string) string {
	resource, _, _ := strings.Cut(key, "/")
	return resource
}

// most returns the larger number of updates of two tallies.
func most(a, b map[string]writeCounts) map[string]writeCounts {
	all := maps.Clone(a)
	for k, t := range b {
		if old, ok := all[k]; ok {
			t.updates = max(t.updates, old.updates)
		}
		all[k] = t
	}
	return all
}

// needless returns the requests that a new operator sends although nothing has
// changed, except the lists that fill its caches. again are the resources of which
// it may read each object once.
func needless(rs []testkit.Request, again []string) []string {
	var found []string
	read := map[string]bool{}
	for _, q := range rs {
		once := slices.Contains(again, q.Resource) && q.Verb == "get" && !read[q.Resource+"/"+q.Name]
		read[q.Resource+"/"+q.Name] = true
		if q.Verb != "list" && q.Verb != "watch" && !once {
			found = append(found, "a fresh operator with nothing to do requests "+q.String())
		}
	}
	return found
}

// unfenced returns the deletes that could delete another object of the same name.
func unfenced(rs []testkit.Request) []string {
	var found []string
	for _, q := range rs {
		var options struct {
			Preconditions struct{ UID string }
		}
		if isDelete(q) && (json.Unmarshal(q.Body, &options) != nil || options.Preconditions.UID == "") {
			found = append(found, "without the UID: "+q.String())
		}
	}
	return found
}

// unowned returns the children whose owner does not exist at the end.
func (r *run) unowned(end []unstructured.Unstructured, rs []testkit.Request) ([]string, error) {
	there, made := map[types.UID]bool{}, map[string]bool{}
	for _, u := range end {
		there[u.GetUID()] = true
	}
	for _, q := range rs {
		if q.Succeeded() && created(q) {
			made[q.Resource+"/"+q.Name] = true
		}
	}
	var found []string
	for _, u := range end {
		gvk := u.GroupVersionKind()
		m, err := r.Env.Admin.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return nil, fmt.Errorf("looking up the resource of %s: %w", gvk.Kind, err)
		}
		resource := m.Resource.Resource
		labelled := naming.IsLabelled(&u)
		switch owner := naming.OwnerUID(&u); {
		case !labelled && !made[resource+"/"+u.GetName()] && !made[resource+"/"]:
		case owner == "" && !labelled && r.scenario.Orphans:
		case owner == "":
			found = append(found, fmt.Sprintf("%s %s is left without an owner", u.GetKind(), u.GetName()))
		case !there[owner]:
			found = append(found, fmt.Sprintf("%s %s is left by a deleted owner", u.GetKind(), u.GetName()))
		}
	}
	return found, nil
}

// checkOwners returns the children that had no owner, even if only for an instant: a
// crash at that time would have left them forever.
func checkOwners(h *history, scheme *runtime.Scheme) []string {
	var found []string
	h.replay(scheme, func(e change, _ *world) {
		if u := e.object; !e.gone && naming.IsLabelled(u) && naming.OwnerUID(u) == "" {
			if s := fmt.Sprintf("%s %s existed without an owner", u.GetKind(), u.GetName()); !slices.Contains(found, s) {
				found = append(found, s)
			}
		}
	})
	return found
}

// claims are the statements of a status, in the conditions that all kinds share.
type claims struct {
	observed   int64
	ready      bool // Ready is True for the current generation
	conditions map[string]condition
}

type condition struct{ status, since string }

func claimsOf(u *unstructured.Unstructured) claims {
	c := claims{conditions: map[string]condition{}}
	c.observed, _, _ = unstructured.NestedInt64(u.Object, "status", "observedGeneration")
	all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
	for _, e := range all {
		m, _ := e.(map[string]any)
		kind, _, _ := unstructured.NestedString(m, "type")
		status, _, _ := unstructured.NestedString(m, "status")
		since, _, _ := unstructured.NestedString(m, "lastTransitionTime")
		c.conditions[kind] = condition{status, since}
	}
	c.ready = c.conditions["Ready"].status == "True" && c.observed == u.GetGeneration()
	return c
}

// checkStatus returns the statements in the status of a parent that were false.
//
// An operator cannot know what happens while it writes: it is not responsible if a
// child is deleted while it sets Ready to True. So Ready is false only if the
// children were never correct since the generation that it describes was created.
func (r *run) checkStatus(h *history) []string {
	var found []string
	lie := func(u *unstructured.Unstructured, format string, args ...any) {
		s := fmt.Sprintf("%s %s, generation %d: ", u.GetKind(), u.GetName(), u.GetGeneration()) + fmt.Sprintf(format, args...)
		if !slices.Contains(found, s) {
			found = append(found, s)
		}
	}
	type memory struct {
		generation int64
		served     error // nil once the children were correct
		claims
	}
	remembered := map[types.UID]*memory{}
	h.replay(r.Env.Scheme, func(e change, w *world) {
		for _, u := range w.all {
			if !slices.Contains(r.parents, u.GroupVersionKind()) || u.GetDeletionTimestamp() != nil {
				continue
			}
			m, known := remembered[u.GetUID()]
			if !known {
				m = &memory{claims: claims{observed: -1}} // the default of the CRDs
				remembered[u.GetUID()] = m
			}
			if m.generation != u.GetGeneration() || m.served != nil {
				m.generation, m.served = u.GetGeneration(), r.serves(w, u)
			}
			if u != e.object {
				continue
			}
			c := claimsOf(u)
			if c.ready && m.served != nil {
				lie(u, "Ready is True, but %v", m.served)
			}
			if c.observed > u.GetGeneration() {
				lie(u, "observedGeneration is %d", c.observed)
			}
			if c.observed < m.observed {
				lie(u, "observedGeneration decreases from %d to %d", m.observed, c.observed)
			}
			for kind, now := range c.conditions {
				if was, had := m.conditions[kind]; had && was.status == now.status && was.since != now.since {
					lie(u, "lastTransitionTime of %s changes and its status, %s, does not", kind, now.status)
				}
			}
			m.claims = c
		}
	})
	return found
}

func (r *run) serves(w *world, u *unstructured.Unstructured) error {
	if r.Serves == nil {
		return nil
	}
	parent, err := w.typed(u)
	if err != nil {
		return err
	}
	return r.Serves(context.Background(), w, parent)
}
