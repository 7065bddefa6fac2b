package rollout

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/converge"
)

func TestPolicies_TheFirstThatAppliesDecides(t *testing.T) {
	now := time.Unix(100, 0)
	desired := Revision{Number: 2, name: "web-2"}
	decision := func(change func(*Decision)) *Decision {
		d := &Decision{Desired: desired, Serving: desired}
		change(d)
		return d
	}
	asked := decision(func(*Decision) {})
	second := decision(func(d *Decision) { d.back = &Revision{Number: 1, name: "web-1"} })
	healthy := memory{healthy: referenceTo(desired)}
	pinned := decision(func(d *Decision) { d.pinned = true })
	held := decision(func(d *Decision) { d.held = true })
	crash := &failure{reason: common.ReasonCrash, severity: crashes}
	crashed := &failure{reason: common.ReasonCrash, severity: crashes, certain: true}
	canary := decision(func(d *Decision) { d.canary, d.question.Rollout = true, &common.Rollout{Canary: &common.Canary{}} })
	noImage := func(age time.Duration) *failure {
		return &failure{reason: common.ReasonImagePull, severity: notStarted, certain: true, within: attemptsWithin, since: now.Add(-age)}
	}
	starts := &failure{reason: common.ReasonNotReady, severity: notReady, since: now}
	slow := &failure{reason: common.ReasonNotReady, severity: notReady, since: now.Add(-time.Minute)}
	rejection := &failure{reason: ReasonConfigInvalid, severity: rejected, certain: true}
	noNode := &failure{reason: common.ReasonUnschedulable, severity: notAdmitted, transient: true}
	refused := &failure{reason: ReasonRefused, severity: notAdmitted, transient: true}
	volume := &failure{reason: common.ReasonReferenceNotFound, severity: notCreated, transient: true, mounting: true}
	missing := &failure{reason: common.ReasonReferenceNotFound, severity: notStarted, transient: true, certain: true}
	failedBefore := memory{failed: referenceTo(desired)}

	decided := map[string]bool{}
	for name, tc := range map[string]struct {
		decision *Decision
		memory   memory
		failure  *failure
		late     bool
		mounted  bool // the pods had their time to mount volumes
		pods     []corev1.Pod
		want     string
	}{
		"a canary starts":                                {decision: canary, want: ""},
		"a canary is ready":                              {decision: canary, pods: []corev1.Pod{readySince(now, pod(""))}, want: "is held"},
		"a canary crashes":                               {decision: canary, failure: crash, pods: []corev1.Pod{readySince(now, pod(""))}, want: "makes no progress yet"},
		"no cause is visible":                            {decision: asked, want: ""},
		"a container starts":                             {decision: asked, failure: starts, want: ""},
		"a container starts for too long":                {decision: asked, failure: slow, want: "makes no progress yet"},
		"the third crash":                                {decision: second, failure: crashed, want: "fails"},
		"the third crash, and another pod is ready":      {decision: second, failure: crashed, pods: []corev1.Pod{readySince(now, pod(""))}, want: "makes no progress yet"},
		"the third crash of the first revision":          {decision: asked, failure: crashed, want: "makes no progress yet"},
		"the third crash of a revision that was healthy": {decision: second, memory: healthy, failure: crashed, want: "makes no progress yet"},
		"no such image":                                  {decision: second, failure: noImage(attemptsWithin), want: "fails"},
		"no such image for a moment":                     {decision: second, failure: noImage(attemptsWithin - time.Second), want: "makes no progress yet"},
		"a crash":                                        {decision: asked, failure: crash, want: "makes no progress yet"},
		"a crash of a pinned revision":                   {decision: pinned, failure: crash, want: "makes no progress yet"},
		"a crash, past the deadline":                     {decision: asked, failure: crash, late: true, want: "fails"},
		"no cause is visible, past the deadline":         {decision: asked, late: true, want: "fails"},
		"a rejected configuration":                       {decision: asked, failure: rejection, want: "fails"},
		"a crash while another revision is kept":         {decision: held, failure: crash, late: true, want: "makes no progress yet"},
		"a pinned revision, past the deadline":           {decision: pinned, failure: crash, late: true, want: "pinned revision fails"},
		"a pinned revision that is rejected":             {decision: pinned, failure: rejection, want: "makes no progress yet"},
		"no node":                                        {decision: asked, failure: noNode, want: "may start by itself"},
		"no node, past the deadline":                     {decision: asked, failure: noNode, late: true, want: "waits for the cluster"},
		"no node for a pinned revision":                  {decision: pinned, failure: noNode, late: true, want: "waits for the cluster"},
		"admission refuses the pods":                     {decision: asked, failure: refused, want: "waits for the cluster"},
		"a missing object":                               {decision: asked, failure: missing, want: "waits for the cluster"},
		"a volume":                                       {decision: asked, failure: volume, want: "mounts volumes"},
		"a volume of a young pod":                        {decision: asked, failure: volume, late: true, want: "mounts volumes"},
		"a volume, past the deadline":                    {decision: asked, failure: volume, late: true, mounted: true, want: "waits for the cluster"},
		"a healthy revision that is rejected":            {decision: asked, memory: healthy, failure: rejection, want: "makes no progress yet"},
		"a revision that failed":                         {decision: asked, memory: failedBefore, want: "failed before"},
		"a revision that failed, and has no node":        {decision: asked, memory: failedBefore, failure: noNode, late: true, want: "failed before"},
		"a revision that failed, and is pinned":          {decision: pinned, memory: failedBefore, failure: crash, late: true, want: "pinned revision fails"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &progress{decision: tc.decision, memory: &tc.memory, failure: tc.failure, late: tc.late, out: converge.Outcome{Now: now}, pods: tc.pods, dep: &appsv1.Deployment{Status: appsv1.DeploymentStatus{UpdatedReplicas: 1}}}
			if tc.mounted {
				p.pods = []corev1.Pod{{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: waitingFor("ContainerCreating", "")}}}}}
			}
			got := ""
			for _, policy := range policies {
				if policy.applies(p) {
					got = policy.name
					break
				}
			}
			if got != tc.want {
				t.Errorf("%q decides, want %q", got, tc.want)
			}
			decided[got] = true
		})
	}
	for _, policy := range policies {
		if !decided[policy.name] {
			t.Errorf("%q decides no case", policy.name)
		}
	}
}
