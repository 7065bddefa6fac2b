package workload

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestNodes_Only(t *testing.T) {
	on := func(names ...string) []corev1.Pod {
		var pods []corev1.Pod
		for _, name := range names {
			pods = append(pods, corev1.Pod{Spec: corev1.PodSpec{NodeName: name}})
		}
		return pods
	}
	deleted, failed := on("b"), on("b")
	deleted[0].DeletionTimestamp = &metav1.Time{}
	failed[0].Status.Phase = corev1.PodFailed
	for name, tc := range map[string]struct {
		others, pods []corev1.Pod // of other objects, and of this one
		want         string
	}{
		"a cluster of one node":                 {others: on("a"), pods: on("a", "a")},
		"pods of another object were elsewhere": {others: on("b"), pods: on("a", "a"), want: "a"},
		"and have returned":                     {others: on("a", "b", "a"), pods: on("a", "a"), want: "a"},
		"one pod":                               {others: on("b"), pods: on("a")},
		"two nodes":                             {pods: on("a", "b", "a")},
		"another one is being deleted":          {pods: append(deleted, on("a", "a")...), want: "a"},
		"another one failed":                    {pods: append(failed, on("a", "a")...), want: "a"},
		"one of two is being deleted":           {pods: append(deleted, on("a")...)},
		"pods without a node":                   {others: on("a", "b"), pods: on("", "")},
		"none":                                  {others: on("a", "b")},
	} {
		t.Run(name, func(t *testing.T) {
			n := &nodes{}
			n.only(tc.others)
			if diff := cmp.Diff(tc.want, n.only(tc.pods)); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}
