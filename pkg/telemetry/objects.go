package telemetry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/apis/common"
)

// MaxAbnormal is the maximum number of objects that have series of their own. If
// all objects of a large cluster fail at the same time, namespaces take turns, and of each
// those that have been abnormal for the longest time are reported first; the counts remain
// complete.
const MaxAbnormal = 500

// defaultDeadline is how long an object may be not Ready if its spec has no
// deadline. It is the default of rollout.progressDeadlineSeconds.
const defaultDeadline = 10 * time.Minute

// A container that died often within dyingPeriod is reported as Dying.
const (
	dyingPeriod = time.Hour
	often       = 3
)

// Object is an object whose metrics are reported.
type Object interface {
	client.Object
	GetStatus() *common.Status
}

// The parts of an object that only some kinds have.
type (
	rollingOut interface {
		GetRollout() *common.Rollout
		GetRolloutStatus() *common.RolloutStatus
	}
	immortal interface {
		// GetStarts returns the number of pods that were released to run, and the
		// number of restarts of the container in the current pod.
		GetStarts() (pods, restarts int64)
	}
)

// States of an abnormal object.
const (
	stateNotReady    = "NotReady"
	stateStalled     = "Stalled"
	stateRolledBack  = "RolledBack"
	stateHeld        = "Held"
	stateDying       = "Dying"
	stateUnavailable = "Unavailable"
)

// group identifies the objects that are counted together.
type group struct{ kind, namespace string }

type conditionKey struct {
	group
	condition, status string
}

// suspect is an object that is, or may become, abnormal. There is none for a
// healthy object.
type suspect struct {
	group
	namespace, name string // namespace is that of the object; that of the group may be ""

	edited   time.Time // when the last change of the spec was observed, if the object has not been Ready since
	deleting time.Time // when the deletion was observed
	notReady time.Time // since when the object has not been Ready
	deadline time.Duration
	stalled  bool
	rolled   bool
	held     bool
	lost     bool        // it was available, and is not
	reason   string      // of Ready
	deaths   []time.Time // of the container, oldest first, at most often
}

// Objects aggregates the events of objects.
type Objects struct {
	namespaces bool
	active     <-chan struct{}
	now        func() time.Time

	transitions, failed, rebirths, restarts *prometheus.CounterVec
	ready, gone                             *prometheus.HistogramVec

	objects, conditions, outdated, abnormalObjects, abnormal *prometheus.Desc

	mu       sync.Mutex
	count    map[group]int
	stale    map[group]int
	status   map[conditionKey]int
	suspects map[types.UID]*suspect
}

func newObjects(o Options) *Objects {
	return &Objects{
		namespaces: !o.WithoutNamespaces, active: o.Active, now: o.Now,
		transitions: defTransitions.counter(), failed: defFailedRollouts.counter(), rebirths: defRebirths.counter(), restarts: defRestarts.counter(),
		ready: defReady.histogram(), gone: defGone.histogram(),
		objects: defObjects.desc(), conditions: defConditions.desc(), outdated: defOutdated.desc(),
		abnormalObjects: defAbnormalObjects.desc(), abnormal: defAbnormal.desc(),
		count: map[group]int{}, stale: map[group]int{}, status: map[conditionKey]int{}, suspects: map[types.UID]*suspect{},
	}
}

// Informers provides the informers of the caches.
type Informers interface {
	GetInformer(ctx context.Context, obj client.Object, opts ...cache.InformerGetOption) (cache.Informer, error)
}

// Watch adds a handler to the informers of the kinds. It is called before the
// caches are started. kinds are empty objects.
func (o *Objects) Watch(informers Informers, scheme *runtime.Scheme, kinds []Object) error {
	for _, k := range kinds {
		gvk, err := apiutil.GVKForObject(k, scheme)
		if err != nil {
			return fmt.Errorf("looking up the kind of %T: %w", k, err)
		}
		i, err := informers.GetInformer(context.Background(), k)
		if err != nil {
			return fmt.Errorf("watching %s for metrics: %w", gvk.Kind, err)
		}
		if _, err := i.AddEventHandler(o.Handler(gvk.Kind)); err != nil {
			return fmt.Errorf("watching %s for metrics: %w", gvk.Kind, err)
		}
	}
	return nil
}

