package rollout

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

func waitingFor(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func ended(code int32, reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}}
}

func TestDiagnose_NamesTheCause(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		want   string // "" if there is no failure
		final  bool
	}{
		"ready": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, State: running}}}, "", false},
		"image": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "web:2", State: waitingFor("ImagePullBackOff", `Back-off pulling image "web:2": ErrImagePull: rpc error: code = NotFound desc = not found`)}}},
			"ImagePull: The image web:2 cannot be pulled: rpc error: code = NotFound desc = not found.", false,
		},
		"image, backing off": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Image: "web:2", State: waitingFor("ImagePullBackOff", `Back-off pulling image "web:2"`)}}},
			"ImagePull: The image web:2 cannot be pulled.", false,
		},
		"crash": {corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{crashing}}, "Crash: Container web exits with code 1: no such file.", true},
		"out of memory": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: ended(137, "OOMKilled", "")}}},
			"Crash: Container web exits with code 137 (OOMKilled).", false,
		},
		"ends by itself": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", RestartCount: 2, State: running, LastTerminationState: ended(0, "Completed", "")}}},
			"Crash: Container web exits with code 0.", false,
		},
		"missing ConfigMap": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: waitingFor("CreateContainerConfigError", `configmap "app" not found`)}}},
			`ReferenceNotFound: Container web cannot be created: configmap "app" not found. Create it, or refer to another one.`, true,
		},
		"missing volume": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: waitingFor("ContainerCreating", "")}}},
			"ContainerNotCreated: Container web has not been created.", false,
		},
		"probe": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: running}}},
			"NotReady: Container web runs but does not become ready.", false,
		},
		"no node": {
			corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}},
			"Unschedulable: No node can run the pods. Run kubectl describe on them to see why.", false,
		},
		"injected container": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "proxy", State: ended(1, "Error", "no such file")}, {Name: "web", Ready: true, State: running},
			}},
			"InjectedContainer: Container proxy exits with code 1. It is not in the pod template: another client, such as an admission webhook, adds it to the pods. Correct that, and delete the pods that do not start: no such file.", false,
		},
		"injected init container": {
			corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", Image: "proxy:2", State: waitingFor("ImagePullBackOff", "")}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: waitingFor("PodInitializing", "")}},
			},
			"InjectedContainer: The image proxy:2 cannot be pulled. It is the image of init container proxy. It is not in the pod template: another client, such as an admission webhook, adds it to the pods. Correct that, and delete the pods that do not start.", false,
		},
		"crash next to an injected one that crashes": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", State: ended(1, "Error", "")}, crashing}},
			"Crash: Container web exits with code 1: no such file.", true,
		},
		"next to an injected one that starts": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "proxy", State: waitingFor("ContainerCreating", "")}, {Name: "web", State: running}}},
			"NotReady: Container web runs but does not become ready.", false,
		},
		"a crash loop without an exit": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", State: waitingFor("CrashLoopBackOff", "")}}},
			"Crash: Container web keeps exiting.", false,
		},
		"ready again after a crash": {
			corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, State: running, LastTerminationState: ended(1, "Error", "")}}},
			"Crash: Container web exits with code 1.", false,
		},
		"init container": {
			corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: ConfigTest, State: running}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: waitingFor("PodInitializing", "")}},
			},
			"NotReady: Init container config-test runs, and the pod waits for it.", false,
		},
		"image of a sidecar": {
			corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "log", Image: "log:2", State: waitingFor("ImagePullBackOff", "")}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: waitingFor("PodInitializing", "")}},
			},
			"ImagePull: The image log:2 cannot be pulled. It is the image of init container log.", false,
		},
		"a command before the application": {
			corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: "log", RestartCount: 2, State: waitingFor("CrashLoopBackOff", ""), LastTerminationState: ended(3, "Error", "no such table")}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: waitingFor("PodInitializing", "")}},
			},
			"Crash: Container log exits with code 3: no such table.", true,
		},
		"configuration, accepted after three attempts": {
			corev1.PodStatus{
				InitContainerStatuses: []corev1.ContainerStatus{{Name: ConfigTest, Ready: true, RestartCount: 3, State: ended(0, "Completed", ""), LastTerminationState: ended(1, "Error", "host not found in upstream")}},
				ContainerStatuses:     []corev1.ContainerStatus{{Name: "web", State: running}},
			},
			"NotReady: Container web runs but does not become ready.", false,
		},
		"configuration, as nginx logs it": {
			corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: ConfigTest, State: ended(1, "Error", "2026/11/27 18:12:26 [emerg] 1#1: unknown directive\nnginx: [emerg] unknown directive\nnginx: configuration file /etc/nginx/nginx.conf test failed\n")}}},
			"ConfigInvalid: The configuration is rejected: nginx: [emerg] unknown directive; nginx: configuration file /etc/nginx/nginx.conf test failed.", false,
		},
		"configuration, once": {
			corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: ConfigTest, State: ended(1, "Error", "nginx: [emerg] unknown directive")}}},
			"ConfigInvalid: The configuration is rejected: nginx: [emerg] unknown directive.", false,
		},
		"configuration, again and again": {
			corev1.PodStatus{InitContainerStatuses: []corev1.ContainerStatus{{Name: ConfigTest, RestartCount: 2, State: waitingFor("CrashLoopBackOff", ""), LastTerminationState: ended(1, "Error", "nginx: [emerg] unknown directive")}}},
			"ConfigInvalid: The configuration is rejected: nginx: [emerg] unknown directive.", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{naming.AnnotationTemplate: "h"}}, Status: tc.status}
			other := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{naming.AnnotationTemplate: "other"}}, Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{crashing}}}
			f := diagnose(&appsv1.Deployment{}, []corev1.Pod{other, p}, "h", containers{"web": true, "log": true, ConfigTest: true})
			got, final := "", false
			if f != nil {
				got, final = f.reason+": "+f.message(), f.certain
			}
			if got != tc.want || final != tc.final {
				t.Errorf("got %q (final: %v), want %q (%v)", got, final, tc.want, tc.final)
			}
		})
	}
}

