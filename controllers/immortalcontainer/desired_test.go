package immortalcontainer

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/apis/common"
	immortalv1alpha1 "github.com/platform-operator/platform-operator/apis/immortalcontainer/v1alpha1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

var (
	born = metav1.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	gvk  = metav1.GroupVersionKind(immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind))
)

func sample(change ...func(*immortalv1alpha1.ImmortalContainer)) *immortalv1alpha1.ImmortalContainer {
	i := &immortalv1alpha1.ImmortalContainer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "example-immortalcontainer", UID: "i", Generation: 1},
		Spec:       immortalv1alpha1.ImmortalContainerSpec{Image: "nginx:latest"},
	}
	for _, c := range change {
		c(i)
	}
	return i
}

// livePod returns a pod that was created from the spec of the sample.
func livePod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "example-immortalcontainer-immortalpod", UID: "p", CreationTimestamp: born,
			Annotations: map[string]string{naming.AnnotationTemplate: inputs(sample())},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "acontainer", Image: "nginx:latest"}}},
		Status: corev1.PodStatus{
			Phase:             corev1.PodRunning,
			Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "acontainer", RestartCount: 2}},
		},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func withGate(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: gate}} }

func endedAs(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase, p.Status.Conditions, p.Status.Reason = phase, nil, "Evicted"
	}
}

// The names of the legacy operator, and the fields that this operator adds.
func TestDesired_KeepsTheNamesOfTheLegacyOperator(t *testing.T) {
	plan, err := desired(sample(), Observed{}, config.Default())
	if err != nil || len(plan.Apply) != 1 || len(plan.Prune) != 0 {
		t.Fatalf("plan %+v, error %v", plan, err)
	}
	raw, err := plan.Apply[0].Object(sample(), gvk)
	if err != nil {
		t.Fatal(err)
	}
	got := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(raw, got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "example-immortalcontainer-immortalpod" || got.Labels["app"] != "example-immortalcontainer" {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	want := corev1.PodSpec{
		AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
		RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(30)),
		NodeSelector:    map[string]string{"kubernetes.io/os": "linux"},
		SchedulingGates: []corev1.PodSchedulingGate{{Name: gate}},
		SecurityContext: &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{
			Name: "acontainer", Image: "nginx:latest", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			SecurityContext: &corev1.SecurityContext{Privileged: new(false)},
		}},
	}
	if d := cmp.Diff(want, got.Spec); d != "" {
		t.Errorf("spec (-want +got):\n%s", d)
	}
}

func TestDesired_Plan(t *testing.T) {
	counted := func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 }
	suspended := func(i *immortalv1alpha1.ImmortalContainer) { i.Spec.Suspend = true }
	changed := func(i *immortalv1alpha1.ImmortalContainer) { i.Spec.Args = []string{"a"} }
	for name, tc := range map[string]struct {
		i     *immortalv1alpha1.ImmortalContainer
		o     Observed
		gated bool // the intent contains the gate
		prune bool
		wait  bool
		none  bool
	}{
		"no pod: one is born behind the gate":              {i: sample(), gated: true},
		"not counted yet: the gate stays":                  {i: sample(), o: Observed{Pod: livePod(withGate)}, gated: true},
		"counted: the gate is lifted":                      {i: sample(counted), o: Observed{Pod: livePod(withGate)}},
		"a pod that runs is never gated":                   {i: sample(), o: Observed{Pod: livePod()}},
		"failed long ago: deleted":                         {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodFailed)), Now: born.Add(time.Minute)}, prune: true},
		"succeeded long ago: deleted":                      {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodSucceeded)), Now: born.Add(time.Minute)}, prune: true},
		"failed at once: a pause first":                    {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodFailed)), Now: born.Add(time.Second)}, wait: true},
		"changed before it ran: replaced":                  {i: sample(changed), o: Observed{Pod: livePod(withGate)}, prune: true},
		"changed while it runs: for the server to say":     {i: sample(counted, changed), o: Observed{Pod: livePod()}},
		"suspended: deleted":                               {i: sample(counted, suspended), o: Observed{Pod: livePod()}, prune: true},
		"suspended, and not yet counted: deleted":          {i: sample(suspended), o: Observed{Pod: livePod(withGate)}, prune: true},
		"suspended, and nothing there":                     {i: sample(counted, suspended), none: true},
		"no longer suspended: the next is born":            {i: sample(counted), gated: true},
		"failed and being deleted already: left to itself": {i: sample(counted), o: Observed{Pod: livePod(endedAs(corev1.PodFailed), func(p *corev1.Pod) { p.DeletionTimestamp = &born }), Now: born.Add(time.Minute)}},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := desired(tc.i, tc.o, config.Default())
			var f *fault.Error
			if got := errors.As(err, &f) && f.Class == fault.Wait; got != tc.wait {
				t.Fatalf("waits: %t (%v), want %t", got, err, tc.wait)
			}
			if got := len(plan.Prune) == 1; got != tc.prune {
				t.Errorf("prunes: %t, want %t", got, tc.prune)
			}
			if got := len(plan.Apply) == 0; got != (tc.prune || tc.wait || tc.none) {
				t.Errorf("%d children to apply", len(plan.Apply))
			}
			if len(plan.Apply) == 0 {
				return
			}
			raw, err := plan.Apply[0].Object(tc.i, gvk)
			if err != nil {
				t.Fatal(err)
			}
			p := &corev1.Pod{}
			if err := yaml.Unmarshal(raw, p); err != nil {
				t.Fatal(err)
			}
			if got := gated(p); got != tc.gated {
				t.Errorf("gated: %t, want %t", got, tc.gated)
			}
		})
	}
}

