package workload

import (
	"errors"
	"regexp"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/conditions"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/rollout"
)

// Object is one object of a kind whose pods a Deployment runs, as one reconcile
// handles it. Embed Defaults for the methods that a kind does not need.
type Object interface {
	// Spec returns the parts of spec and status that these kinds share.
	Spec() Spec
	// Pods returns the inputs that the pods depend on, and the pod template. A
	// change of the inputs starts a rollout, so they leave out what does not
	// concern pods. The error reports what is missing; then the template that
	// was decided last is kept.
	Pods() (inputs any, template *corev1ac.PodTemplateSpecApplyConfiguration, err error)
	// Adopt returns the template for a revision of the spec that exists already,
	// if that decides about values that the spec leaves open, and nil otherwise.
	Adopt(existing rollout.Revision) (*corev1ac.PodTemplateSpecApplyConfiguration, error)
	// Snapshots returns the ConfigMaps that the template mounts.
	Snapshots() []configsource.Snapshot
	// Deployment returns the Deployment with a template. build returns it for a
	// selector.
	Deployment(build func(selector map[string]string) apply.Intent, template *corev1ac.PodTemplateSpecApplyConfiguration) apply.Intent
	// AddService adds the Service, which routes to the ports of the pods, to a
	// plan, or the existing one to those that are deleted.
	AddService(plan *converge.Plan, ports Ports)
	// State changes what the conditions report, if the Service matters to it.
	State(state conditions.State, service *corev1.Service) conditions.State
	// UpdateStatus writes the part of the status that only this kind has.
	UpdateStatus(Result)
}

// Inputs are inputs of pods that contain the content of the users' ConfigMaps and Secrets.
type Inputs interface {
	// WithoutContent returns only what the spec of the object itself asks for.
	WithoutContent() any
}

// Defaults are methods of an Object that add nothing.
type Defaults struct{}

// Adopt reports that the spec leaves nothing open.
func (Defaults) Adopt(rollout.Revision) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	return nil, nil
}

// Snapshots returns none.
func (Defaults) Snapshots() []configsource.Snapshot { return nil }

// State returns the state as it is.
func (Defaults) State(s conditions.State, _ *corev1.Service) conditions.State { return s }

// Spec is the part of spec and status that these kinds share. The pointers refer
// to the object; nil means that the spec does not have the field.
type Spec struct {
	Kind   string
	Owner  converge.Object
	Labels map[string]string // select the pods
	// Container is the name of the container that matters to rollouts.
	Container string
	// IgnoreLogLines are parts of log lines that do not explain a failure.
	IgnoreLogLines []string
	// KnownErrors are what errors of the configuration test mean.
	KnownErrors map[string]string
	// Sidecars are the names of the other containers and init containers, and
	// Profile is the least strict security profile of the pods: Restricted if it
	// is "". A stored template with other containers, except for init containers, or
	// a less strict one, is not used.
	Sidecars []string
	Profile  common.SecurityProfile
	// Commands matches the commands that the kind generates; nil means that the spec sets
	// them (resources.TemplateRules).
	Commands *regexp.Regexp
	// Scratch are the names of the empty volumes that the kind adds. The limit of
	// the platform configuration does not apply to them.
	Scratch []string
	// Replicas is the number of pods without an autoscaler. LastReplicas is the
	// one that was reported last.
	Replicas, LastReplicas int32
	Rollout                *common.Rollout
	Before                 *common.Before
	RolloutStatus          *common.RolloutStatus
	PodDisruptionBudget    *common.PodDisruptionBudget
	NetworkPolicy          *common.NetworkPolicy
	// Ports are the ports of the pods that clients may connect to.
	Ports []*corev1ac.ContainerPortApplyConfiguration

	// Requests is where the requests to a pod are counted, nil for the log of nginx.
	Requests *judge.Metrics

	// Carried is the volume of which pods mount other versions too. It may be nil.
	Carried *rollout.Carried

	// Of kinds for the web. Service is the name of the Service, Port its port
	// that hosts are routed to, 0 for none, PortName its name, "" for none, and
	// Metrics the names of the ports that are scraped.
	Service     string
	Port        int32
	PortName    string
	Metrics     []string
	Autoscaling *common.Autoscaling
	Expose      *common.Expose
	Monitoring  *common.Monitoring
}

