// Package resources contains builders of children and parts of pods that
// several kinds share, and interprets the status of a Deployment as conditions.
// The package is pure.
package resources

import (
	"cmp"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// Rolling is a Deployment whose template is rolled out.
type Rolling struct {
	Name, Namespace string
	// Replicas is nil if a HorizontalPodAutoscaler sets the number.
	Replicas *int32
	// Initial reports whether Replicas is only applied when the Deployment is
	// created. Later it is left to a HorizontalPodAutoscaler.
	Initial bool
	// Selector selects the pods. It is immutable.
	Selector map[string]string
	// Template is the pod template, as returned by Template.
	Template *corev1ac.PodTemplateSpecApplyConfiguration
	// Rollout is the rollout configuration of the spec. If it is nil, the
	// defaults of Kubernetes apply: maxSurge and maxUnavailable 25%, deadline
	// 10 minutes.
	Rollout *common.Rollout
}

// Template returns a pod template with the given labels and the label of
// children, which the caches require.
func Template(labels map[string]string, pod *corev1ac.PodSpecApplyConfiguration) *corev1ac.PodTemplateSpecApplyConfiguration {
	return corev1ac.PodTemplateSpec().WithLabels(labels).
		WithLabels(map[string]string{naming.LabelManagedBy: naming.ManagedBy}).WithSpec(pod)
}

// Deployment returns the intent of a Deployment. It sets all fields of the spec
// outside the template, so that a manual change is drift.
func Deployment(r Rolling) apply.Intent {
	in := r.intent()
	if r.Initial {
		in.IfExists = func(client.Object) apply.Intent {
			r.Replicas = nil // an existing one may have more
			return r.intent()
		}
	}
	return in
}

func (r Rolling) intent() apply.Intent {
	rollout := ptr.Deref(r.Rollout, common.Rollout{})
	ac := appsv1ac.Deployment(r.Name, r.Namespace).
		WithSpec(appsv1ac.DeploymentSpec().
			WithPaused(false).
			WithRevisionHistoryLimit(10).
			WithMinReadySeconds(ptr.Deref(rollout.MinReadySeconds, 0)).
			WithProgressDeadlineSeconds(ptr.Deref(rollout.ProgressDeadlineSeconds, int32(DefaultDeadline/time.Second))).
			WithStrategy(strategy(rollout)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(r.Selector)).
			WithTemplate(r.Template))
	in := apply.New(ac, func() *appsv1.Deployment { return &appsv1.Deployment{} })
	if r.Replicas != nil {
		ac.Spec.WithReplicas(*r.Replicas)
	} else {
		ac.WithAnnotations(map[string]string{naming.AnnotationScaledBy: "HorizontalPodAutoscaler"})
		in.ReleaseFields = replicasStay
	}
	in.KeepsPods = keepsPods
	in.Exclusive = exclusive(r.Template)
	if rollout.Strategy == appsv1.RecreateDeploymentStrategyType {
		in.Exclusive = append(in.Exclusive, "spec.strategy.rollingUpdate") // it would be invalid
	}
	return in
}

func strategy(r common.Rollout) *appsv1ac.DeploymentStrategyApplyConfiguration {
	if r.Strategy == appsv1.RecreateDeploymentStrategyType {
		return appsv1ac.DeploymentStrategy().WithType(r.Strategy)
	}
	surge, unavailable := r.Bounds()
	return appsv1ac.DeploymentStrategy().WithType(appsv1.RollingUpdateDeploymentStrategyType).
		WithRollingUpdate(appsv1ac.RollingUpdateDeployment().WithMaxSurge(surge).WithMaxUnavailable(unavailable))
}

// exclusiveOfPod are the fields of a pod template that may contain only applied
// values: the fields that the operator may set, and those that weaken the
// security profile or prevent pods from running.
var exclusiveOfPod = []string{
	"containers", "initContainers", "volumes",
	"hostNetwork", "hostPID", "hostIPC", "hostUsers", "shareProcessNamespace", "securityContext",
	"serviceAccountName", "serviceAccount", "imagePullSecrets",
	"nodeName", "nodeSelector", "affinity", "tolerations", "topologySpreadConstraints",
	"priorityClassName", "runtimeClassName", "schedulerName", "schedulingGates", "readinessGates",
	"hostAliases", "hostname", "subdomain", "setHostnameAsFQDN", "dnsPolicy", "dnsConfig",
	"os", "resourceClaims", "resources",
}

// exclusiveOfContainer are the fields of each applied container that may
// contain only applied values.
var exclusiveOfContainer = []string{
	"command", "args", "workingDir", "env", "envFrom", "ports", "volumeMounts", "volumeDevices",
	"resources", "securityContext", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe",
	"restartPolicy", "stdin", "stdinOnce", "tty",
}

// exclusive returns the paths of a Deployment's template that may contain only
// applied values. An addition to the template is in the pods of every revision,
// so if it causes an outage, nothing but its removal ends that. Labels and
// annotations are not included, because kubectl rollout restart adds an
// annotation.
func exclusive(template *corev1ac.PodTemplateSpecApplyConfiguration) []string {
	if template == nil || template.Spec == nil {
		return nil
	}
	const pod = "spec.template.spec."
	var paths []string
	for _, field := range exclusiveOfPod {
		paths = append(paths, pod+field)
	}
	add := func(list string, containers []corev1ac.ContainerApplyConfiguration) {
		for _, c := range containers {
			for _, field := range exclusiveOfContainer {
				paths = append(paths, pod+list+"["+*c.Name+"]."+field)
			}
		}
	}
	add("containers", template.Spec.Containers)
	add("initContainers", template.Spec.InitContainers)
	return paths
}

// replicasStay preserves the number of replicas when the operator stops
// applying it. The API server resets a field whose only owner stops applying
// it: a Deployment with four replicas would have one, which is the default,
// until the autoscaler scales it. No annotation can show whether the number was
// handed over before: kubectl rollout undo restores those of an earlier template.
func replicasStay(live client.Object) runtime.ApplyConfiguration {
	d, ok := live.(*appsv1.Deployment)
	if !ok || d.Spec.Replicas == nil || !compare.HasAppliedReplicas(d) {
		return nil
	}
	return appsv1ac.Deployment(d.Name, d.Namespace).WithUID(d.UID).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*d.Spec.Replicas))
}

