package webhooks

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/policy"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// underTest rejects every word of the image that begins with "bad".
func underTest() validator {
	return validator{recorder: noRecorder{}, kind: validate.Erase(validate.Kind[*webserverv1.WebServer]{
		GVK: webserverv1.GroupVersion.WithKind(webserverv1.Kind),
		Validate: func(w *webserverv1.WebServer, _ config.Platform) field.ErrorList {
			var errs field.ErrorList
			for word := range strings.FieldsSeq(w.Spec.Image) {
				if strings.HasPrefix(word, "bad") {
					errs = append(errs, field.Invalid(field.NewPath("spec", "image"), word, "must be good"))
				}
			}
			return errs
		},
		Judge: func(w *webserverv1.WebServer, _ config.Platform) policy.Verdict {
			if w.Spec.Paused {
				return policy.Verdict{Refused: field.ErrorList{field.Forbidden(field.NewPath("spec", "paused"), "not here")}, Warnings: []string{"paused"}}
			}
			return policy.Verdict{}
		},
	})}
}

// The label by which a kind selects its pods is reserved for it.
func TestKinds_RejectPodLabelsOfOtherKinds(t *testing.T) {
	for _, k := range Kinds() {
		for _, other := range Kinds() {
			t.Run(k.GVK.Kind+" with the label of "+other.GVK.Kind, func(t *testing.T) {
				if other.PodLabel == "" {
					t.Fatalf("%s declares no PodLabel", other.GVK.Kind)
				}
				o, spec := k.New(), map[string]any{"pod": map[string]any{"labels": map[string]any{other.PodLabel: "other"}}}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(map[string]any{"spec": spec}, o); err != nil {
					t.Fatal(err)
				}
				rejected := slices.ContainsFunc(k.Validate(o, config.Default()), func(e *field.Error) bool {
					return e.Field == "spec.pod.labels["+other.PodLabel+"]"
				})
				if want := k.GVK != other.GVK; rejected != want {
					t.Errorf("got rejected %v, want %v", rejected, want)
				}
			})
		}
	}
}

// refusals records what is counted.
type refusals []string

func (r *refusals) Refused(kind, rule, errorType string) {
	*r = append(*r, kind+" "+rule+" "+errorType)
}