// The creation timestamp of a pod is a time of the API server's clock, which may
// differ from the operator's by any amount.
func TestDesired_PausesNoLongerThanTenSecondsWhateverTheClockSays(t *testing.T) {
	for name, tc := range map[string]struct {
		ahead time.Duration // of the operator's clock
		jump  time.Duration // of the operator's clock, during the first pause
		want  []time.Duration
	}{
		"clocks agree":                       {want: []time.Duration{6 * time.Second}}, // it ended four seconds after its creation
		"the operator's is a day behind":     {ahead: -24 * time.Hour, want: []time.Duration{between}},
		"the operator's is a second behind":  {ahead: -5 * time.Second, want: []time.Duration{between}},
		"the operator's is a day ahead":      {ahead: 24 * time.Hour},
		"the operator's jumps back by a day": {jump: -24 * time.Hour, want: []time.Duration{6 * time.Second, between}},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample(func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = "p", 1 })
			p := livePod(endedAs(corev1.PodFailed), func(p *corev1.Pod) {
				p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(i, immortalv1alpha1.GroupVersion.WithKind(immortalv1alpha1.Kind))}
			})
			clock := born.Add(4*time.Second + tc.ahead)
			kind := Kind(func() time.Time { return clock }, config.Default())
			r := converge.Reader{Reader: fake.NewClientBuilder().WithObjects(p).Build()}
			var waits []time.Duration
			for range 3 {
				model, err := kind.ObserveModel(t.Context(), r, nil, i)
				if err != nil {
					t.Fatal(err)
				}
				plan, err := model.Plan()
				if len(plan.Prune) == 1 {
					break
				}
				waits = append(waits, fault.Classify(err).Result.RequeueAfter)
				clock = clock.Add(waits[len(waits)-1])
				if len(waits) == 1 {
					clock = clock.Add(tc.jump)
				}
			}
			if d := cmp.Diff(tc.want, waits); d != "" {
				t.Errorf("pauses before the pod is deleted (-want +got):\n%s", d)
			}
		})
	}
}

// lostNode writes what the node lifecycle controller does if the kubelet stops
// reporting: the condition becomes False, and the rest of the kubelet's last status
// is kept.
func lostNode(p *corev1.Pod) {
	p.Spec.NodeName = "node1"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name: "acontainer", Ready: true, Started: new(true), RestartCount: 1,
		State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: born}},
	}
}

