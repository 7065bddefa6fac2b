package podstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func exited(code int32, reason, log string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: log}}
}

var runs = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}

// What a container waits for has a problem of its own even if the container ran before.
func TestDiagnose_KnowsTheReasonsOfTheKubelet(t *testing.T) {
	for reason, want := range map[string]struct{ first, again Problem }{
		"":                           {first: Starting, again: Crash},
		"ContainerCreating":          {first: Starting, again: Crash},
		"PodInitializing":            {first: Starting, again: Crash},
		"ErrImagePull":               {first: ImagePull, again: ImagePull},
		"ImagePullBackOff":           {first: ImagePull, again: ImagePull},
		"ErrImageNeverPull":          {first: ImagePull, again: ImagePull},
		"ImageInspectError":          {first: ImagePull, again: ImagePull},
		"InvalidImageName":           {first: ImagePull, again: ImagePull},
		"RegistryUnavailable":        {first: ImagePull, again: ImagePull},
		"SignatureValidationFailed":  {first: ImagePull, again: ImagePull},
		"CreateContainerConfigError": {first: NotCreated, again: NotCreated},
		"CreateContainerError":       {first: NotCreated, again: NotCreated},
		"PreCreateHookError":         {first: NotCreated, again: NotCreated},
		"PreStartHookError":          {first: NotCreated, again: NotCreated},
		"RunContainerError":          {first: NotCreated, again: NotCreated},
		"CrashLoopBackOff":           {first: Crash, again: Crash},
		"PostStartHookError":         {first: Crash, again: Crash},
		"RestartingAllContainers":    {first: Crash, again: Crash},
		// The kubelet reports the text of other errors in place of a reason.
		"looking up credentials: exit status 1": {first: NotCreated, again: NotCreated},
	} {
		t.Run(reason, func(t *testing.T) {
			s := corev1.ContainerStatus{State: waitingFor(reason, "")}
			if got := Diagnose(s).Problem; got != want.first {
				t.Errorf("got %v, want %v", got, want.first)
			}
			s.RestartCount, s.LastTerminationState = 1, exited(1, "Error", "")
			if got := Diagnose(s).Problem; got != want.again {
				t.Errorf("after a crash: got %v, want %v", got, want.again)
			}
		})
	}
	for reason := range waiting {
		if Diagnose(corev1.ContainerStatus{State: waitingFor(reason, "")}).Problem == None {
			t.Errorf("%q is no problem", reason)
		}
	}
}