// keepsPods reports whether a change of a Deployment leaves its pods as they are, and what
// counts as available.
func keepsPods(before, after client.Object) bool {
	b, a := before.(*appsv1.Deployment), after.(*appsv1.Deployment)
	return equality.Semantic.DeepEqual(b.Spec.Template, a.Spec.Template) && Replicas(b) == Replicas(a) &&
		b.Spec.Paused == a.Spec.Paused && b.Spec.MinReadySeconds == a.Spec.MinReadySeconds
}

// DeploymentState returns what the status of a Deployment means for the
// conditions of its owner. d is nil if there is no Deployment; want is the
// desired number of replicas. Messages contain no counts, because each change
// of a count during a rollout would cause a status write, and the counts are in
// the status anyway.
func DeploymentState(d *appsv1.Deployment, want int32) conditions.State {
	var s conditions.State
	if d == nil {
		s.Available = conditions.False(msgNoDeployment)
		s.Ready = conditions.False(msgDeploymentCreated)
		return s
	}
	s.Available = deploymentAvailable(d, want)
	seen := d.Status.ObservedGeneration >= d.Generation && Replicas(d) == want
	st := d.Status
	complete := seen && st.UpdatedReplicas == want && st.Replicas == want && st.AvailableReplicas == want
	switch {
	case complete && want == 0:
		s.Ready = conditions.True(msgNoReplicas)
	case complete:
		s.Ready = conditions.True(msgServing, pods(want), areOrIs(want))
	case Replicas(d) == want && podstate.ReplicaFailure(d) != "":
		cause := podstate.ReplicaFailure(d)
		s.Stalled = conditions.Condition{Status: true, Reason: ReasonNotCreated(cause), Message: PodsNotCreated(cause)}
	case seen && is(d, appsv1.DeploymentProgressing, corev1.ConditionFalse):
		s.Stalled = conditions.True(msgDeadline)
	default:
		s.Ready = conditions.False(msgProgressing, pods(want))
	}
	return s
}