// A live pod is orphaned in any state: listing it in the plan must not wait.
func TestDesired_PlansThePodOfADeletedObject(t *testing.T) {
	going := func(i *immortalv1alpha1.ImmortalContainer) { i.DeletionTimestamp = &born }
	for name, p := range map[string]*corev1.Pod{
		"runs": livePod(), "failed at once": livePod(endedAs(corev1.PodFailed)), "waits": livePod(withGate),
	} {
		plan, err := desired(sample(going), Observed{Pod: p, Now: born.Add(time.Second)}, config.Default())
		if err != nil || len(plan.Apply) != 1 || len(plan.Prune) > 0 {
			t.Errorf("%s: %v, %v", name, plan, err)
		}
	}
}

func TestDesired_CountsStartsOncePerPod(t *testing.T) {
	for name, tc := range map[string]struct {
		uid    string
		starts int64
		pod    *corev1.Pod
		want   int64
	}{
		"the first":                           {pod: livePod(withGate), want: 1},
		"the same again":                      {uid: "p", starts: 1, pod: livePod(), want: 1},
		"the next":                            {uid: "earlier", starts: 4, pod: livePod(withGate), want: 5},
		"counted by the legacy operator":      {starts: 7, pod: livePod(func(p *corev1.Pod) { p.Annotations = nil }), want: 7},
		"not counted yet, ungated":            {pod: livePod(), want: 1},
		"the first after the legacy operator": {starts: 7, pod: livePod(withGate), want: 8},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample(func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID, i.Status.StartTimes = tc.uid, tc.starts })
			for range 2 { // repeating it changes nothing
				report(i, Observed{}, converge.NewOutcome(born.Time, fault.Verdict{}, map[string]client.Object{"Pod": tc.pod}))
			}
			if i.Status.StartTimes != tc.want || i.Status.PodUID != "p" {
				t.Errorf("%d starts, last pod %q; want %d of p", i.Status.StartTimes, i.Status.PodUID, tc.want)
			}
		})
	}
}

func TestDesired_DoesNotCountPodsThatNeverRun(t *testing.T) {
	for name, change := range map[string]func(*immortalv1alpha1.ImmortalContainer){
		"suspended": func(i *immortalv1alpha1.ImmortalContainer) { i.Spec.Suspend = true },
		"changed":   func(i *immortalv1alpha1.ImmortalContainer) { i.Spec.Args = []string{"a"} },
	} {
		t.Run(name, func(t *testing.T) {
			i := sample(change)
			report(i, Observed{Pod: livePod(withGate)}, converge.NewOutcome(born.Time, fault.Verdict{}, nil))
			if i.Status.StartTimes != 0 || i.Status.PodUID != "" {
				t.Errorf("%d starts, pod %q", i.Status.StartTimes, i.Status.PodUID)
			}
		})
	}
}

// stated returns the pod as it would be sent, regardless of what an earlier
// operator did.
func stated(t *testing.T, i *immortalv1alpha1.ImmortalContainer, o Observed) *corev1.Pod {
	t.Helper()
	raw, err := pod(i, o).Object(i, gvk)
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(raw, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// Another version of the operator would create another pod from the same spec. The
// running pod is kept: exactly the fields that were applied when it was created are
// applied again, with their current values.
func TestDesired_KeepsTheFieldsOfARunningPod(t *testing.T) {
	tolerations := []common.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}}
	i := sample(func(i *immortalv1alpha1.ImmortalContainer) {
		i.Spec.Pod = &common.Pod{Labels: map[string]common.LabelValue{"team": "a"}, Tolerations: tolerations}
		i.Spec.Image = "nginx:2"
	})
	earlier := livePod(func(p *corev1.Pod) {
		p.Annotations = map[string]string{
			naming.AnnotationTemplate: inputs(i),
			annotationStated:          `{"containers":[{"name":"acontainer","tty":true,"env":[{"name":"B","value":"b"}],"volumeMounts":[{"name":"v","mountPath":"/v"}]}],"volumes":[{"name":"v","emptyDir":{}}],"hostname":"h","tolerations":[{"key":"a","operator":"Exists"}]}`,
		}
		p.Spec.NodeName, p.Spec.ServiceAccountName, p.Spec.Hostname = "node1", "default", "h"
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "injected"}}
		p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: corev1.TolerationOpExists}, {Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists}}
		c := &p.Spec.Containers[0]
		c.TTY, c.ImagePullPolicy = true, corev1.PullAlways
		c.Env = []corev1.EnvVar{{Name: "INJECTED", Value: "x"}, {Name: "B", Value: "webhook's"}}
		c.VolumeMounts = []corev1.VolumeMount{{Name: "injected", MountPath: "/i"}, {Name: "v", MountPath: "/v"}}
		p.Spec.Containers = append([]corev1.Container{{Name: "sidecar", Image: "s"}}, p.Spec.Containers...)
	})
	got := stated(t, i, Observed{Pod: earlier})
	want := corev1.PodSpec{
		Hostname:    "h",
		Volumes:     []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Tolerations: earlier.Spec.Tolerations,
		Containers: []corev1.Container{{
			Name: "acontainer", Image: "nginx:2", TTY: true, Env: []corev1.EnvVar{{Name: "B", Value: "webhook's"}},
			VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}},
		}},
	}
	if d := cmp.Diff(want, got.Spec); d != "" {
		t.Errorf("spec (-want +got):\n%s", d)
	}
	if got.Labels["team"] != "a" || got.Annotations[annotationStated] != earlier.Annotations[annotationStated] {
		t.Errorf("metadata %+v", got.ObjectMeta)
	}
	if pod(i, Observed{Pod: earlier}).Replace != nil {
		t.Error("it might be replaced")
	}
	for what, damaged := range map[string]string{"none": "", "no JSON": "x", "no container": "{}", "something else": `{"containers":3}`} {
		earlier.Annotations[annotationStated] = damaged
		if in := pod(i, Observed{Pod: earlier}); in.Replace == nil {
			t.Errorf("%s: an annotation that says nothing is believed", what)
		}
	}
}

