//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

// Disturbances of an application must not be noticed by its clients. Each case has
// a managed application and, as the control, a plain Deployment and Service of the
// same image, under the same load and disturbed in the same way at the same time.
// The managed application must not fail a single request. The control has to fail
// some, or else the case was too gentle to prove anything.

const (
	firstImage, secondImage, thirdImage = "nginx:1.27.3", "nginx:1.27.4", "nginx:1.23.1"
	// longest is the maximum duration of a load.
	longest = 6 * time.Minute
	// attempts is how often a case is repeated if the control fails no request, or if
	// the machine was too busy.
	attempts = 3
	// calmAfter is the time after a case until it can no longer make a request
	// fail.
	calmAfter = 5 * time.Second
	// rehearsal is how long a load runs before anything is disturbed, to find out
	// whether the machine carries it.
	rehearsal = 3 * time.Second
	// leastRate is the lowest rate, in requests per second, that a case is played with.
	leastRate = 20
	// mostLate is how late requests are sent by a load that the machine carries: 329 ms
	// in a whole benchmark on two cores.
	mostLate = 500 * time.Millisecond
)

// slow are the failures of requests that may have waited for a processor.
var slow = []load.Class{load.Timeout, load.ConnectTimeout, load.Unsent}

// draining is how long a pod keeps serving after its deletion, by default. If a load sends
// nothing for longer, no response tells it to close its idle connections, and the next request
// may meet the end of the server.
const draining = 5 * time.Second

// dose is the amount of load.
type dose struct {
	rate  int           // of one load, in requests per second
	least int           // of one load, in requests
	limit time.Duration // of one request; longer is a failure
	ways  []way
	// compares reports that the plain Deployment has to fail requests. On a busy machine the
	// load may arrive at moments at which it does not.
	compares bool
}

var (
	// benchDose is 400 requests per second, and 20,000 in total, for each
	// application.
	benchDose = dose{rate: 100, least: 5000, limit: load.Limit, ways: allWays, compares: true}
	// sliceDose only shows that none is dropped: on a machine that other processes keep busy, a request can
	// wait longer than load.Limit for a processor. One that was dropped is refused,
	// reset, or never answered.
	sliceDose = dose{rate: 25, least: 250, limit: 30 * time.Second, ways: allWays}
)

// rolloutCase is something that happens to an application.
type rolloutCase struct {
	name  string
	kinds []kind
	// needs are the fields of the managed kind that the case requires.
	needs []string
	// metrics reports whether the case requires metrics.k8s.io.
	metrics bool
	// fields are added to the spec of the managed application; unset omits its
	// replicas.
	fields map[string]any
	unset  bool
	// mounts, requests and extra are added to the plain Deployment.
	mounts   []mount
	requests map[string]string
	extra    []any
	// prepare creates the objects that both applications refer to.
	prepare func(*scene) error
	// disturb makes it happen, and returns when both applications have recovered.
	disturb func(*scene) error
	// failure says that the change cannot serve.
	failure bool
	// late delays the case until the end of the load.
	late bool
	// allowed are failures of the managed application that do not count: requests
	// that are not accepted after the application was deleted.
	allowed []load.Class
	// handshakes is how many TLS handshakes of the managed application may fail,
	// which is a documented limitation.
	handshakes int
	// controlServes is the reason why the control need not fail, if any.
	controlServes string
	// quick cases run together with all other tests.
	quick bool
}

var bothKinds = []kind{webServerKind, demoApplicationKind}

func rolloutCases() []rolloutCase {
	bad := failures()
	for i := range bad {
		bad[i].failure = true
	}
	return slices.Concat(changes(), disturbances(), bad)
}

