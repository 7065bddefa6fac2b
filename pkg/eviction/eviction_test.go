package eviction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

var now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// requested returns a pod with a request of the given age.
func requested(age time.Duration, change ...func(*corev1.Pod)) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web-1", UID: "uid", Annotations: map[string]string{
		naming.AnnotationEvictionRequested: now.Add(-age).Format(time.RFC3339),
	}}}
	for _, c := range change {
		c(&p)
	}
	return p
}

func deleted(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(now)) }
func failed(p *corev1.Pod)  { p.Status.Phase = corev1.PodFailed }
func broken(p *corev1.Pod)  { p.Annotations[naming.AnnotationEvictionRequested] = "soon" }

func TestOf(t *testing.T) {
	at := func(age time.Duration, over bool) Request { return Request{At: now.Add(-age), Over: over} }
	for name, tc := range map[string]struct {
		pods []corev1.Pod
		want Request
	}{
		"none":                             {},
		"a pod without a request":          {pods: []corev1.Pod{{}}},
		"a new request":                    {pods: []corev1.Pod{requested(0)}, want: at(0, false)},
		"one that waits":                   {pods: []corev1.Pod{requested(Wait - time.Second)}, want: at(Wait-time.Second, false)},
		"one that has waited for too long": {pods: []corev1.Pod{requested(Wait)}, want: at(Wait, true)},
		"a forgotten one":                  {pods: []corev1.Pod{requested(2 * Wait)}},
		"by a clock that is ahead":         {pods: []corev1.Pod{requested(-Wait)}, want: at(-Wait, false)},
		"by a clock that is wrong":         {pods: []corev1.Pod{requested(-Wait - time.Second)}},
		"no time":                          {pods: []corev1.Pod{requested(0, broken)}},
		"a pod that is being deleted":      {pods: []corev1.Pod{requested(0, deleted)}},
		"a pod that has ended":             {pods: []corev1.Pod{requested(0, failed)}},
		"the first one":                    {pods: []corev1.Pod{requested(time.Second), requested(time.Minute), requested(0)}, want: at(time.Minute, false)},
		"the first one that waits":         {pods: []corev1.Pod{requested(Wait + time.Minute), requested(time.Minute)}, want: at(time.Minute, false)},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Of(tc.pods, now)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