func TestValidate_CountsRefusals(t *testing.T) {
	v, counted := underTest(), refusals{}
	v.recorder = &counted
	paused := image("good")
	paused.Spec.Paused = true
	for _, w := range []*webserverv1.WebServer{image("good"), image("bad"), paused} {
		_, _ = v.ValidateCreate(t.Context(), w)
	}
	_, _ = v.ValidateUpdate(t.Context(), image("bad"), image("bad")) // an error that it had already
	_, _ = v.ValidateUpdate(t.Context(), image("good"), image("bad"))
	want := refusals{"WebServer schema Invalid", "WebServer policy Forbidden", "WebServer schema Invalid"}
	if diff := cmp.Diff(want, counted); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
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

func TestValidate_CreateReportsAllErrors(t *testing.T) {
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

// Rules of the platform configuration are treated like all others.
func TestValidate_PlatformRules(t *testing.T) {
	paused := image("bad1")
	paused.Spec.Paused = true
	warnings, err := underTest().ValidateCreate(t.Context(), paused)
	if diff := cmp.Diff([]string{`spec.image: Invalid value: "bad1": must be good`, "spec.paused: Forbidden: not here"}, causes(err)); diff != "" {
		t.Errorf("causes (-want +got):\n%s", diff)
	}
	if !slices.Equal(warnings, []string{"paused"}) {
		t.Errorf("warnings are %q", warnings)
	}
	// Other fields of an object that is older than the rule can be changed; the
	// warning is repeated.
	other := paused.DeepCopy()
	other.Spec.Image = "good"
	warnings, err = underTest().ValidateUpdate(t.Context(), paused, other)
	if err != nil || !slices.Equal(warnings, []string{"paused"}) {
		t.Errorf("got %v and warnings %q", err, warnings)
	}
	if _, err := underTest().ValidateUpdate(t.Context(), image("good"), other); err == nil {
		t.Error("an update that makes it so is accepted")
	}
}

// An error whose list entry has moved is not new, but a second error like it is.
func TestValidate_UpdateAllowsMovedErrorsButNoMore(t *testing.T) {
	k := validator{recorder: noRecorder{}, kind: validate.Erase(validate.Kind[*webserverv1.WebServer]{
		Validate: func(w *webserverv1.WebServer, _ config.Platform) field.ErrorList {
			var errs field.ErrorList
			for i, word := range strings.Fields(w.Spec.Image) {
				if strings.HasPrefix(word, "bad") {
					errs = append(errs, field.Invalid(field.NewPath("spec", "hosts").Index(i), word, "must be good"))
				}
			}
			return errs
		},
		Judge: func(*webserverv1.WebServer, config.Platform) policy.Verdict { return policy.Verdict{} },
	})}
	for name, tc := range map[string]struct{ old, now, want string }{
		"down":    {"bad", "good bad", ""},
		"up":      {"good bad", "bad", ""},
		"another": {"bad", "bad bad", `spec.hosts[1]: Invalid value: "bad": must be good`}, //nolint:dupword // the same error twice
		"other":   {"good bad", "bad2 good", `spec.hosts[0]: Invalid value: "bad2": must be good`},
	} {
		_, err := k.ValidateUpdate(t.Context(), image(tc.old), image(tc.now))
		if got := strings.Join(causes(err), "\n"); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

func TestValidate_LimitsErrorCount(t *testing.T) {
	_, err := underTest().ValidateCreate(t.Context(), image(strings.Repeat("bad ", 30000)))
	got := causes(err)
	if len(got) != 101 || got[100] != "spec: Forbidden: 29900 more validation errors are not shown" {
		t.Errorf("%d causes, the last is %q", len(got), got[len(got)-1])
	}
}

// A rule that is newer than an object must not prevent changes of other fields.
func TestValidate_UpdateReportsOnlyNewErrors(t *testing.T) {
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

func TestValidate_DeleteIsAlwaysAllowed(t *testing.T) {
	if _, err := underTest().ValidateDelete(t.Context(), image("bad")); err != nil {
		t.Error(err)
	}
}

func TestScaling_NamesTheScaledObject(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := autoscalingv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := scaling{
		recorder: noRecorder{}, gk: schema.GroupKind{Group: "my.domain", Kind: "WebServer"}, decoder: admission.NewDecoder(scheme),
		validate: func(old, now *autoscalingv1.Scale) field.ErrorList {
			if now.Spec.Replicas > 2*old.Spec.Replicas {
				return field.ErrorList{field.Invalid(field.NewPath("spec", "replicas"), now.Spec.Replicas, "too fast")}
			}
			return nil
		},
	}
	ask := func(old, now string) admission.Response {
		raw := func(spec string) runtime.RawExtension {
			return runtime.RawExtension{Raw: []byte(`{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"ns"},"spec":` + spec + `}`)}
		}
		return h.Handle(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Name: "web", Operation: admissionv1.Update, SubResource: "scale", OldObject: raw(old), Object: raw(now),
		}})
	}
	if r := ask(`{"replicas":2}`, `{"replicas":4}`); !r.Allowed {
		t.Errorf("refused: %v", r.Result)
	}
	r := ask(`{}`, `{"replicas":4}`)
	want := `WebServer.my.domain "web" is invalid: spec.replicas: Invalid value: 4: too fast`
	if r.Allowed || r.Result.Message != want || r.Result.Code != http.StatusUnprocessableEntity {
		t.Errorf("allowed %v: %v\nwant %s", r.Allowed, r.Result, want)
	}
	if r := ask(`{}`, `{"replicas":"four"}`); r.Allowed || r.Result.Code != http.StatusBadRequest {
		t.Errorf("what cannot be read: allowed %v, %v", r.Allowed, r.Result)
	}
}