// Handler returns the handler of the events of one kind.
func (o *Objects) Handler(kind string) toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			if now, ok := obj.(Object); ok {
				o.observe(kind, nil, now, initial)
			}
		},
		UpdateFunc: func(old, obj any) {
			before, ok := old.(Object)
			now, also := obj.(Object)
			if !ok || !also || before.GetResourceVersion() == now.GetResourceVersion() && before.GetUID() == now.GetUID() {
				return // a resync
			}
			if before.GetUID() != now.GetUID() { // the deletion was not observed
				o.observe(kind, before, nil, false)
				before = nil
			}
			o.observe(kind, before, now, false)
		},
		DeleteFunc: func(obj any) {
			if t, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
				obj = t.Obj
			}
			if before, ok := obj.(Object); ok {
				o.observe(kind, before, nil, false)
			}
		},
	}
}

// observe replaces what is counted about before by what is counted about now.
// Either may be nil. initial means that the object may be older than this
// process.
func (o *Objects) observe(kind string, before, now Object, initial bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if before != nil {
		o.add(kind, before, -1)
	}
	if now != nil {
		o.add(kind, now, 1)
	}
	if o.isActive() && before != nil && now != nil {
		o.countTransitions(kind, before, now)
		o.countRollouts(kind, before, now)
	}
	if now == nil {
		o.end(kind, before)
		return
	}
	o.suspect(kind, before, now, initial)
}

func (o *Objects) isActive() bool {
	select {
	case <-o.active:
		return true
	default:
		return false
	}
}

func (o *Objects) groupOf(kind string, obj Object) group {
	if !o.namespaces {
		return group{kind: kind}
	}
	return group{kind, obj.GetNamespace()}
}

func change[K comparable](m map[K]int, key K, n int) {
	if m[key] += n; m[key] == 0 {
		delete(m, key)
	}
}

func (o *Objects) add(kind string, obj Object, n int) {
	g := o.groupOf(kind, obj)
	change(o.count, g, n)
	st := obj.GetStatus()
	if st.ObservedGeneration != obj.GetGeneration() {
		change(o.stale, g, n)
	}
	for _, c := range st.Conditions {
		change(o.status, conditionKey{g, c.Type, string(c.Status)}, n)
	}
}

func (o *Objects) countTransitions(kind string, before, now Object) {
	old := before.GetStatus().Conditions
	for _, c := range now.GetStatus().Conditions {
		was := meta.FindStatusCondition(old, c.Type)
		if was == nil || was.Status != c.Status || was.Reason != c.Reason {
			o.transitions.WithLabelValues(kind, c.Type, string(c.Status), known(c.Reason)).Inc()
		}
	}
}

// countRollouts counts the failed rollouts that are new in status.lastActions.
func (o *Objects) countRollouts(kind string, before, now Object) {
	was, ok := before.(rollingOut)
	is, also := now.(rollingOut)
	if !ok || !also {
		return
	}
	same := func(a common.Action) func(common.Action) bool {
		return func(b common.Action) bool {
			return a.Type == b.Type && a.Reason == b.Reason && a.Revision == b.Revision && a.Time.Equal(&b.Time)
		}
	}
	for _, a := range is.GetRolloutStatus().LastActions {
		if a.Type != common.ActionAllowEviction && !slices.ContainsFunc(was.GetRolloutStatus().LastActions, same(a)) {
			o.failed.WithLabelValues(kind, string(a.Type), known(a.Reason)).Inc()
		}
	}
}

// end forgets an object that no longer exists.
func (o *Objects) end(kind string, obj Object) {
	s := o.suspects[obj.GetUID()]
	delete(o.suspects, obj.GetUID())
	if !o.isActive() {
		return
	}
	took := time.Duration(0)
	if s != nil && !s.deleting.IsZero() {
		took = o.now().Sub(s.deleting)
	}
	o.gone.WithLabelValues(kind).Observe(took.Seconds())
}