// changes are the cases that users cause.
func changes() []rolloutCase {
	return []rolloutCase{
		{
			name: "image changed twice", kinds: bothKinds, quick: true,
			disturb: func(s *scene) error {
				return s.both(func(x target) error {
					for _, image := range []string{secondImage, thirdImage} {
						if err := errors.Join(s.setImage(x, image), s.settled(x)); err != nil {
							return err
						}
					}
					return nil
				})
			},
		},
		configChanged(), configMapChanged(), contentChanged(), environmentChanged(), environmentOfConfigMapChanged(),
		certificateRenewed(), certificateAndKeyRenewed(),
		{
			name: "scaled 3 to 6 to 2", kinds: bothKinds,
			disturb: func(s *scene) error {
				return s.both(func(x target) error {
					for _, n := range []int{6, 2} {
						if err := errors.Join(s.scale(x, n), s.settled(x)); err != nil {
							return err
						}
					}
					return nil
				})
			},
		},
		autoscaled(),
		{
			name: "restarted", kinds: bothKinds, needs: []string{"rollout.restartedAt"},
			disturb: func(s *scene) error {
				return s.both(func(x target) error { return errors.Join(s.restart(x), s.settled(x)) })
			},
		},
		{
			// The Services are deleted together with the applications, so that
			// later requests are refused. Accepted requests have to be answered.
			name: "deleted", kinds: bothKinds, late: true, allowed: load.NotAccepted,
			disturb: func(s *scene) error {
				return s.both(func(x target) error {
					_, err := s.kubectl("delete", "--wait=false", x.object)
					if !x.ours {
						_, more := s.kubectl("delete", "--wait=false", "service/"+x.service)
						err = errors.Join(err, more)
					}
					return errors.Join(err, poll(s.ctx, "the pods to go", func() error {
						out, err := s.kubectl("get", "pods", "-l", x.pods, "-o", "name")
						if err == nil && out != "" {
							err = errors.New(out)
						}
						return err
					}))
				})
			},
		},
	}
}

// disturbances are the cases that the cluster causes.
func disturbances() []rolloutCase {
	return []rolloutCase{
		{name: "pods evicted one by one", kinds: bothKinds, disturb: evict},
		{name: "node drained", kinds: bothKinds, disturb: drain},
		{
			name: "operator killed mid-rollout", kinds: bothKinds,
			disturb: func(s *scene) error { return s.changeWhile(killLeader) },
		},
		{
			name: "operator replaced mid-rollout", kinds: bothKinds,
			disturb: func(s *scene) error { return s.changeWhile(replaceOperator) },
		},
	}
}

// changeWhile changes the image of both applications, and calls do once the first
// new pod of the managed one exists.
func (s *scene) changeWhile(do func(*scene) error) error {
	if err := s.both(func(x target) error { return s.setImage(x, secondImage) }); err != nil {
		return err
	}
	err := poll(s.ctx, "the first new pod", func() error {
		out, err := s.kubectl("get", "pods", "-l", s.ours.pods, "-o", "jsonpath={..spec.containers[*].image}")
		if err == nil && !strings.Contains(out, secondImage) {
			err = errors.New(out)
		}
		return err
	})
	return errors.Join(err, do(s), s.both(s.settled))
}

func killLeader(s *scene) error {
	holder, err := run(s.ctx, "", "kubectl", "-n", operatorNamespace, "get", "lease", operatorName, "-o", "jsonpath={.spec.holderIdentity}")
	if err != nil {
		return err
	}
	pod, _, _ := strings.Cut(holder, "_")
	_, err = run(s.ctx, "", "kubectl", "-n", operatorNamespace, "delete", "pod", pod, "--grace-period=0", "--force")
	return err
}

func replaceOperator(s *scene) error {
	for _, args := range [][]string{{"rollout", "restart"}, {"rollout", "status", "--timeout=" + patience.String()}} {
		args = append(append([]string{"-n", operatorNamespace}, args...), "deployment/"+operatorName)
		if _, err := run(s.ctx, "", "kubectl", args...); err != nil {
			return err
		}
	}
	return nil
}

// evict evicts the pods of both applications one after the other, like kubectl
// drain: through the eviction API, and repeatedly while a PodDisruptionBudget
// forbids it.
func evict(s *scene) error {
	return s.both(func(x target) error {
		out, err := s.kubectl("get", "pods", "-l", x.pods, "-o", "jsonpath={.items[*].metadata.name}")
		if err != nil {
			return err
		}
		for pod := range strings.FieldsSeq(out) {
			eviction := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, s.ns)
			if err := poll(s.ctx, "the eviction of "+pod, func() error {
				_, err := run(s.ctx, eviction, "kubectl", "create", "--raw", "/api/v1/namespaces/"+s.ns+"/pods/"+pod+"/eviction", "-f", "-")
				return err
			}); err != nil {
				return err
			}
			if err := s.settled(x); err != nil {
				return err
			}
		}
		return nil
	})
}

