package webhooks

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/apis/common"
	cachev1alpha1 "github.com/platform-operator/platform-operator/apis/memcached/v1alpha1"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// underTest refuses every word of the image that begins with "bad".
func underTest() kind[*webserverv1.WebServer] {
	return kind[*webserverv1.WebServer]{
		gk: schema.GroupKind{Group: "my.domain", Kind: "WebServer"},
		validate: func(w *webserverv1.WebServer) field.ErrorList {
			var errs field.ErrorList
			for word := range strings.FieldsSeq(w.Spec.Image) {
				if strings.HasPrefix(word, "bad") {
					errs = append(errs, field.Invalid(field.NewPath("spec", "image"), word, "must be good"))
				}
			}
			return errs
		},
	}
}

func image(words string) *webserverv1.WebServer {
	return &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: webserverv1.WebServerSpec{Image: words}}
}

func causes(err error) []string {
	var all []string
	if s, ok := err.(apierrors.APIStatus); ok && s.Status().Details != nil {
		for _, c := range s.Status().Details.Causes {
			all = append(all, c.Field+": "+c.Message)
		}
	}
	return all
}

func TestCreateIsRefusedForEverythingAtOnce(t *testing.T) {
	if _, err := underTest().ValidateCreate(t.Context(), image("good")); err != nil {
		t.Errorf("a good one is refused: %v", err)
	}
	_, err := underTest().ValidateCreate(t.Context(), image("bad1 good bad2"))
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want a 422", err)
	}
	want := []string{`spec.image: Invalid value: "bad1": must be good`, `spec.image: Invalid value: "bad2": must be good`}
	if diff := cmp.Diff(want, causes(err)); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if !strings.Contains(err.Error(), `WebServer.my.domain "web" is invalid`) {
		t.Errorf("%q does not name the object", err)
	}
}

// A rule that is newer than an object must not keep it from being changed.
func TestUpdateIsRefusedOnlyForWhatItMakesWrong(t *testing.T) {
	for name, tc := range map[string]struct {
		old, now string
		want     []string
	}{
		"good stays good":        {"good", "better", nil},
		"good becomes bad":       {"good", "bad1", []string{`spec.image: Invalid value: "bad1": must be good`}},
		"bad stays as it was":    {"bad1", "bad1 more", nil},
		"bad becomes good":       {"bad1", "good", nil},
		"bad becomes other bad":  {"bad1", "bad2", []string{`spec.image: Invalid value: "bad2": must be good`}},
		"only what is new of it": {"bad1", "bad1 bad2", []string{`spec.image: Invalid value: "bad2": must be good`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := underTest().ValidateUpdate(t.Context(), image(tc.old), image(tc.now))
			if diff := cmp.Diff(tc.want, causes(err)); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeletionIsNeverRefused(t *testing.T) {
	if _, err := underTest().ValidateDelete(t.Context(), image("bad")); err != nil {
		t.Error(err)
	}
}

func TestFinalizerFollowsTheDeletionPolicy(t *testing.T) {
	const others = "others.io/hold"
	for name, tc := range map[string]struct {
		policy common.DeletionPolicy
		before []string
		want   []string
	}{
		"unset":                 {"", nil, nil},
		"Delete":                {common.DeletionPolicyDelete, []string{others}, []string{others}},
		"Delete after Orphan":   {common.DeletionPolicyDelete, []string{naming.Finalizer, others}, []string{others}},
		"unset after Orphan":    {"", []string{naming.Finalizer}, nil},
		"Orphan":                {common.DeletionPolicyOrphan, nil, []string{naming.Finalizer}},
		"Orphan beside others":  {common.DeletionPolicyOrphan, []string{others}, []string{others, naming.Finalizer}},
		"Orphan that has it":    {common.DeletionPolicyOrphan, []string{naming.Finalizer, others}, []string{naming.Finalizer, others}},
		"a policy nobody knows": {"Keep", []string{others}, []string{others}},
	} {
		t.Run(name, func(t *testing.T) {
			w := image("nginx")
			w.Spec.DeletionPolicy, w.Finalizers = tc.policy, tc.before
			k := underTest()
			if err := k.Default(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, w.Finalizers); diff != "" && len(tc.want)+len(w.Finalizers) > 0 {
				t.Errorf("finalizers (-want +got):\n%s", diff)
			}
			// The API server may call it again after other webhooks.
			once := w.DeepCopy()
			if err := k.Default(t.Context(), w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(once, w); diff != "" {
				t.Errorf("a second call changed the object:\n%s", diff)
			}
		})
	}
}

// What a user sent is not said in other words: only finalizers are patched.
func TestDefaultingPatchesNothingButFinalizers(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := cachev1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	hook := admission.WithDefaulter(scheme, kind[*cachev1alpha1.Memcached]{})
	for policy, want := range map[string][]string{"Orphan": {"/metadata/finalizers"}, "Delete": nil} {
		raw := `{"apiVersion":"cache.example.com/v1alpha1","kind":"Memcached","metadata":{"name":"a"},"spec":{"size":1,"memory":{"size":"1024Mi"},"deletionPolicy":"` + policy + `"}}`
		r := onlyFinalizers{hook.Handler}.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(raw)},
		}})
		if !r.Allowed {
			t.Fatalf("%s: refused: %v", policy, r.Result)
		}
		var got []string
		for _, p := range r.Patches {
			got = append(got, p.Path)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: patches %v, want %v", policy, got, want)
		}
	}
}
