package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// ConfigTest is the name of the init container that tests the configuration
// before the pod's main container starts. Each kind with such a test uses this
// name.
const ConfigTest = "config-test"

// testsFail is how often the test of a configuration must fail before the
// rollout is considered failed. Some causes are temporary, such as a name that
// cannot be resolved yet.
const testsFail = 3

// Reasons of a failure, including those of an Action.
const (
	ReasonImagePull     = "ImagePull"
	ReasonCrash         = "Crash"
	ReasonNotReady      = "NotReady"
	ReasonConfigInvalid = "ConfigInvalid"
	ReasonNotCreated    = "ContainerNotCreated"
	ReasonRefused       = "PodsRefused"
	ReasonDeadline      = "DeadlineExceeded"
)

// failure is the reason why a rollout does not make progress.
type failure struct {
	reason string
	// summary describes the failure without anything that differs between
	// attempts; details may contain the last lines of a log.
	summary, details string
	// transient reports that the revision is not the cause, but the cluster,
	// which has no capacity, or the namespace, which does not admit the pods.
	// Such a failure can end at any time without a change of the spec.
	transient bool
	// terminal reports that the failure does not need to wait for a deadline.
	terminal bool
	// certain reports that the kubelet has named the missing object.
	certain bool
	// mounting reports that volumes of the pod may not be mounted yet. Only an
	// event contains which one is missing.
	mounting bool
	// injected reports that the container is not in the pod template.
	injected bool
	rank     int
}

func (f failure) message() string {
	return message.Quote(f.summary, f.details)
}

// without returns f without those lines of its details that contain mark.
func (f *failure) without(mark string) *failure {
	if f == nil || mark == "" {
		return f
	}
	lines := slices.DeleteFunc(strings.Split(f.details, "\n"), func(l string) bool { return strings.Contains(l, mark) })
	f.details = strings.Join(lines, "\n")
	return f
}

// diagnose returns why the pods of the serving revision are not serving. If an
// object that its pods mount may be missing, it also lists the objects that
// they mount: the operator has no permission to read them. A missing object,
// like a quota, does not mean that the revision is bad.
func (d *Decision) diagnose(dep *appsv1.Deployment, pods []corev1.Pod) *failure {
	f := diagnose(dep, pods, d.Serving.hash, d.containers()).without(d.question.IgnoreLogLines)
	if f == nil || f.reason != ReasonNotCreated || f.rank != 2 {
		return f
	}
	mounts := resources.Mounts(dep.Spec.Template.Spec.Volumes, func(configMap string) bool {
		return configsource.IsSnapshotName(d.question.Name, configMap)
	})
	if !f.mounting || len(mounts) == 0 {
		f.summary = message.Join(f.summary, msgDescribe.With())
		return f
	}
	f.reason, f.transient = common.ReasonReferenceNotFound, true
	f.summary = message.Join(f.summary, msgMounts.With(strings.Join(mounts, ", ")))
	return f
}

// containers is the set of names of the containers of a pod template. nil contains
// every name.
type containers map[string]bool

func (c containers) has(name string) bool { return c == nil || c[name] }

// containers returns the containers of the revision that serves. An admission webhook
// of the cluster may add others to its pods.
func (d *Decision) containers() containers {
	if d.Template == nil || d.Template.Spec == nil {
		return nil
	}
	all := containers{}
	for _, c := range slices.Concat(d.Template.Spec.InitContainers, d.Template.Spec.Containers) {
		if c.Name != nil {
			all[*c.Name] = true
		}
	}
	return all
}

// diagnose returns why the pods of a template are not serving or, if there are
// no pods, why the Deployment cannot create them. It returns nil if no cause is
// visible.
func diagnose(d *appsv1.Deployment, pods []corev1.Pod, template string, of containers) *failure {
	var worst *failure
	for _, p := range slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) {
		if p.Annotations[naming.AnnotationTemplate] != template || p.DeletionTimestamp != nil {
			continue
		}
		if f := diagnosePod(&p, of); f != nil && (worst == nil || f.rank > worst.rank) {
			worst = f
		}
	}
	if cause := resources.ReplicaFailure(d); worst == nil && cause != "" {
		worst = &failure{
			reason: ReasonRefused, summary: message.Join(resources.PodsNotCreated(cause), fault.Advice(cause)), rank: 1,
			transient: fault.OfNamespace(cause),
		}
	}
	return worst
}