// drain drains one of the nodes, but not the one that the load is sent through.
func drain(s *scene) error {
	nodes := strings.Fields(kubectl(s.T, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
	if len(nodes) < 2 {
		return errors.New("a drain needs two nodes")
	}
	node := nodes[1]
	s.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := run(ctx, "", "kubectl", "uncordon", node); err != nil {
			s.Error(err)
		}
		// The operator may have been on that node, and the next test needs it.
		if _, err := run(ctx, "", "kubectl", "-n", operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String()); err != nil {
			s.Error(err)
		}
	})
	_, err := run(s.ctx, "", "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=3m")
	return errors.Join(err, s.both(s.settled))
}

// has reports whether the installed CRD has a field.
func (k kind) has(t *testing.T, field string) bool {
	t.Helper()
	_, err := run(t.Context(), "", "kubectl", "explain", k.resource+".spec."+field)
	return err == nil
}

// skip returns the reason why a case cannot run here, or "" if it can.
func (c rolloutCase) skip(t *testing.T, k kind) string {
	t.Helper()
	for _, field := range c.needs {
		if !k.has(t, field) {
			return fmt.Sprintf("%s has no spec.%s", k.Kind, field)
		}
	}
	if c.metrics {
		if _, err := run(t.Context(), "", "kubectl", "get", "--raw", "/apis/metrics.k8s.io/v1beta1/nodes"); err != nil {
			return "the cluster measures no pods: there is no metrics.k8s.io"
		}
	}
	return ""
}

// play repeats a case until the machine was not too busy and, if the dose compares, the control
// fails a request, and returns the results of the last repetition.
func (c rolloutCase) play(t *testing.T, k kind, d dose) []measurement {
	var rows []measurement
	var vain strings.Builder // the results that show nothing
	for n := range attempts {
		ok := t.Run(fmt.Sprintf("attempt %d", n+1), func(t *testing.T) { rows = c.once(t, k, d) })
		overloaded := slices.ContainsFunc(rows, measurement.overloaded)
		if !ok || rows == nil || !overloaded && (!d.compares || c.controlServes != "" || failed(rows, func(f measurement) int { return f.control.Failed(c.allowed...) }) > 0) {
			return rows
		}
		why := "the plain Deployment did not fail a request"
		if overloaded {
			why = "the machine was too busy"
			d.rate = max(d.rate/2, leastRate)
		}
		fmt.Fprintf(&vain, "\nattempt %d: %s", n+1, why)
		for _, r := range rows {
			fmt.Fprintf(&vain, "\n  %v", r)
		}
	}
	t.Errorf("%d attempts show nothing:%s", attempts, &vain)
	return rows
}

// overloaded reports whether requests failed only because they, and those to the
// control at the same time, waited for a processor: the load could not send them in
// time either. Then nothing was measured. A reset is excused only if, of both, one request of
// a hundred took longer than a pod drains. No other kind of failure is excused.
func (m measurement) overloaded() bool {
	excused, waited := slow, m.limit/2
	if m.ours.Late > draining { // then what counts is the time of draining
		excused, waited = append(slices.Clip(slow), load.Retried), draining
	}
	if m.ours.P99 > draining && m.control.P99 > draining {
		excused = append(slices.Clip(slow), load.Retried, load.Reset)
	}
	return m.ours.Failed() > 0 && m.ours.Failed(excused...) == 0 && m.ours.Late > mostLate &&
		(m.control.Failures[load.Timeout]+m.control.Failures[load.ConnectTimeout] > 0 || m.control.Max > waited)
}

func failed(rows []measurement, of func(measurement) int) int {
	n := 0
	for _, r := range rows {
		n += of(r)
	}
	return n
}

// once runs a case once.
func (c rolloutCase) once(t *testing.T, k kind, d dose) []measurement {
	s := stage(t, k, c)
	d, err := s.begin(d)
	if err != nil {
		t.Fatal(err)
	}
	if c.late {
		if err := s.more(d.least - 2*d.rate); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	err = errors.Join(c.disturb(s), s.gone())
	took := time.Since(start)
	calm := time.Since(s.began) + calmAfter
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
	} else if err := s.more(d.rate); err != nil {
		t.Error(err)
	}
	rows := s.end(c, d, took)
	for i := range rows {
		if !c.failure && len(c.allowed) == 0 { // otherwise the control does not recover
			rows[i].calm = calm
		}
	}
	for _, r := range rows {
		t.Log(r)
		if n := r.ours.Failed(c.allowed...) - min(r.ours.Failures[load.Handshake], c.handshakes); n > 0 && r.overloaded() {
			t.Logf("%d requests failed, because the machine was too busy: the load was late by %s", n, r.ours.Late)
		} else if n > 0 {
			t.Errorf("%s, %s through %s, keep-alive %t: %d requests failed", c.name, k.Kind, r.way, r.way.keepAlive, n)
		}
		if r.ours.Requests < d.least {
			t.Errorf("only %d requests were sent", r.ours.Requests)
		}
	}
	return rows
}