// Complete reports whether all pods are created from the current spec of the
// Deployment and available.
func Complete(d *appsv1.Deployment) bool {
	return d != nil && DeploymentState(d, Replicas(d)).Ready.Status
}

// deploymentAvailable does not depend on the condition Available of the
// Deployment, which is False whenever the rollout strategy would not leave as
// few replicas: while the Deployment is scaled up, or after the loss of a node,
// although the others are serving.
func deploymentAvailable(d *appsv1.Deployment, want int32) conditions.Condition {
	switch {
	case d.Status.AvailableReplicas > 0:
		return conditions.True(msgAvailable)
	case want == 0:
		return conditions.False(msgNoReplicas)
	default:
		return conditions.False(msgUnavailable)
	}
}

// Replicas returns the number of replicas that a Deployment asks for.
func Replicas(d *appsv1.Deployment) int32 { return ptr.Deref(d.Spec.Replicas, 1) }

// Condition returns a condition of a Deployment, or nil.
func Condition(d *appsv1.Deployment, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == t {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

func is(d *appsv1.Deployment, t appsv1.DeploymentConditionType, v corev1.ConditionStatus) bool {
	c := Condition(d, t)
	return c != nil && c.Status == v
}

func pods(n int32) string {
	if n == 1 {
		return "1 replica"
	}
	return fmt.Sprintf("%d replicas", n)
}

func areOrIs(n int32) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

// PodsNotCreated returns the message about pods that the ReplicaSet controller
// cannot create, which quotes the cause.
func PodsNotCreated(cause string) string { return msgPodsNotCreated.Quoting(cause) }

// ReasonNotCreated returns the reason of a condition about such pods.
func ReasonNotCreated(cause string) string {
	return cmp.Or(fault.RefusalReason(cause), common.ReasonReplicaFailure)
}

// PastDeadline reports whether a rollout has made no progress for longer than
// its deadline.
func PastDeadline(d *appsv1.Deployment) bool {
	return d.Status.ObservedGeneration >= d.Generation && is(d, appsv1.DeploymentProgressing, corev1.ConditionFalse)
}

// RolledOut reports whether the Deployment controller considers the current
// template rolled out, which is also true if that was at zero replicas. The
// controller then applies no deadline to its pods, not even to the first ones.
func RolledOut(d *appsv1.Deployment) bool {
	c := Condition(d, appsv1.DeploymentProgressing)
	return d.Status.ObservedGeneration >= d.Generation && c != nil && c.Status == corev1.ConditionTrue && c.Reason == "NewReplicaSetAvailable"
}

// DefaultDeadline is how long a rollout may make no progress unless the spec says
// otherwise, which is the default of Kubernetes.
const DefaultDeadline = 10 * time.Minute

// DeadlinePassed returns when the Deployment controller found that the deadline
// was exceeded, and how long a rollout may make no progress.
func DeadlinePassed(d *appsv1.Deployment) (at time.Time, deadline time.Duration) {
	deadline = DefaultDeadline
	if s := d.Spec.ProgressDeadlineSeconds; s != nil {
		deadline = time.Duration(*s) * time.Second
	}
	if c := Condition(d, appsv1.DeploymentProgressing); c != nil {
		at = c.LastTransitionTime.Time
	}
	return at, deadline
}