// diagnosePod returns why a pod is not serving. of are the containers of its template.
// Another container is the cause only if no failure of those is worse: what it does is
// not a failure of the revision.
func diagnosePod(p *corev1.Pod, of containers) *failure {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &failure{reason: common.ReasonUnschedulable, summary: msgUnschedulable.With(), transient: true, rank: 1}
		}
	}
	var own, injected *failure
	for i, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		f := diagnoseContainer(s)
		switch {
		case f == nil:
		case !of.has(s.Name):
			if injected == nil {
				injected = f
			}
		case own == nil:
			own = f
			own.mounting = own.mounting && !resources.ReadyToStart(p)
			if s.Name == ConfigTest && own.reason == ReasonCrash && i < len(p.Status.InitContainerStatuses) {
				own.reason, own.summary, own.rank = ReasonConfigInvalid, msgConfigInvalid.With(), 6
				own.terminal = s.RestartCount+1 >= testsFail
			}
		}
	}
	if injected == nil || own != nil && own.rank >= injected.rank {
		return own
	}
	injected.injected, injected.transient, injected.mounting = true, true, false
	injected.reason, injected.summary = common.ReasonInjectedContainer, message.Join(injected.summary, msgInjected.With())
	return injected
}

func diagnoseContainer(s corev1.ContainerStatus) *failure {
	if w := s.State.Waiting; w != nil {
		switch w.Reason {
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable":
			return &failure{reason: ReasonImagePull, summary: msgImagePull.With(s.Image), details: pullError(w), rank: 4}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			f := &failure{reason: ReasonNotCreated, summary: msgNotCreated.With(s.Name), details: clip(w.Message), rank: 4}
			if resources.IsMissingReference(w.Message) { // users need it immediately
				f.reason, f.transient, f.certain = common.ReasonReferenceNotFound, true, true
				f.summary, f.details = message.Join(f.message(), msgCreateReference.With()), ""
			}
			return f
		case "PodInitializing", "ContainerCreating", "":
			if s.LastTerminationState.Terminated == nil {
				return &failure{reason: ReasonNotCreated, summary: msgNotYetCreated.With(s.Name), mounting: true, rank: 2}
			}
		}
	}
	for _, t := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
		if t != nil && (t.ExitCode != 0 || !s.Ready && s.RestartCount > 0) {
			return &failure{reason: ReasonCrash, summary: msgCrash.With(s.Name, fmt.Sprint(t.ExitCode)+because(t)), details: clip(t.Message), rank: 5}
		}
	}
	if s.State.Running != nil && !s.Ready {
		return &failure{reason: ReasonNotReady, summary: msgNotReady.With(s.Name), rank: 3}
	}
	return nil
}

func because(t *corev1.ContainerStateTerminated) string {
	if t.Reason == "" || t.Reason == "Error" || t.Reason == "Completed" {
		return ""
	}
	return " (" + t.Reason + ")"
}

// pullError returns the error of the registry, which a back-off message repeats
// or omits.
func pullError(w *corev1.ContainerStateWaiting) string {
	m := w.Message
	if i := strings.LastIndex(m, "rpc error: "); i >= 0 {
		m = m[i:]
	}
	if strings.HasPrefix(m, "Back-off pulling") && !strings.Contains(m, ": ") {
		return ""
	}
	return clip(m)
}

// clip keeps the end of a message, because the last lines of a log contain the
// reason.
func clip(m string) string {
	const most = 1024
	m = strings.TrimSpace(m)
	if len(m) > most {
		m = "…" + strings.ToValidUTF8(m[len(m)-most:], "")
	}
	return m
}
