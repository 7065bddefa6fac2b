package converge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/testkit/messages"
)

// workloadPlan returns a plan with all types of dependencies. It needs only the
// kinds of the objects.
func workloadPlan() Plan {
	named := func(kind string) apply.Intent {
		in := apply.New(corev1ac.ConfigMap("web", "ns"), func() *corev1.ConfigMap { return &corev1.ConfigMap{} })
		in.Kind = kind
		return in
	}
	deployment := named("Deployment")
	deployment.Requires = []apply.Ref{{Kind: "ControllerRevision", Name: "web"}, {Kind: "ConfigMap", Name: "left-out"}}
	deployment.StartAfter = []apply.Ref{{Kind: "NetworkPolicy", Name: "web"}}
	current := named("Deployment")
	current.StartAfter = deployment.StartAfter
	current.Exclusive = []string{"current"} // distinguishes it from the other intent
	deployment.Otherwise = func() (apply.Intent, bool) { return current, true }
	plan := Plan{Apply: []apply.Intent{
		named("ConfigMap"), named("ControllerRevision"), named("NetworkPolicy"),
		deployment, named("Service"), named("HorizontalPodAutoscaler"),
	}}
	plan.Main = deployment.Ref()
	return plan
}

func TestForEachChild(t *testing.T) {
	taken := fault.Stalled(messages.New(common.ReasonConflict, "belongs to another owner"))
	refused := errors.New("refused")
	var lost error = &fault.Error{Class: fault.Quiet, Message: "it is not the one that was observed"}
	all := []string{"ConfigMap", "ControllerRevision", "NetworkPolicy", "Deployment", "Service", "HorizontalPodAutoscaler"}
	without := func(kinds ...string) []string {
		var rest []string
		for _, k := range all {
			if !strings.Contains(strings.Join(kinds, " "), k) {
				rest = append(rest, k)
			}
		}
		return rest
	}
	current := []string{"ConfigMap", "ControllerRevision", "NetworkPolicy", "Deployment current", "Service", "HorizontalPodAutoscaler"}
	for name, tc := range map[string]struct {
		fails   map[string]error // results, by kind
		exists  bool             // the Deployment
		starts  bool             // the Deployment has no pods yet
		owned   error            // why the Deployment in the cache may not be written
		others  []string         // other kinds of which the child exists
		service error            // why the Service may not be written
		want    []string         // attempted
	}{
		"nothing fails":                                                  {want: all},
		"a conflict on the ConfigMap":                                    {fails: map[string]error{"ConfigMap": taken}, want: all},
		"a conflict on the revision":                                     {fails: map[string]error{"ControllerRevision": taken}, exists: true, want: current},
		"a refused revision":                                             {fails: map[string]error{"ControllerRevision": refused}, want: current},
		"a conflict on the policy of a Deployment that exists":           {fails: map[string]error{"NetworkPolicy": taken}, exists: true, want: all},
		"a conflict on the policy of a Deployment without pods":          {fails: map[string]error{"NetworkPolicy": taken}, exists: true, starts: true, want: without("Deployment")},
		"a conflict on the policy of a Deployment that does not exist":   {fails: map[string]error{"NetworkPolicy": taken}, want: without("Deployment", "Service", "HorizontalPodAutoscaler")},
		"a refused policy of a Deployment that does not exist":           {fails: map[string]error{"NetworkPolicy": refused}, want: without("Deployment", "Service", "HorizontalPodAutoscaler")},
		"a conflict on the revision of a Deployment that does not exist": {fails: map[string]error{"ControllerRevision": taken, "NetworkPolicy": refused}, want: without("Deployment", "Service", "HorizontalPodAutoscaler")},
		"a refused policy of a Deployment that was deleted": {
			fails: map[string]error{"NetworkPolicy": refused}, others: []string{"Service"}, want: without("Deployment", "HorizontalPodAutoscaler"),
		},
		"both": {
			fails: map[string]error{"NetworkPolicy": refused, "ControllerRevision": refused}, exists: true, want: current,
		},
		"a conflict on the Deployment":                          {fails: map[string]error{"Deployment": taken}, want: without("Service", "HorizontalPodAutoscaler")},
		"conflicts on the Deployment and the Service":           {fails: map[string]error{"Deployment": taken}, service: fault.Stalled(messages.New(common.ReasonConflict, "the Service, too")), want: without("Service", "HorizontalPodAutoscaler")},
		"a conflict on the Deployment that the cache shows":     {fails: map[string]error{"Deployment": taken}, exists: true, owned: taken, want: []string{"Deployment"}},
		"a lost race for the Deployment":                        {fails: map[string]error{"Deployment": lost}, want: without("Service", "HorizontalPodAutoscaler")},
		"a lost race for the Deployment, with a Service":        {fails: map[string]error{"Deployment": lost}, others: []string{"Service"}, want: without("HorizontalPodAutoscaler")},
		"a Deployment that another client creates first":        {fails: map[string]error{"Deployment": apierrors.NewAlreadyExists(schema.GroupResource{}, "web")}, want: without("Service", "HorizontalPodAutoscaler")},
		"a refused Deployment":                                  {fails: map[string]error{"Deployment": refused}, want: all},
		"a Deployment that is being deleted":                    {fails: map[string]error{"Deployment": fault.Waiting(0, messages.New(common.ReasonWaiting, "later"))}, exists: true, owned: fault.Waiting(0, messages.New(common.ReasonWaiting, "later")), want: all},
		"a conflict on the Service":                             {fails: map[string]error{"Service": taken}, want: all},
		"a conflict on the autoscaler":                          {fails: map[string]error{"HorizontalPodAutoscaler": taken}, want: all},
		"a failed read of the Deployment that is to be created": {fails: map[string]error{"NetworkPolicy": refused}, owned: errors.New("no cache"), want: without("Deployment")},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			owned := func(_ context.Context, in apply.Intent) (bool, error) {
				switch {
				case in.Kind == "Deployment":
					return tc.exists, tc.owned
				case in.Kind == "Service" && tc.service != nil:
					return true, tc.service
				case len(tc.fails) == 0:
					t.Errorf("%s was read", in)
				}
				return slices.Contains(tc.others, in.Kind), nil
			}
			plan := workloadPlan()
			for i := range plan.Apply {
				plan.Apply[i].Starts = tc.starts && plan.Apply[i].Kind == "Deployment"
			}
			err := ForEachChild(t.Context(), plan, owned, func(in apply.Intent) error {
				got = append(got, strings.TrimSpace(in.Kind+" "+strings.Join(in.Exclusive, " ")))
				return tc.fails[in.Kind]
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("attempted (-want +got):\n%s", diff)
			}
			for kind, failure := range tc.fails {
				if !errors.Is(err, failure) {
					t.Errorf("the failure of %s is not among the errors: %v", kind, err)
				}
			}
			if tc.service != nil && !errors.Is(err, tc.service) {
				t.Errorf("the conflict on the Service is not among the errors: %v", err)
			}
		})
	}
}