// Both intents of a pod must have the same hash, because switching between them
// would otherwise cause a needless write.
func TestDesired_HashIsTheSameForBothIntents(t *testing.T) {
	i := sample(func(i *immortalv1alpha1.ImmortalContainer) { i.Status.PodUID = "p" })
	made := stated(t, i, Observed{Pod: livePod()})
	made.UID, made.Spec.NodeName = "p", "node1"
	made.Spec.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/not-ready"}}
	hash := func(p *corev1.Pod) string { return p.Annotations[naming.AnnotationApplied] }
	if a, b := hash(made), hash(stated(t, i, Observed{Pod: made})); a != b || a == "" {
		t.Errorf("hash %s becomes %s", a, b)
	}
	born := stated(t, i, Observed{})
	if hash(born) == hash(made) {
		t.Error("the gate would never be lifted")
	}
	i.Spec.Image = "nginx:2"
	if hash(made) == hash(stated(t, i, Observed{Pod: made})) {
		t.Error("the image would never change")
	}
}

func TestDesired_ReplacesAPodOnlyForImmutableFields(t *testing.T) {
	refused := func(fields ...string) error {
		var errs field.ErrorList
		for _, f := range fields {
			errs = append(errs, field.Forbidden(field.NewPath(f), "no"))
		}
		return apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", errs)
	}
	for name, tc := range map[string]struct {
		err  error
		want bool
	}{
		"fields that cannot change":        {refused("spec"), true},
		"tolerations":                      {refused("spec.tolerations", "spec"), true},
		"a spec that is no pod's":          {refused("spec.containers[0].env[0].name"), false},
		"that, and fields that cannot too": {refused("spec.containers[0].env[0].name", "spec"), false},
	} {
		if got := rejectedAsImmutable(tc.err); got != tc.want {
			t.Errorf("%s: replaced %t, want %t", name, got, tc.want)
		}
	}
}

