package monitoring

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestPodMonitor_DeepCopySharesNothing(t *testing.T) {
	list := func() *PodMonitorList {
		return &PodMonitorList{
			ListMeta: metav1.ListMeta{RemainingItemCount: new(int64(1))},
			Items: []PodMonitor{{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
				Spec: PodMonitorSpec{
					Selector:            Selector{MatchLabels: map[string]string{"a": "b"}},
					PodMetricsEndpoints: []PodMetricsEndpoint{{Port: "metrics"}},
				},
			}},
		}
	}
	original := list()
	for _, c := range []runtime.Object{original.DeepCopyObject(), &PodMonitorList{
		ListMeta: list().ListMeta, Items: []PodMonitor{*original.Items[0].DeepCopyObject().(*PodMonitor)},
	}} {
		made := c.(*PodMonitorList)
		if diff := cmp.Diff(list(), made); diff != "" {
			t.Errorf("the copy differs (-want +got):\n%s", diff)
		}
		*made.RemainingItemCount = 2
		made.Items[0].Labels["a"] = "c"
		made.Items[0].Spec.Selector.MatchLabels["a"] = "c"
		made.Items[0].Spec.PodMetricsEndpoints[0].Port = "other"
		if diff := cmp.Diff(list(), original); diff != "" {
			t.Errorf("changing the copy changed the original (-want +got):\n%s", diff)
		}
	}
}

func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]runtime.Object{"PodMonitor": &PodMonitor{}, "PodMonitorList": &PodMonitorList{}} {
		got, err := s.New(GroupVersion.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}