// Children that the garbage collector deletes together with their owner are neither
// written nor searched for.
func TestForEachChild_EndsWhenTheOwnerIsDeleted(t *testing.T) {
	owned := func(context.Context, apply.Intent) (bool, error) { return false, nil }
	var got []string
	err := ForEachChild(t.Context(), workloadPlan(), owned, func(in apply.Intent) error {
		got = append(got, in.Kind)
		if in.Kind == "ControllerRevision" {
			return fmt.Errorf("creating it: %w", apply.ErrOwnerDeleted)
		}
		return nil
	})
	if !errors.Is(err, apply.ErrOwnerDeleted) {
		t.Errorf("got error %v, want that of the owner", err)
	}
	if want := []string{"ConfigMap", "ControllerRevision"}; !cmp.Equal(want, got) {
		t.Errorf("attempted %v, want %v", got, want)
	}
}

func TestForEachChild_RejectsDependenciesThatComeLater(t *testing.T) {
	plan := workloadPlan()
	plan.Apply[1], plan.Apply[3] = plan.Apply[3], plan.Apply[1]
	var got []string
	err := ForEachChild(t.Context(), plan, func(context.Context, apply.Intent) (bool, error) { return false, nil }, func(in apply.Intent) error {
		got = append(got, in.Kind)
		return nil
	})
	if want := `Deployment "web" depends on ControllerRevision "web", which comes later in the plan`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if want := []string{"ConfigMap", "NetworkPolicy", "ControllerRevision", "Service", "HorizontalPodAutoscaler"}; !cmp.Equal(want, got) {
		t.Errorf("attempted %v, want %v", got, want)
	}
}