// suspect updates what is remembered about an object until it is healthy.
func (o *Objects) suspect(kind string, before, now Object, initial bool) {
	uid, at := now.GetUID(), o.now()
	s := o.suspects[uid]
	if s == nil {
		s = &suspect{group: o.groupOf(kind, now), namespace: now.GetNamespace(), name: now.GetName()}
	}
	settled := isSettled(now)
	if isEdited(before, now, initial) {
		s.edited = at
	}
	if settled && !s.edited.IsZero() {
		if o.isActive() {
			o.ready.WithLabelValues(kind).Observe(at.Sub(s.edited).Seconds())
		}
		s.edited = time.Time{}
	}
	if !now.GetDeletionTimestamp().IsZero() && s.deleting.IsZero() {
		s.deleting = at
	}
	s.update(now, settled, at)
	s.lost = !settled && meta.IsStatusConditionFalse(now.GetStatus().Conditions, common.ConditionAvailable) &&
		(s.lost || before != nil && meta.IsStatusConditionTrue(before.GetStatus().Conditions, common.ConditionAvailable) || wasHealthy(now))
	o.countDeaths(kind, before, now, s, at)
	if settled && s.isHealthy() {
		delete(o.suspects, uid)
		return
	}
	o.suspects[uid] = s
}

// isSettled reports whether an object is ready, as of its current generation.
func isSettled(o Object) bool {
	ready := meta.FindStatusCondition(o.GetStatus().Conditions, common.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue &&
		ready.ObservedGeneration == o.GetGeneration() && o.GetStatus().ObservedGeneration == o.GetGeneration()
}

// isEdited reports whether the spec is new. initial reports that the object existed
// when the operator started.
func isEdited(before, now Object, initial bool) bool {
	if before == nil {
		return !initial || now.GetStatus().ObservedGeneration != now.GetGeneration()
	}
	return before.GetGeneration() != now.GetGeneration()
}

// update sets what follows from the current state of an object.
func (s *suspect) update(now Object, settled bool, at time.Time) {
	all := now.GetStatus().Conditions
	ready := meta.FindStatusCondition(all, common.ConditionReady)
	switch {
	case settled:
		s.notReady, s.reason = time.Time{}, ""
	case ready != nil && ready.Status != metav1.ConditionTrue:
		s.notReady, s.reason = ready.LastTransitionTime.Time, known(ready.Reason)
	case s.notReady.IsZero(): // not reconciled yet
		s.notReady, s.reason = at, other
	}
	s.deadline = defaultDeadline
	if r, ok := now.(rollingOut); ok {
		if spec := r.GetRollout(); spec != nil && spec.ProgressDeadlineSeconds != nil {
			s.deadline = time.Duration(*spec.ProgressDeadlineSeconds) * time.Second
		}
	}
	because := func(reason string) bool {
		return ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == reason
	}
	s.stalled = meta.IsStatusConditionTrue(all, common.ConditionStalled)
	s.held, s.rolled = because(common.ReasonRolloutHeld), because(common.ReasonRolledBack)
}

// wasHealthy reports whether a revision of an object was healthy, which is known even if
// this process did not observe it.
func wasHealthy(o Object) bool {
	r, ok := o.(rollingOut)
	return ok && r.GetRolloutStatus().Revisions != nil && r.GetRolloutStatus().Revisions.LastHealthy != 0
}

// isHealthy reports whether there is nothing to remember about an object that is
// settled.
func (s *suspect) isHealthy() bool {
	return s.edited.IsZero() && s.deleting.IsZero() && !s.stalled && !s.rolled && !s.held && len(s.deaths) == 0
}

// countDeaths counts the pods that replaced an earlier one, and the restarts of
// the container within a pod.
func (o *Objects) countDeaths(kind string, before, now Object, s *suspect, at time.Time) {
	was, ok := before.(immortal)
	is, also := now.(immortal)
	if !ok || !also {
		return
	}
	startsBefore, restartsBefore := was.GetStarts()
	starts, restarts := is.GetStarts()
	reborn := max(starts-max(startsBefore, 1), 0)
	restarted := max(restarts-restartsBefore, 0)
	if o.isActive() {
		o.rebirths.WithLabelValues(kind).Add(float64(reborn))
		o.restarts.WithLabelValues(kind).Add(float64(restarted))
	}
	for range min(reborn+restarted, often) {
		s.deaths = append(s.deaths, at)
	}
	if more := len(s.deaths) - often; more > 0 {
		s.deaths = slices.Delete(s.deaths, 0, more)
	}
}

// states returns the states that make an object abnormal, and since when it has
// been.
func (s *suspect) states(now time.Time) (all []string) {
	if s.stalled {
		all = append(all, stateStalled)
	}
	if s.rolled {
		all = append(all, stateRolledBack)
	}
	if s.held {
		all = append(all, stateHeld)
	}
	if s.lost && s.deleting.IsZero() {
		all = append(all, stateUnavailable)
	}
	if !s.notReady.IsZero() && now.Sub(s.notReady) > s.deadline && s.deleting.IsZero() {
		all = append(all, stateNotReady)
	}
	if len(s.deaths) >= often && now.Sub(s.deaths[0]) <= dyingPeriod {
		all = append(all, stateDying)
	}
	return all
}

// Describe implements prometheus.Collector.
func (o *Objects) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{o.objects, o.conditions, o.outdated, o.abnormalObjects, o.abnormal} {
		ch <- d
	}
	for _, c := range o.vectors() {
		c.Describe(ch)
	}
}

