package rollout

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// ConfigTest is the name of the init container that tests the configuration
// before the pod's main container starts. Each kind with such a test uses this
// name.
const ConfigTest = "config-test"

// attempts is how often a container must fail before that is certain. Some causes are
// temporary, such as a name that cannot be resolved yet.
const attempts = 3

// attemptsWithin is how long after the start of its pod a failure becomes certain whose
// attempts are not counted in the status of the pod. The kubelet has then tried three
// times, and an image may be pushed a moment after the spec was changed.
const attemptsWithin = 45 * time.Second

// testFailed is the exit code of the test of a configuration that is rejected, which is
// that of nginx -t (nginx 1.22 to 1.30: src/core/nginx.c).
const testFailed = 1

// Reasons of a failure, including those of an Action. The others are those of conditions.
const (
	ReasonConfigInvalid = "ConfigInvalid"
	ReasonRefused       = "PodsRefused"
	ReasonDeadline      = "DeadlineExceeded"
)

// failure is the reason why a rollout does not make progress.
type failure struct {
	reason string
	// summary describes the failure without anything that differs between
	// attempts; details may contain the last lines of a log.
	summary, details string
	// transient reports that the revision is not the cause, but its surroundings: the
	// cluster has no capacity, the namespace does not admit the pods, a volume or the
	// network is not there, or a node is lost. Such a failure can end at any time
	// without a change of the spec.
	transient bool
	// certain reports that the pod shows the cause beyond doubt, so that the failure does
	// not need to wait for the deadline: a transient one is reported at once, and another
	// one ends the rollout when its pod has had the time within.
	certain bool
	within  time.Duration
	// repeated reports that a container has exited several times.
	repeated bool
	// since is when the pod started, by the clocks of other machines.
	since time.Time
	// mounting reports that volumes of the pod may not be mounted yet. Only an
	// event contains which one is missing.
	mounting bool
	// injected reports that the container is not in the pod template.
	injected bool
	severity severity
}

// severity orders failures: of several pods, and of the containers of a template and
// those that are injected, the most severe failure is the cause.
type severity int

const (
	// recovered: a container has crashed, and is ready again.
	recovered severity = iota + 1
	// notAdmitted: no node can run the pod, its node or the registry is not available, or
	// it cannot be created.
	notAdmitted
	// notCreated: a container has not been created yet.
	notCreated
	// notReady: a container runs, but is not ready.
	notReady
	// notStarted: an image cannot be pulled, or a container cannot be created.
	notStarted
	// crashes: a container exits.
	crashes
	// rejected: the test of the configuration fails.
	rejected
	// exceeded: a canary has too many errors.
	exceeded
)

// lasts reports whether the failure is reported before the deadline: containers need
// time to be created and to become ready.
func (f *failure) lasts() bool { return f != nil && (f.severity > notReady || f.severity == recovered) }

func (f failure) message() string {
	return message.Quote(f.summary, podstate.Excerpt(f.details))
}

// without returns f without those lines of its details that contain one of the parts.
func (f *failure) without(parts []string) *failure {
	if f == nil || len(parts) == 0 {
		return f
	}
	lines := slices.DeleteFunc(strings.Split(f.details, "\n"), func(line string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(line, part) })
	})
	f.details = strings.Join(lines, "\n")
	return f
}

// known returns f with the summary of the error in its details, if the configuration is rejected
// for one of these.
func (f *failure) known(errors map[string]string) *failure {
	if f == nil || f.severity != rejected {
		return f
	}
	for part, summary := range errors {
		if strings.Contains(f.details, part) {
			f.summary = summary
		}
	}
	return f
}

// worse reports whether f is the cause rather than other, which may be nil.
func (f *failure) worse(other *failure) bool {
	return f != nil && (other == nil || f.severity > other.severity || f.severity == other.severity && f.certain && !other.certain)
}

// diagnose returns why the pods of the serving revision are not serving. If an
// object that its pods mount may be missing, it also lists the objects that
// they mount: the operator has no permission to read them. A missing object,
// like a quota, does not mean that the revision is bad.
func (d *Decision) diagnose(dep *appsv1.Deployment, pods []corev1.Pod) *failure {
	if f := d.exceeded(pods); f != nil {
		return f
	}
	f := diagnose(dep, pods, d.Serving.hash, d.containers()).without(d.question.IgnoreLogLines).known(d.question.KnownErrors)
	if f == nil || f.reason != common.ReasonContainerNotCreated || f.severity != notCreated {
		return f
	}
	mounts := podstate.Mounts(dep.Spec.Template.Spec.Volumes, func(configMap string) bool {
		return configsource.IsSnapshotName(d.question.Name, configMap)
	})
	f.transient = f.mounting
	if !f.mounting || len(mounts) == 0 {
		f.summary = message.Join(f.summary, msgDescribe.With())
		return f
	}
	f.reason = common.ReasonReferenceNotFound
	f.summary = message.Join(f.summary, msgMounts.With(strings.Join(mounts, ", ")))
	return f
}