// end ends the loads.
func (s *scene) end(c rolloutCase, d dose, took time.Duration) []measurement {
	for _, p := range s.loads {
		p.ours.End()
		p.control.End()
	}
	var rows []measurement
	for _, p := range s.loads {
		rows = append(rows, measurement{
			name: c.name, kind: s.kind.Kind, way: p.way, ours: p.ours.Wait(), control: p.control.Wait(),
			rate: d.rate, limit: d.limit, took: took, allowed: c.allowed, note: c.controlServes,
		})
	}
	return rows
}

// TestRollouts_FailNoRequest runs the cases that run together with all other tests, at
// the same time: they mostly wait for pods.
func TestRollouts_FailNoRequest(t *testing.T) {
	for _, c := range rolloutCases() {
		if !c.quick {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			k := c.kinds[0]
			if why := c.skip(t, k); why != "" {
				t.Skip(why)
			}
			c.play(t, k, sliceDose)
		})
	}
}

// TestBenchRollouts runs all cases with all kinds, and writes the results into
// docs/contributing/benchmarks.md.
func TestBenchRollouts(t *testing.T) {
	if os.Getenv("BENCH") == "" {
		t.Skip("takes half an hour; BENCH=1, or make bench-rollouts, runs it")
	}
	var report report
	all, played := 0, 0
	for _, c := range rolloutCases() {
		for _, k := range c.kinds {
			all++
			t.Run(c.name+"/"+k.Kind, func(t *testing.T) {
				played++
				if why := c.skip(t, k); why != "" {
					report.skipped = append(report.skipped, fmt.Sprintf("%s, %s: %s", c.name, k.Kind, why))
					t.Skip(why)
				}
				report.rows = append(report.rows, c.play(t, k, benchDose)...)
			})
		}
	}
	if played < all {
		t.Logf("%d of %d were chosen: %s stays as it is", played, all, benchmarks)
		return
	}
	if err := report.write(t); err != nil {
		t.Error(err)
	}
}

func TestMeasurement_Overloaded(t *testing.T) {
	type failures = map[load.Class]int
	for name, tc := range map[string]struct {
		ours, control failures
		late, slowest time.Duration // the slowest request to the control
		limit         time.Duration // load.Limit if it is 0
		want          bool
	}{
		"nothing failed":                     {late: time.Second, control: failures{load.Timeout: 1}},
		"both waited":                        {ours: failures{load.Timeout: 2, load.Unsent: 1}, control: failures{load.ConnectTimeout: 1}, late: time.Second, want: true},
		"the control almost waited too long": {ours: failures{load.Timeout: 1}, late: 800 * time.Millisecond, slowest: load.Limit - 50*time.Millisecond, want: true},
		"the control was quick":              {ours: failures{load.Timeout: 1}, late: 800 * time.Millisecond, slowest: 900 * time.Millisecond},
		"the load was in time":               {ours: failures{load.Timeout: 2}, control: failures{load.Timeout: 1}, late: 300 * time.Millisecond},
		"only managed requests waited":       {ours: failures{load.Timeout: 2}, control: failures{load.Connect: 9}, late: time.Second},
		"connections were idle for too long": {ours: failures{load.Retried: 1}, control: failures{load.Retried: 9}, late: 6 * time.Second, slowest: 9 * time.Second, want: true},
		"the same with a longer limit":       {ours: failures{load.Retried: 9}, control: failures{load.Retried: 27, load.Connect: 6}, late: 7 * time.Second, slowest: 10 * time.Second, limit: 30 * time.Second, want: true},
		"a connection was closed under load": {ours: failures{load.Retried: 1}, control: failures{load.Timeout: 9}, late: 4 * time.Second},
		"a request was refused":              {ours: failures{load.Timeout: 2, load.Connect: 1}, control: failures{load.Timeout: 1}, late: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			m := measurement{limit: cmp.Or(tc.limit, load.Limit), ours: load.Result{Failures: tc.ours, Late: tc.late}, control: load.Result{Failures: tc.control, Max: tc.slowest}}
			if got := m.overloaded(); got != tc.want {
				t.Errorf("overloaded is %t, want %t", got, tc.want)
			}
		})
	}
}
