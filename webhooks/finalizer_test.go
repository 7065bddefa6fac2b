package webhooks

import (
	"encoding/json"
	"runtime"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// mutated calls the mutating webhook, and returns the object with its patch
// applied.
func mutated(t *testing.T, raw string) string {
	t.Helper()
	r := addFinalizer(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Object: k8sruntime.RawExtension{Raw: []byte(raw)},
	}})
	return string(patched(t, []byte(raw), r))
}

// patched returns an object with the patches of a response.
func patched(t *testing.T, raw []byte, r admission.Response) []byte {
	t.Helper()
	if !r.Allowed {
		t.Fatalf("refused: %v", r.Result)
	}
	if len(r.Patches) == 0 {
		return raw
	}
	ops, err := json.Marshal(r.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		t.Fatal(err)
	}
	out, err := patch.Apply(raw)
	if err != nil {
		t.Fatalf("the API server could not apply %s: %v", ops, err)
	}
	return out
}

func TestAddFinalizer_FollowsTheDeletionPolicy(t *testing.T) {
	const others, ours = `"others.io/hold"`, `"` + naming.Finalizer + `"`
	for name, tc := range map[string]struct{ policy, before, want string }{
		"unset":               {`{}`, ``, ``},
		"Delete":              {`{"deletionPolicy":"Delete"}`, others, others},
		"Delete after Orphan": {`{"deletionPolicy":"Delete"}`, ours + "," + others, ours + "," + others},
		"unset after Orphan":  {`{}`, others + "," + ours, others + "," + ours},
		"Orphan":              {`{"deletionPolicy":"Orphan"}`, ``, ours},
		"Orphan with others":  {`{"deletionPolicy":"Orphan"}`, others, others + "," + ours},
		"Orphan that has it":  {`{"deletionPolicy":"Orphan"}`, ours + "," + others, ours + "," + others},
		"an unknown policy":   {`{"deletionPolicy":"Keep"}`, others, others},
		"another field":       {`{"deletionpolicy":"Orphan"}`, others, others},
	} {
		t.Run(name, func(t *testing.T) {
			object := func(finalizers string) string {
				if finalizers == "" {
					return `{"metadata":{"name":"a"},"spec":` + tc.policy + `}`
				}
				return `{"metadata":{"name":"a","finalizers":[` + finalizers + `]},"spec":` + tc.policy + `}`
			}
			same := func(got, want string) {
				t.Helper()
				var g, w any
				if err := json.Unmarshal([]byte(got), &g); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(want), &w); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(w, g); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			once := mutated(t, object(tc.before))
			same(once, object(tc.want))
			same(mutated(t, once), once) // the API server may call it again after other webhooks
		})
	}
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The user's values are not normalized, and invalid ones are left to the schema.
func TestAddFinalizer_ChangesOnlyFinalizers(t *testing.T) {
	for name, spec := range map[string]string{
		"a quantity said otherwise":    `{"size":1,"memory":{"size":"1024Mi"}}`,
		"a word for a number":          `{"size":"three"}`,
		"a list for an object":         `[]`,
		"a number for a word":          `{"deletionPolicy":5}`,
		"an object for a quantity":     `{"size":1,"memory":{"size":{}}}`,
		"a number that takes for ever": `{"memory":{"size":"1e-1000000000"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			raw := `{"metadata":{"name":"a"},"spec":` + spec + `}`
			if got := mutated(t, raw); got != raw {
				t.Errorf("it became %s", got)
			}
			// Computing all digits of such a number takes unbounded memory.
			if n := allocated(func() { mutated(t, raw) }); n > 1<<20 {
				t.Errorf("%d bytes were allocated for it", n)
			}
		})
	}
}