func TestDiagnose(t *testing.T) {
	for name, tc := range map[string]struct {
		status corev1.ContainerStatus
		want   Diagnosis
	}{
		"ready": {
			status: corev1.ContainerStatus{Ready: true, State: runs},
		},
		"never started": {
			status: corev1.ContainerStatus{},
		},
		"ready, and crashed before": {
			status: corev1.ContainerStatus{Ready: true, State: runs, RestartCount: 1, LastTerminationState: exited(1, "Error", "no such file\n")},
			want:   Diagnosis{Problem: Recovered, Reason: "Error", Text: "no such file", Exit: exited(1, "Error", "no such file\n").Terminated, Restarts: 1, Running: true},
		},
		"ready, and ended before": {
			status: corev1.ContainerStatus{Ready: true, State: runs, RestartCount: 1, LastTerminationState: exited(0, "Completed", "")},
			want:   Diagnosis{Restarts: 1},
		},
		"an init container that has finished after a failure": {
			status: corev1.ContainerStatus{Ready: true, RestartCount: 1, State: exited(0, "Completed", ""), LastTerminationState: exited(1, "Error", "")},
			want:   Diagnosis{Restarts: 1},
		},
		"an init container that has failed": {
			status: corev1.ContainerStatus{State: exited(1, "Error", "no such file")},
			want:   Diagnosis{Problem: Crash, Reason: "Error", Text: "no such file", Exit: exited(1, "Error", "no such file").Terminated},
		},
		"running, not ready": {
			status: corev1.ContainerStatus{State: runs},
			want:   Diagnosis{Problem: NotReady},
		},
		"running, not ready, and crashed before": {
			status: corev1.ContainerStatus{State: runs, RestartCount: 1, LastTerminationState: exited(1, "Error", "")},
			want:   Diagnosis{Problem: Crash, Reason: "Error", Exit: exited(1, "Error", "").Terminated, Restarts: 1, Running: true},
		},
		"running again after its node was off": {
			status: corev1.ContainerStatus{State: runs, RestartCount: 2, LastTerminationState: exited(255, "Unknown", "")},
			want:   Diagnosis{Problem: NotReady, Restarts: 2},
		},
		"ended without an error, once": {
			status: corev1.ContainerStatus{State: exited(0, "Completed", "")},
		},
		"ends without an error again and again": {
			status: corev1.ContainerStatus{RestartCount: 1, State: exited(0, "Completed", "")},
			want:   Diagnosis{Problem: Crash, Reason: "Completed", Exit: exited(0, "Completed", "").Terminated, Restarts: 1},
		},
		"crash loop": {
			status: corev1.ContainerStatus{RestartCount: 1, State: waitingFor("CrashLoopBackOff", "back-off 10s restarting failed container"), LastTerminationState: exited(137, "OOMKilled", "")},
			want:   Diagnosis{Problem: Crash, Reason: "CrashLoopBackOff", Exit: exited(137, "OOMKilled", "").Terminated, Restarts: 1},
		},
		"crash loop whose last exit is lost": {
			status: corev1.ContainerStatus{State: waitingFor("CrashLoopBackOff", "back-off 10s restarting failed container")},
			want:   Diagnosis{Problem: Crash, Reason: "CrashLoopBackOff"},
		},
		"image of a registry": {
			status: corev1.ContainerStatus{Image: "web:2", State: waitingFor("ImagePullBackOff", `Back-off pulling image "web:2": ErrImagePull: rpc error: code = NotFound desc = not found`)},
			want:   Diagnosis{Problem: ImagePull, Image: "web:2", Reason: "ImagePullBackOff", Text: "rpc error: code = NotFound desc = not found"},
		},
		"image, without the error of the registry": {
			status: corev1.ContainerStatus{State: waitingFor("ImagePullBackOff", `Back-off pulling image "web:2"`)},
			want:   Diagnosis{Problem: ImagePull, Reason: "ImagePullBackOff"},
		},
		"image that may not be pulled": {
			status: corev1.ContainerStatus{State: waitingFor("ErrImageNeverPull", `Container image "web:2" is not present with pull policy of Never`)},
			want:   Diagnosis{Problem: ImagePull, Reason: "ErrImageNeverPull", Text: `Container image "web:2" is not present with pull policy of Never`},
		},
		"missing ConfigMap": {
			status: corev1.ContainerStatus{State: waitingFor("CreateContainerConfigError", `configmap "app" not found`)},
			want:   Diagnosis{Problem: NotCreated, Reason: "CreateContainerConfigError", Text: `configmap "app" not found`, MissingReference: true},
		},
		"missing key": {
			status: corev1.ContainerStatus{State: waitingFor("CreateContainerConfigError", "couldn't find key level in ConfigMap shop/app")},
			want:   Diagnosis{Problem: NotCreated, Reason: "CreateContainerConfigError", Text: "couldn't find key level in ConfigMap shop/app", MissingReference: true},
		},
		"root": {
			status: corev1.ContainerStatus{State: waitingFor("CreateContainerConfigError", "container has runAsNonRoot and image will run as root")},
			want:   Diagnosis{Problem: NotCreated, Reason: "CreateContainerConfigError", Text: "container has runAsNonRoot and image will run as root"},
		},
		"an error in place of a reason": {
			status: corev1.ContainerStatus{State: waitingFor("looking up credentials: exit status 1", "")},
			want:   Diagnosis{Problem: NotCreated, Reason: "looking up credentials: exit status 1", Text: "looking up credentials: exit status 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Diagnose(tc.status)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The kubelet restarts init containers after a reboot.
func TestContainers_InitContainersMayEnd(t *testing.T) {
	rebooted := corev1.ContainerStatus{Name: "test", State: runs, RestartCount: 2, LastTerminationState: exited(0, "Completed", "")}
	p := &corev1.Pod{Status: corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{rebooted}}}
	if diff := cmp.Diff([]Diagnosis{{Problem: Initializing, Container: "test", Init: true, Restarts: 2}}, Containers(p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.Spec.InitContainers = []corev1.Container{{Name: "test", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}}
	if got := Containers(p); len(got) != 1 || got[0].Problem != Crash {
		t.Errorf("a sidecar that ended: got %+v, want a crash", got)
	}
}

func TestDiagnosis_ExitCode(t *testing.T) {
	for want, exit := range map[string]corev1.ContainerState{
		"1":               exited(1, "Error", ""),
		"0":               exited(0, "Completed", ""),
		"137 (OOMKilled)": exited(137, "OOMKilled", ""),
	} {
		if got := (Diagnosis{Exit: exit.Terminated}).ExitCode(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDiagnosePod(t *testing.T) {
	scheduled := func(reason string) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "0/3 nodes are available"}}
	}
	for name, tc := range map[string]struct {
		status  corev1.PodStatus
		deleted bool
		want    Diagnosis
	}{
		"ready": {
			status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}, ContainerStatuses: []corev1.ContainerStatus{{State: runs}}},
		},
		"being deleted": {
			status:  corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{State: runs}}},
			deleted: true,
		},
		"completed": {
			status: corev1.PodStatus{Phase: corev1.PodSucceeded},
		},
		"new": {
			want: Diagnosis{Problem: Starting, Reason: "Pending"},
		},
		"no node": {
			status: corev1.PodStatus{Conditions: scheduled(corev1.PodReasonUnschedulable)},
			want:   Diagnosis{Problem: Unschedulable, Reason: "Unschedulable", Text: "0/3 nodes are available"},
		},
		"lost node": {
			status: corev1.PodStatus{
				Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
				ContainerStatuses: []corev1.ContainerStatus{{Ready: true, State: runs}},
			},
			want: Diagnosis{Problem: NodeLost, Reason: "NodeLost", Text: `node "" does not respond`},
		},
		"gated": {
			status: corev1.PodStatus{Conditions: scheduled(corev1.PodReasonSchedulingGated)},
			want:   Diagnosis{Problem: Unschedulable, Reason: "SchedulingGated", Text: "0/3 nodes are available"},
		},
		"evicted": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory", ContainerStatuses: []corev1.ContainerStatus{{State: exited(137, "Error", "")}}},
			want:   Diagnosis{Problem: Ended, Reason: "Evicted", Text: "low on memory"},
		},
		"failed because of a container": {
			status: corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: exited(1, "Error", "")}}},
			want:   Diagnosis{Problem: Crash, Container: "web", Reason: "Error", Exit: exited(1, "Error", "").Terminated},
		},
		"failed": {
			status: corev1.PodStatus{Phase: corev1.PodFailed},
			want:   Diagnosis{Problem: Ended, Reason: "Failed"},
		},
		"an init container that fails": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: exited(1, "Error", "")}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: waitingFor("PodInitializing", "")}},
			},
			want: Diagnosis{Problem: Crash, Container: "init", Init: true, Reason: "Error", Exit: exited(1, "Error", "").Terminated},
		},
		"an init container that runs": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "init", State: runs}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: waitingFor("PodInitializing", "")}},
			},
			want: Diagnosis{Problem: Initializing, Container: "init", Init: true},
		},
		"a sidecar that is not ready": {
			status: corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "sidecar", State: runs}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", Ready: true, State: runs}},
			},
			want: Diagnosis{Problem: NotReady, Container: "sidecar", Init: true},
		},
		"a container that is not ready, and another one that has recovered": {
			status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "exporter", Ready: true, State: runs, RestartCount: 1, LastTerminationState: exited(1, "Error", "")}, {Name: "web", State: runs},
			}},
			want: Diagnosis{Problem: NotReady, Container: "web"},
		},
		"a readiness gate": {
			status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, State: runs}}},
			want:   Diagnosis{Problem: Starting, Reason: "Running"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &corev1.Pod{Status: tc.status}
			if tc.deleted {
				p.DeletionTimestamp = new(metav1.Now())
			}
			if diff := cmp.Diff(tc.want, DiagnosePod(p)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