// The reason of a failure that is waited for is reported at once, in a message
// that does not change: which object is missing for a container that cannot be
// created, and no pod names.
func TestDiagnose_NamesTheMissingReference(t *testing.T) {
	for message, want := range map[string]string{
		`configmap "app" not found`:                     `Container web cannot be created: configmap "app" not found. Create it, or refer to another one.`,
		`couldn't find key level in ConfigMap shop/app`: `Container web cannot be created: couldn't find key level in ConfigMap shop/app. Create it, or refer to another one.`,
		`container has runAsNonRoot and image will run as root (pod: "web-x1_shop(123)", container: web)`: `Container web cannot be created.`,
	} {
		f := failureOf(podstate.Diagnose(corev1.ContainerStatus{Name: "web", State: waitingFor("CreateContainerConfigError", message)}))
		if f == nil || f.summary != want {
			t.Errorf("%s: %+v", message, f)
		}
	}
}

func TestDiagnose_NamesTheWorstPod(t *testing.T) {
	at := func(name string, s corev1.ContainerStatus) corev1.Pod {
		p := pod("h", s)
		p.Name = name
		return p
	}
	slow := corev1.ContainerStatus{Name: "web", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	f := diagnose(&appsv1.Deployment{}, []corev1.Pod{at("a", slow), at("b", crashing)}, "h", nil)
	if f == nil || f.reason != common.ReasonCrash {
		t.Errorf("got %+v", f)
	}
}

// What a pod suffers because of its surroundings is not caused by its revision, and
// neither is what it has recovered from.
func TestDiagnose_BlamesTheRevisionOnlyWithEvidence(t *testing.T) {
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	tests := func(restarts int32, now, before corev1.ContainerState) corev1.Pod {
		p := pod("h", corev1.ContainerStatus{Name: "web", State: waitingFor("PodInitializing", "")})
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: ConfigTest, RestartCount: restarts, State: now, LastTerminationState: before}}
		return p
	}
	recoveredPod := pod("h", corev1.ContainerStatus{Name: "web", Ready: true, RestartCount: 1, State: runs, LastTerminationState: ended(1, "Error", "no database")})
	unschedulable := pod("h")
	unschedulable.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	evicted := pod("h", corev1.ContainerStatus{Name: "web", State: ended(137, "Error", "")})
	evicted.Status.Phase = corev1.PodFailed
	lost := pod("old", corev1.ContainerStatus{Name: "web", Ready: true, State: runs})
	lost.Spec.NodeName, lost.Status.Phase = "node2", corev1.PodRunning
	lost.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	there := pod("h", corev1.ContainerStatus{Name: "web", State: runs})
	there.Spec.NodeName = "node2"
	mounted := pod("h", corev1.ContainerStatus{Name: "web", State: waitingFor("ContainerCreating", "")})
	mounted.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}}

	waits := func(reason, message string) corev1.Pod {
		return pod("h", corev1.ContainerStatus{Name: "web", Image: "web:2", State: waitingFor(reason, message)})
	}
	const (
		noImage   = `Back-off pulling image "web:2": ErrImagePull: rpc error: code = NotFound desc = failed to pull and unpack image "web:2": failed to resolve reference "web:2": web:2: not found`
		denied    = `rpc error: code = Unknown desc = failed to pull and unpack image "web:2": failed to resolve reference "web:2": pull access denied, repository does not exist or may require authorization`
		refused   = `rpc error: code = Unknown desc = failed to pull and unpack image "web:2": failed to resolve reference "web:2": failed to do request: Head "https://r/v2/": dial tcp 10.0.0.1:443: connect: connection refused`
		noCommand = `failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: exec: "app": executable file not found in $PATH: unknown`
	)

	for name, tc := range map[string]struct {
		pods               []corev1.Pod
		want               string // the reason, "" if there is no failure
		transient, certain bool
	}{
		"the test fails for the third time":                       {pods: []corev1.Pod{tests(2, ended(1, "Error", "[emerg]"), ended(1, "Error", ""))}, want: ReasonConfigInvalid, certain: true},
		"the test waits after three failures":                     {pods: []corev1.Pod{tests(2, waitingFor("CrashLoopBackOff", ""), ended(1, "Error", ""))}, want: ReasonConfigInvalid, certain: true},
		"the third attempt runs":                                  {pods: []corev1.Pod{tests(2, runs, ended(1, "Error", ""))}, want: ReasonConfigInvalid},
		"the test runs after two reboots":                         {pods: []corev1.Pod{tests(2, runs, ended(0, "Completed", ""))}, want: common.ReasonNotReady},
		"the test was killed three times":                         {pods: []corev1.Pod{tests(2, ended(137, "OOMKilled", ""), ended(137, "OOMKilled", ""))}, want: common.ReasonCrash, certain: true},
		"the test did not start":                                  {pods: []corev1.Pod{tests(2, ended(128, "StartError", ""), corev1.ContainerState{})}, want: common.ReasonCrash},
		"the command does not exist":                              {pods: []corev1.Pod{tests(2, ended(128, "StartError", noCommand), corev1.ContainerState{})}, want: common.ReasonCrash, certain: true},
		"the registry has no such image":                          {pods: []corev1.Pod{waits("ImagePullBackOff", noImage)}, want: common.ReasonImagePull, certain: true},
		"the registry denies access":                              {pods: []corev1.Pod{waits("ErrImagePull", denied)}, want: common.ReasonImagePull},
		"the registry is not available":                           {pods: []corev1.Pod{waits("ErrImagePull", refused)}, want: common.ReasonImagePull, transient: true},
		"one has no such image, and one no registry":              {pods: []corev1.Pod{waits("ErrImagePull", refused), waits("ErrImagePull", denied), waits("ErrImagePull", noImage)}, want: common.ReasonImagePull, certain: true},
		"the name of the image is invalid":                        {pods: []corev1.Pod{waits("InvalidImageName", "")}, want: common.ReasonImagePull, certain: true},
		"the container is not created, because it has no command": {pods: []corev1.Pod{waits("CreateContainerError", "container create failed: executable file `app` not found")}, want: common.ReasonContainerNotCreated, certain: true},
		"a crash":                                {pods: []corev1.Pod{pod("h", crashingSoon)}, want: common.ReasonCrash},
		"the third crash":                        {pods: []corev1.Pod{pod("h", crashing)}, want: common.ReasonCrash, certain: true},
		"the third end without an error":         {pods: []corev1.Pod{pod("h", corev1.ContainerStatus{Name: "web", RestartCount: 2, State: ended(0, "Completed", "")})}, want: common.ReasonCrash},
		"the fourth attempt runs":                {pods: []corev1.Pod{pod("h", corev1.ContainerStatus{Name: "web", RestartCount: 3, State: runs, LastTerminationState: ended(1, "Error", "")})}, want: common.ReasonCrash},
		"one has recovered, and one has no node": {pods: []corev1.Pod{recoveredPod, unschedulable}, want: common.ReasonUnschedulable, transient: true},
		"one has recovered":                      {pods: []corev1.Pod{recoveredPod}, want: common.ReasonCrash},
		"one was evicted, and one has no node":   {pods: []corev1.Pod{evicted, unschedulable}, want: common.ReasonUnschedulable, transient: true},
		"one was evicted":                        {pods: []corev1.Pod{evicted}},
		"a node is lost":                         {pods: []corev1.Pod{there, lost}, want: common.ReasonNodeLost, transient: true},
		"its volumes are mounted":                {pods: []corev1.Pod{mounted}, want: common.ReasonContainerNotCreated},
	} {
		t.Run(name, func(t *testing.T) {
			f := diagnose(&appsv1.Deployment{}, tc.pods, "h", nil)
			if f == nil {
				f = &failure{}
			}
			if f.reason != tc.want || f.transient != tc.transient || f.certain != tc.certain {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// The network, or a node that died early, may prevent containers from being created.
func TestDecision_DiagnoseWaitsForVolumesAndTheNetwork(t *testing.T) {
	d := &Decision{Serving: Revision{hash: "h"}}
	f := d.diagnose(&appsv1.Deployment{}, []corev1.Pod{pod("h", corev1.ContainerStatus{Name: "web", State: waitingFor("ContainerCreating", "")})})
	if f == nil || f.reason != common.ReasonContainerNotCreated || !f.transient {
		t.Errorf("got %+v", f)
	}
}

func TestDifferences_AreNamedAndBounded(t *testing.T) {
	type list []map[string]any
	a := map[string]any{"spec": map[string]any{"containers": list{{"name": "a", "image": "1"}, {"name": "gone"}}, "x": 1}}
	b := map[string]any{"spec": map[string]any{"containers": list{{"name": "a", "image": "2", "tty": true}}, "x": 1}}
	got := strings.Join(differences(a, b), "; ")
	if want := "spec.containers[a].image would change; spec.containers[a].tty would be added; spec.containers[gone] would be removed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	many := map[string]any{}
	for i := range 100 {
		many[strings.Repeat("k", i+1)] = i
	}
	if got := differences(map[string]any{}, many); len(got) != mostDifferences || got[mostDifferences-1] != "and 85 more" {
		t.Errorf("%d: %q", len(got), got[len(got)-1])
	}
}