// Scale returns the number of replicas that the Deployment states, nil if it is
// left to the autoscaler.
func (s Spec) Scale(live *appsv1.Deployment) *int32 {
	if s.Autoscaling != nil {
		return resources.AutoscaledReplicas(s.Autoscaling, live, s.LastReplicas)
	}
	return new(s.Replicas)
}

// least returns the smallest number of pods that there will be.
func (s Spec) least() int32 {
	if s.Autoscaling != nil {
		return resources.MinReplicas(s.Autoscaling)
	}
	return s.Replicas
}

// most returns the largest number of pods that there will be.
func (s Spec) most() int32 {
	if s.Autoscaling != nil {
		return s.Autoscaling.MaxReplicas
	}
	return s.Replicas
}

// Wanted returns the number of pods that there should be now: with an
// autoscaler, the number that it has set.
func (s Spec) Wanted(live *appsv1.Deployment) int32 {
	if n := s.Scale(live); n != nil {
		return *n
	}
	if live != nil && live.Spec.Replicas != nil {
		return *live.Spec.Replicas
	}
	return s.least()
}

// Model is what one reconcile has decided about an object.
type Model struct {
	// Decision selects the pod template, and Err is why it is not what the spec
	// asks for.
	Decision rollout.Decision
	Err      error

	object    Object
	inputs    any
	spec      Spec
	observed  Observed
	ports     Ports
	current   bool // the decision is about what the spec asks for
	auxiliary Wanted
	eviction  evicted
	before    before
	retriedAt string
	retryIn   time.Duration
	noStep    bool
	web       bool
}

// Model decides about an object. If what its pods depend on is missing, or the
// platform configuration does not allow the template, the template that was
// decided last keeps serving.
func (k Kind[T]) Model(obj T, o Observed) *Model {
	m := &Model{object: k.Object(obj, o), observed: o, web: k.Web}
	m.spec = m.object.Spec()
	s := m.spec
	q := rollout.Input{
		Kind: s.Kind, Namespace: obj.GetNamespace(), Name: obj.GetName(), Labels: s.Labels,
		SnapshotSizes: configsource.Sizes(o.Snapshots),
		Now:           o.Now, Idle: s.Wanted(o.Deployment) == 0,
		Rollout: s.Rollout, Status: *s.RolloutStatus, Conditions: obj.GetStatus().Conditions, Carried: s.Carried, IgnoreLogLines: s.IgnoreLogLines, KnownErrors: s.KnownErrors,
	}
	m.Decision, m.current, m.Err = rollout.DecideOrKeep(q, o.Observed,
		func() (rollout.Decision, error) { return m.decide(q) }, k.rules(obj, s))
	if k.Before {
		m.holdBefore(k.PodLabel)
	}
	in := m.Decision.InUse(o.Pods)
	m.ports = portsOf(in)
	m.eviction = m.evicted()
	m.retriedAt, m.retryIn, m.noStep = retried(m.retry(obj.GetStatus().Conditions, k.Paused != nil && k.Paused(obj)))
	m.auxiliary = Wanted{
		Spec: s, Pods: m.Decision.PodLabels(o.Deployment), MinReplicas: s.least(), MaxReplicas: s.most(), KeepAvailable: m.eviction.keep,
		Open: m.ports.open(s.Ports), Refused: resources.CheckExpose(k.Platform, obj.GetNamespace(), s.Expose),
	}
	m.auxiliary.Autoscaling = resources.Measurable(m.eviction.autoscaling(s.Autoscaling), in.Templates)
	m.auxiliary.Metrics = nil
	for _, name := range s.Metrics {
		m.auxiliary.Metrics = append(m.auxiliary.Metrics, m.ports.scraped(name, s.Ports)...)
	}
	if s.Before != nil || len(o.Jobs) > 0 {
		m.auxiliary.Isolated = map[string]string{k.PodLabel: obj.GetName()}
	}
	return m
}