// Cause describes why pods of the serving revision are not serving, or returns "".
func (d *Decision) Cause(dep *appsv1.Deployment, pods []corev1.Pod) string {
	if dep == nil || d.Template == nil {
		return ""
	}
	if f := diagnose(dep, pods, d.Serving.hash, d.containers()); f != nil && f.severity != recovered {
		return f.summary
	}
	return ""
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
	lost := lostNodes(pods)
	for _, p := range slices.SortedFunc(slices.Values(podsOf(pods, template)), func(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }) {
		if f := diagnosePod(p, of, lost); f.worse(worst) {
			worst, f.since = f, podstate.StartedAt(p)
		}
	}
	if cause := podstate.ReplicaFailure(d); worst == nil && cause != "" {
		worst = &failure{
			reason: ReasonRefused, summary: message.Join(resources.PodsNotCreated(cause), fault.Advice(cause)), severity: notAdmitted,
			transient: !fault.OfPods(cause),
		}
	}
	return worst
}

// lostNodes returns the names of the nodes that do not respond, as far as the pods of the
// object show it.
func lostNodes(pods []corev1.Pod) map[string]bool {
	lost := map[string]bool{}
	for i := range pods {
		if podstate.DiagnoseNode(&pods[i]).Problem != podstate.None {
			lost[pods[i].Spec.NodeName] = true
		}
	}
	return lost
}

// diagnosePod returns why a pod is not serving. of are the containers of its template.
// Another container is the cause only if no failure of those is worse: what it does is
// not a failure of the revision. What a pod on a lost node reports is out of date.
func diagnosePod(p *corev1.Pod, of containers, lost map[string]bool) *failure {
	if lost[p.Spec.NodeName] {
		return &failure{reason: common.ReasonNodeLost, summary: msgNodeLost.With(p.Spec.NodeName), transient: true, severity: notAdmitted}
	}
	if podstate.DiagnoseScheduling(p).Problem != podstate.None {
		return &failure{reason: common.ReasonUnschedulable, summary: msgUnschedulable.With(), transient: true, severity: notAdmitted}
	}
	var own, injected *failure
	for _, d := range podstate.Containers(p) {
		switch {
		case !of.has(d.Container):
			if injected == nil {
				injected = failureOf(d)
			}
		case own == nil:
			own = failureOf(d)
			own.mounting = own.mounting && !podstate.ReadyToStart(p)
		}
	}
	if injected == nil || own != nil && own.severity >= injected.severity {
		return own
	}
	injected.certain = injected.certain && injected.transient
	injected.injected, injected.transient, injected.mounting = true, true, false
	injected.reason, injected.summary = common.ReasonInjectedContainer, message.Join(injected.summary, msgInjected.With())
	return injected
}

// failureOf returns the failure that a problem of a container is. A container that has
// recovered from a crash counts, because it may never be available for long enough.
func failureOf(d podstate.Diagnosis) *failure {
	switch d.Problem {
	case podstate.ImagePull:
		f := &failure{reason: common.ReasonImagePull, summary: msgImagePull.With(d.Image), details: d.Text, severity: notStarted, certain: d.Missing, within: attemptsWithin}
		if d.Init && d.Container != ConfigTest { // that has the image of nginx
			f.summary = message.Join(f.summary, msgInitImage.With(d.Container))
		}
		if d.Unreachable {
			f.summary, f.transient, f.severity = message.Join(f.summary, msgUnreachable.With()), true, notAdmitted
		}
		return f
	case podstate.NotCreated:
		f := &failure{reason: common.ReasonContainerNotCreated, summary: msgNotCreated.With(d.Container), details: d.Text, severity: notStarted, certain: d.Missing, within: attemptsWithin}
		if d.MissingReference { // users need it immediately
			f.reason, f.transient, f.certain = common.ReasonReferenceNotFound, true, true
			f.summary, f.details = message.Join(f.message(), msgCreateReference.With()), ""
		}
		return f
	case podstate.Starting:
		return &failure{reason: common.ReasonContainerNotCreated, summary: msgNotYetCreated.With(d.Container), mounting: true, severity: notCreated}
	case podstate.Initializing:
		return &failure{reason: common.ReasonNotReady, summary: msgInitializing.With(d.Container), severity: notReady}
	case podstate.NotReady:
		return &failure{reason: common.ReasonNotReady, summary: msgNotReady.With(d.Container), severity: notReady}
	}
	return failureOfExit(d)
}

// failureOfExit returns the failure that an exit of a container is.
func failureOfExit(d podstate.Diagnosis) *failure {
	f := &failure{reason: common.ReasonCrash, summary: msgKeepsExiting.With(d.Container), details: d.Text, severity: crashes}
	if d.Exit == nil {
		return f
	}
	f.summary, f.repeated = msgCrash.With(d.Container, d.ExitCode()), d.Restarts+1 >= attempts
	if d.Problem == podstate.Recovered {
		f.severity = recovered
		return f
	}
	// A node may be unable to start a container.
	ran := d.Exit.Reason != "StartError" || d.Missing
	f.certain = ran && d.Exit.ExitCode != 0 && !d.Running && f.repeated
	// Other exit codes are not the verdict of the test: it was killed or did not start.
	if d.Init && d.Container == ConfigTest && d.Exit.ExitCode == testFailed {
		f.reason, f.summary, f.severity = ReasonConfigInvalid, msgConfigInvalid.With(), rejected
	}
	return f
}