func (o *Objects) vectors() []prometheus.Collector {
	return []prometheus.Collector{o.transitions, o.failed, o.rebirths, o.restarts, o.ready, o.gone}
}

// Collect implements prometheus.Collector.
func (o *Objects) Collect(ch chan<- prometheus.Metric) {
	if !o.isActive() {
		return
	}
	for _, c := range o.vectors() {
		c.Collect(ch)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for g, n := range o.count {
		gauge(o.objects, float64(n), g.kind, g.namespace)
		gauge(o.outdated, float64(o.stale[g]), g.kind, g.namespace)
	}
	for k, n := range o.status {
		gauge(o.conditions, float64(n), k.kind, k.namespace, k.condition, k.status)
	}
	o.collectAbnormal(gauge)
}

func (o *Objects) collectAbnormal(gauge func(*prometheus.Desc, float64, ...string)) {
	now := o.now()
	type stateKey struct {
		group
		state string
	}
	type abnormal struct {
		*suspect
		states []string
		// rank is how many objects of the namespace have been abnormal for longer.
		rank int
	}
	counts := map[stateKey]int{}
	var all []abnormal
	for uid, s := range o.suspects {
		s.deaths = slices.DeleteFunc(s.deaths, func(at time.Time) bool { return now.Sub(at) > dyingPeriod })
		states := s.states(now)
		for _, state := range states {
			counts[stateKey{s.group, state}]++
		}
		if len(states) > 0 {
			all = append(all, abnormal{suspect: s, states: states})
		} else if s.edited.IsZero() && s.deleting.IsZero() && s.notReady.IsZero() && len(s.deaths) == 0 {
			delete(o.suspects, uid)
		}
	}
	for k, n := range counts {
		gauge(o.abnormalObjects, float64(n), k.kind, k.namespace, k.state)
	}
	slices.SortFunc(all, func(a, b abnormal) int {
		return cmp.Or(a.notReady.Compare(b.notReady), cmp.Compare(a.kind, b.kind), cmp.Compare(a.namespace, b.namespace), cmp.Compare(a.name, b.name))
	})
	ranks := map[string]int{}
	for i := range all {
		all[i].rank = ranks[all[i].namespace]
		ranks[all[i].namespace]++
	}
	slices.SortStableFunc(all, func(a, b abnormal) int { return cmp.Compare(a.rank, b.rank) })
	for _, a := range all[:min(len(all), MaxAbnormal)] {
		for _, state := range a.states {
			gauge(o.abnormal, 1, a.kind, a.namespace, a.name, state, cmp.Or(a.reason, other))
		}
	}
}