// rules returns which templates the pods of an object may have.
func (k Kind[T]) rules(obj T, s Spec) rollout.Rules {
	own := append([]string{s.Container}, s.Sidecars...)
	rules := resources.TemplateRules{Profile: s.Profile, Containers: own, Commands: s.Commands}
	return rollout.Rules{
		Refuses: func(t *corev1ac.PodTemplateSpecApplyConfiguration) error {
			return resources.CheckServiceAccount(k.Platform, obj, t)
		},
		Violations: rules.Violations,
		NotAllowed: func(t *corev1ac.PodTemplateSpecApplyConfiguration) field.ErrorList {
			return resources.NotAllowed(k.Platform, resources.Generated{Labels: s.Labels, Volumes: s.Scratch, Containers: own}, t)
		},
	}
}

func (m *Model) decide(q rollout.Input) (rollout.Decision, error) {
	var err error
	if q.Inputs, q.Template, err = m.object.Pods(); err != nil {
		return rollout.Decision{}, err
	}
	m.inputs = q.Inputs
	d, err := rollout.Decide(q, m.observed.Observed)
	if err != nil {
		return d, err
	}
	adopted, err := m.object.Adopt(d.Desired)
	if err != nil || adopted == nil {
		return d, err
	}
	q.Template, q.Adopted = adopted, true
	return rollout.Decide(q, m.observed.Observed)
}

// Plan returns the desired children, in the order of their dependencies: history
// is recorded before it is used, and no pod runs before it is isolated.
func (m *Model) Plan() (converge.Plan, error) {
	o, d, owner := m.observed, &m.Decision, m.spec.Owner
	var snapshots []configsource.Snapshot
	if m.current || m.before.revision != nil {
		snapshots = m.object.Snapshots()
	}
	stay, stale, unreadable := d.Snapshots(snapshots, o.Snapshots, m.spec.Labels)
	plan := d.Complete(converge.Plan{Apply: stay})
	o.Isolate(&plan, m.auxiliary)
	// Of an object that is being deleted only the names of the children matter,
	// and all of them do: children that were released are not observed any more.
	deleting := !owner.GetDeletionTimestamp().IsZero()
	if !deleting {
		m.before.addTo(&plan)
	}
	m.addJudge(&plan)
	if d.Template != nil || deleting {
		plan.Apply = append(plan.Apply, d.Deployment(plan, o.Observed, m.Deployment))
	}
	m.object.AddService(&plan, m.ports)
	o.ApplyOrPrune(&plan, m.auxiliary)
	plan.Main = apply.Ref{Kind: "Deployment", Name: owner.GetName()}
	plan.Prune = append(plan.Prune, stale...) // after the revisions that mount them
	plan.Prune = append(plan.Prune, m.before.stale...)
	if deleting {
		return plan, nil // a missing input must not prevent the deletion
	}
	return plan, errors.Join(m.Err, unreadable)
}

// Deployment returns the Deployment with a template, whose pods are replaced as stated.
func (m *Model) Deployment(template *corev1ac.PodTemplateSpecApplyConfiguration, rolling *common.Rollout) apply.Intent {
	owner, live := m.spec.Owner, m.observed.Deployment
	return m.object.Deployment(func(selector map[string]string) apply.Intent {
		in := resources.Deployment(resources.Rolling{
			Name: owner.GetName(), Namespace: owner.GetNamespace(), Replicas: m.Decision.Scale(m.eviction.replicas(m.spec.Scale(live)), live),
			Initial:  m.spec.Autoscaling != nil && live == nil,
			Selector: selector, Template: template, Rollout: rolling,
		})
		if m.retriedAt != "" {
			in.Annotate(naming.AnnotationRetriedAt, m.retriedAt)
		}
		in.StartAfter = []apply.Ref{{Kind: "NetworkPolicy", Name: owner.GetName()}}
		in.Starts = live != nil && idle(live) && m.spec.Wanted(live) > 0
		return in
	}, template)
}