func TestDesired_FieldsThatReplaceThePod(t *testing.T) {
	type spec = immortalv1alpha1.ImmortalContainerSpec
	for name, tc := range map[string]struct {
		change   func(*spec)
		replaced bool
	}{
		"image":          {func(s *spec) { s.Image = "a" }, false},
		"labels":         {func(s *spec) { s.Pod = &common.Pod{Labels: map[string]common.LabelValue{"a": "b"}} }, false},
		"annotations":    {func(s *spec) { s.Pod = &common.Pod{Annotations: map[string]common.AnnotationValue{"a": "b"}} }, false},
		"nothing":        {func(s *spec) { s.Pod = &common.Pod{} }, false},
		"networkPolicy":  {func(s *spec) { s.NetworkPolicy = &common.NetworkPolicy{} }, false},
		"suspend":        {func(s *spec) { s.Suspend = true }, false},
		"paused":         {func(s *spec) { s.Paused = true }, false},
		"deletionPolicy": {func(s *spec) { s.DeletionPolicy = common.DeletionPolicyOrphan }, false},
		"pod":            {func(s *spec) { s.Pod = &common.Pod{PriorityClassName: "a"} }, true},
		"env":            {func(s *spec) { s.Env = []common.EnvVar{{Name: "A"}} }, true},
		"command":        {func(s *spec) { s.Command = []string{"a"} }, true},
		"resources":      {func(s *spec) { s.Resources = &common.Resources{} }, true},
		"security":       {func(s *spec) { s.Security = &common.Security{} }, true},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample()
			tc.change(&i.Spec)
			if got := inputs(i) != inputs(sample()); got != tc.replaced {
				t.Errorf("replaced: %t, want %t", got, tc.replaced)
			}
		})
	}
	if fields := reflect.TypeFor[spec]().NumField(); fields != 10 {
		t.Errorf("the spec has %d fields: does changing the new one replace the pod?", fields)
	}
}

func TestImmortalContainer_ReportsConditionsWhileSuspended(t *testing.T) {
	for name, tc := range map[string]struct {
		pod                        *corev1.Pod
		available, ready, reasonOf string
		current                    string
	}{
		"it runs":        {livePod(), "True", "False", common.ReasonProgressing, "example-immortalcontainer-immortalpod"},
		"being deleted":  {livePod(func(p *corev1.Pod) { p.DeletionTimestamp = &born }), "False", "False", common.ReasonProgressing, "example-immortalcontainer-immortalpod"},
		"on a lost node": {livePod(lostNode, func(p *corev1.Pod) { p.DeletionTimestamp = &born }), "False", "False", common.ReasonNodeLost, "example-immortalcontainer-immortalpod"},
		"deleted":        {nil, "False", "True", common.ReasonSuspended, ""},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample()
			i.Spec.Suspend = true
			i.Status.PodUID, i.Status.StartTimes, i.Status.CurrentPod = "p", 3, "example-immortalcontainer-immortalpod"
			report(i, Observed{Pod: tc.pod}, converge.NewOutcome(born.Time, fault.Verdict{}, nil))
			ready, available := meta.FindStatusCondition(i.Status.Conditions, common.ConditionReady), meta.FindStatusCondition(i.Status.Conditions, common.ConditionAvailable)
			if string(ready.Status) != tc.ready || ready.Reason != tc.reasonOf || string(available.Status) != tc.available {
				t.Errorf("Ready %s %s, Available %s", ready.Status, ready.Reason, available.Status)
			}
			if i.Status.StartTimes != 3 || i.Status.CurrentPod != tc.current || i.Status.PodUID != "p" {
				t.Errorf("status %+v", i.Status)
			}
		})
	}
}