// idle reports whether a Deployment neither has pods nor creates any.
func idle(d *appsv1.Deployment) bool {
	return d.Spec.Replicas != nil && *d.Spec.Replicas == 0 && d.Status.Replicas == 0
}

// Result is the result of a reconcile, for the part of the status that only one
// kind has.
type Result struct {
	converge.Outcome
	// Deployment and Service are as written by this reconcile, or else as
	// observed; nil if they do not exist.
	Deployment *appsv1.Deployment
	Service    *corev1.Service
	// Decision is about what the spec asks for if Current is true.
	Decision rollout.Decision
	Current  bool
	// Serves reports whether pods of the revision that is to serve exist, and
	// all of them do serve.
	Serves bool
	// Hosts are the addresses of the hosts that are routed to the object.
	Hosts []common.Address
}

// UpdateStatus writes the status into the object.
func (m *Model) UpdateStatus(out converge.Outcome) {
	s, o, owner := m.spec, m.observed, m.spec.Owner
	ns, status := owner.GetNamespace(), owner.GetStatus()
	r := Result{
		Outcome: out, Decision: m.Decision, Current: m.current,
		Deployment: m.deployment(out),
		Service:    converge.ChildOrObserved(out, "Service", ns, s.Service, o.Service),
	}
	want := s.Wanted(r.Deployment)
	state := m.state(m.eviction.without(r.Deployment, want), want, out)
	state = m.object.State(state, r.Service)
	resources.Unevictable(&state, s.PodDisruptionBudget, o.Budgets, m.Decision.PodLabels(o.Deployment))
	if o.OnlyNode != "" && state.Ready.Status {
		state.Ready.Message = message.Join(state.Ready.Message, msgOneNode.With(o.OnlyNode))
	}
	r.Serves = state.Ready.Status && want > 0
	if s.Autoscaling != nil && want > 0 {
		autoscaler := converge.ChildOrObserved(out, "HorizontalPodAutoscaler", ns, owner.GetName(), o.Autoscaler)
		if left := resources.Autoscales(&state, autoscaler, out.Now); left > 0 {
			out.RequeueAfter(left)
		}
	}
	if m.retryIn > 0 {
		out.RequeueAfter(m.retryIn)
	}
	if m.noStep && state.Ready.Reason == common.ReasonProgressing {
		state.Ready = conditions.False(msgNoStep)
	}
	m.before.report(s.RolloutStatus, out)
	m.eviction.report(&state, s.RolloutStatus, r.Deployment, func() string { return m.Decision.Cause(r.Deployment, o.Pods) }, out)
	conditions.Report(status, owner.GetGeneration(), out.Now, state, out.Problem)
	r.Hosts = o.Exposed(m.auxiliary, status, out)
	m.object.UpdateStatus(r)
}

// deployment returns the Deployment as written by this reconcile, or else as observed. If its
// controller has observed all that concerns the pods, so it has the Deployment: annotations
// raise the generation too, and an upgrade of the operator may change them.
func (m *Model) deployment(out converge.Outcome) *appsv1.Deployment {
	ns, name := m.spec.Owner.GetNamespace(), m.spec.Owner.GetName()
	d := converge.ChildOrObserved(out, "Deployment", ns, name, m.observed.Deployment)
	if since := out.KeptSince("Deployment", ns, name); since > 0 && d.Status.ObservedGeneration >= since {
		d = d.DeepCopy()
		d.Status.ObservedGeneration = d.Generation
	}
	return d
}

// state returns what the Deployment means for the conditions, and updates the status
// of the rollout.
func (m *Model) state(d *appsv1.Deployment, want int32, out converge.Outcome) conditions.State {
	s, o := m.spec, m.observed
	if d != nil && !out.Matches("Deployment", d.Namespace, d.Name) {
		return m.Decision.ReportDiffering(s.RolloutStatus, d, want)
	}
	return m.Decision.Report(s.RolloutStatus, d, o.Pods, want, s.Container, out)
}