func TestImmortalContainer_ReportsConditions(t *testing.T) {
	because := func(reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase, p.Status.Conditions = corev1.PodPending, nil
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "acontainer", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}}
		}
	}
	waiting := func(reason string) func(*corev1.Pod) { return because(reason, "") }
	mounting := func(since time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			waiting("ContainerCreating")(p)
			p.CreationTimestamp = metav1.NewTime(born.Add(-since))
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "key"}}}}
		}
	}
	for name, tc := range map[string]struct {
		pod              *corev1.Pod
		available, ready bool
		message          string
	}{
		"runs":                              {pod: livePod(), available: true, ready: true, message: "The container runs."},
		"no pod":                            {message: "The pod is being created."},
		"starting":                          {pod: livePod(waiting("ContainerCreating")), message: "The container is starting."},
		"no image":                          {pod: livePod(waiting("ImagePullBackOff")), message: "The image cannot be pulled. Correct spec.image, or what prevents the image from being pulled."},
		"an image that may not be pulled":   {pod: livePod(waiting("ErrImageNeverPull")), message: "The image cannot be pulled. Correct spec.image, or what prevents the image from being pulled."},
		"an image that cannot be inspected": {pod: livePod(waiting("ImageInspectError")), message: "The image cannot be pulled. Correct spec.image, or what prevents the image from being pulled."},
		"a program that does not exist":     {pod: livePod(waiting("RunContainerError")), message: "The container cannot be created. Run kubectl describe on the pod to see why."},
		"gated": {pod: livePod(func(p *corev1.Pod) {
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodPending, nil
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated}}
		}), message: "The container is starting."},
		"evicted":       {pod: livePod(endedAs(corev1.PodFailed)), message: "The pod ended (Evicted). A new pod will be created."},
		"being deleted": {pod: livePod(func(p *corev1.Pod) { p.DeletionTimestamp = &born }), message: "The pod is being deleted. A new pod will be created."},
		"the old image": {pod: livePod(func(p *corev1.Pod) {
			p.Spec.Containers[0].Image, p.Annotations[annotationImage] = "nginx:old", `{"asked":"nginx:old"}`
		}), available: true, message: "The container is being restarted with its new image."},
		"not seen by its kubelet": {pod: livePod(func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 }), available: true, message: "The container is being restarted with its new image."},
		"not created":             {pod: livePod(waiting("CreateContainerConfigError")), message: "The container cannot be created. Run kubectl describe on the pod to see why."},
		"a missing Secret": {
			pod:     livePod(because("CreateContainerConfigError", `secret "key" not found`)),
			message: `The container cannot be created: secret "key" not found. Create it, or refer to another one.`,
		},
		"not created, with the name of the pod": {
			pod:     livePod(because("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "x")`)),
			message: "The container cannot be created. Run kubectl describe on the pod to see why.",
		},
		"mounting": {pod: livePod(mounting(29 * time.Second)), message: "The container is starting."},
		"mounting for too long": {
			pod:     livePod(mounting(30 * time.Second)),
			message: `The pod waits for its volumes. It mounts Secret "key" (volume "v"). Create what is missing, or refer to another one. Run kubectl describe on the pod to see which.`,
		},
		"not ready": {pod: livePod(func(p *corev1.Pod) {
			p.Status.Conditions = nil
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "acontainer", Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
		}), message: "The container runs, but its readiness probe fails."},
		"keeps exiting": {pod: livePod(func(p *corev1.Pod) {
			p.Status.Conditions = nil
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
		}), message: "The container keeps exiting. Run kubectl logs --previous to see why."},
		"started again after an exit": {pod: livePod(func(p *corev1.Pod) {
			p.Status.Conditions = nil
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
				Name: "acontainer", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}},
			}
		}), message: "The container exits with code 137 (OOMKilled). Run kubectl logs --previous to see why."},
		"lost node": {pod: livePod(lostNode), message: `Node "node1" does not respond, and the pod may still be running there. Repair the node, or delete the Node object if the node no longer exists.`},
		"lost node, and being deleted": {
			pod:     livePod(lostNode, func(p *corev1.Pod) { p.DeletionTimestamp = &born }),
			message: `Node "node1" does not respond, and the pod may still be running there. Repair the node, or delete the Node object if the node no longer exists.`,
		},
		"another container is not ready": {pod: livePod(lostNode, func(p *corev1.Pod) {
			p.Status.Conditions[0].Reason = "ContainersNotReady"
		}), message: "The container runs, but the pod is not ready. Run kubectl describe on the pod to see what it waits for."},
		"no room": {pod: livePod(func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}
		}), message: "No node can run the pod. Run kubectl describe on it to see why."},
	} {
		t.Run(name, func(t *testing.T) {
			i := sample()
			report(i, Observed{Pod: tc.pod}, converge.NewOutcome(born.Time, fault.Verdict{}, nil))
			ready := meta.FindStatusCondition(i.Status.Conditions, common.ConditionReady)
			if got := ready.Status == metav1.ConditionTrue; got != tc.ready || ready.Message != tc.message {
				t.Errorf("Ready %t, %q; want %t, %q", got, ready.Message, tc.ready, tc.message)
			}
			if got := meta.IsStatusConditionTrue(i.Status.Conditions, common.ConditionAvailable); got != tc.available {
				t.Errorf("Available %t, want %t", got, tc.available)
			}
		})
	}
}
