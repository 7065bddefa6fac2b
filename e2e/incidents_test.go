//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
)

// incident is something that goes wrong, and the alert about it.
type incident struct {
	name  string
	alert string // "" if none may fire
	// ofObject reports whether the alert is about an object of the namespace.
	ofObject bool
	prepare  func(*incidentRun) error
	cause    func(*incidentRun) error
	undo     func(*incidentRun) error
	// again is repeated while the cause lasts.
	again func(*incidentRun) error
	// runbook replaces words in the commands of the runbook, and shows what they must
	// print, as regular expressions.
	runbook []string
	shows   []string
	// explained are other alerts that may fire, with the reason.
	explained map[string]string
	note      string
}

// incidentRun is a run of an incident, and its result.
type incidentRun struct {
	incident
	prometheus
	ns                string
	fired, resolved   time.Duration
	others, diagnosis []string
	measured          string
}

func (r *incidentRun) kubectl(args ...string) error {
	_, err := run(r.Context(), "", "kubectl", append([]string{"-n", r.ns}, args...)...)
	return err
}

func (r *incidentRun) operator(args ...string) error {
	_, err := run(r.Context(), "", "kubectl", append([]string{"-n", operatorNamespace}, args...)...)
	return err
}

func (r *incidentRun) apply(yaml string) error {
	_, err := run(r.Context(), yaml, "kubectl", "-n", r.ns, "apply", "-f", "-")
	return err
}

func (r *incidentRun) ready(objects ...string) error {
	return r.kubectl(append(append([]string{"wait", "--for=condition=Ready"}, objects...), longEnough)...)
}

// rollout changes the rollout of the WebServer shop. Its deadline is shortened only when
// it is Ready, so that a slow start of its first pods is no failed rollout.
func (r *incidentRun) rollout(yaml string) error {
	return r.kubectl("patch", "webserver", "shop", "--type=merge", "-p", `{"spec":{"rollout":`+yaml+`}}`)
}

func (r *incidentRun) helm(set ...string) error {
	args := []string{"upgrade", operatorName, "../charts/platform-operator", "-n", operatorNamespace, "--reuse-values", "--wait", longEnough, "--hide-notes"}
	for _, s := range set {
		args = append(args, "--set", s)
	}
	_, err := helm(r.Context(), "", args...)
	return err
}

const (
	// The limits are for errors, and far above what a slow machine needs.
	longEnough  = "--timeout=10m"
	firingLimit = 10 * time.Minute
	fleetSize   = 200
)

// incidentsOfObjects concern one namespace each, and happen at the same time.
func incidentsOfObjects() []incident {
	shop := func(spec string) func(*incidentRun) error {
		return func(r *incidentRun) error {
			return errors.Join(r.apply(webServerKind.manifest("shop", spec)), r.ready("webserver/shop"))
		}
	}
	return []incident{
		{
			name: "bad image on one object", alert: "PlatformOperatorRolloutRolledBack", ofObject: true,
			prepare: shop(`{image: "nginx:1.27.3", replicas: 2, service: {type: ClusterIP}}`),
			cause: func(r *incidentRun) error {
				return r.kubectl("patch", "webserver", "shop", "--type=merge", "-p", `{"spec":{"image":"nginx:crash","rollout":{"progressDeadlineSeconds":30}}}`)
			},
			undo: func(r *incidentRun) error {
				return r.kubectl("patch", "webserver", "shop", "--type=merge", "-p", `{"spec":{"image":"nginx:1.27.3","rollout":null}}`)
			},
			shows: []string{"this image always fails", "Rollback"},
		},
		{
			name: "crash loop", alert: "PlatformOperatorContainerDying", ofObject: true,
			prepare: func(r *incidentRun) error {
				return errors.Join(r.apply(immortalKind.manifest("worker", `{image: "nginx:1.27.3"}`)), r.ready("immortal/worker"))
			},
			cause: func(r *incidentRun) error {
				return r.kubectl("patch", "immortal", "worker", "--type=merge", "-p", `{"spec":{"image":"nginx:crash"}}`)
			},
			undo:  func(r *incidentRun) error { return r.kubectl("delete", "immortal", "worker") },
			shows: []string{"this image always fails|The container exits with code"},
			note:  "the alert lasts until the oldest of three ends of the container is an hour ago; here the object is deleted",
			explained: map[string]string{
				"PlatformOperatorObjectStalled":  "the object cannot become Ready",
				"PlatformOperatorObjectNotReady": "the object is not Ready",
			},
		},
		{
			name: "quota exhausted", alert: "PlatformOperatorObjectStalled", ofObject: true,
			// Until the quota has a status, the API server gives another reason.
			prepare: func(r *incidentRun) error {
				return errors.Join(r.kubectl("create", "quota", "small", "--hard=pods=0"),
					r.kubectl("wait", "--for=jsonpath={.status.hard.pods}=0", "quota/small", longEnough))
			},
			cause: func(r *incidentRun) error { return r.apply(immortalKind.manifest("shop", `{image: "nginx:1.27.3"}`)) },
			undo: func(r *incidentRun) error {
				return r.kubectl("patch", "quota", "small", "--type=merge", "-p", `{"spec":{"hard":{"pods":"9"}}}`)
			},
			runbook: []string{"webserver/shop", "immortalcontainer/shop"},
			shows:   []string{"exceeded quota: small"},
		},
		{
			name: "a child deleted in a loop (Deployment)", alert: "PlatformOperatorObjectUnavailable", ofObject: true,
			prepare: shop(`{image: "nginx:1.27.3", replicas: 2, service: {type: ClusterIP}}`),
			// The pods are not available for so long that repeating it may be slow.
			cause: func(r *incidentRun) error {
				return errors.Join(r.rollout(`{"progressDeadlineSeconds":30,"minReadySeconds":25}`), r.kubectl("delete", "deployment", "shop"))
			},
			again: func(r *incidentRun) error {
				return r.kubectl("delete", "deployment,replicasets", "--all", "--ignore-not-found", "--wait=false")
			},
			undo:  func(r *incidentRun) error { return r.rollout("null") },
			shows: []string{`(?i)(unavailable|progress|not ready|available)`},
		},
		{
			name: "a child deleted in a loop (pod)", alert: "PlatformOperatorContainerDying", ofObject: true,
			prepare: func(r *incidentRun) error {
				return errors.Join(r.apply(immortalKind.manifest("worker", `{image: "nginx:1.27.3"}`)), r.ready("immortal/worker"))
			},
			cause: func(r *incidentRun) error { return r.kubectl("delete", "pod", "worker-immortalpod") },
			again: func(r *incidentRun) error {
				return errors.Join(r.ready("immortal/worker"), r.kubectl("delete", "pod", "worker-immortalpod", "--ignore-not-found"))
			},
			undo:  func(r *incidentRun) error { return r.kubectl("delete", "immortal", "worker") },
			shows: []string{`Starts: +([4-9]|\d\d) of pods`},
			note:  "as for the crash loop",
		},
	}
}

// incidentsOfOperator concern the whole cluster, and happen one after the other.
func incidentsOfOperator() []incident {
	const certificate = operatorName + "-webhook-cert"
	fleet := func(r *incidentRun, version string) error {
		var all strings.Builder
		for i := range fleetSize {
			all.WriteString(webServerKind.manifest(fmt.Sprintf("web-%d", i), `{image: "nginx:`+version+`", replicas: 0, service: {type: ClusterIP}}`))
		}
		return r.apply(all.String())
	}
	// One request is more than 1% of the few that there are.
	failover := map[string]string{
		"PlatformOperatorNoLeader":     "the Lease of the lost leader must expire first",
		"PlatformOperatorQueueStarved": "a request waits for the start of the next leader",
	}
	return []incident{
		{
			name: "webhook blocked", alert: "PlatformOperatorWebhookUnreachable",
			// Connections that the API server has are not affected, so the pods are
			// replaced, too.
			cause: func(r *incidentRun) error {
				return errors.Join(
					r.operator("patch", "service", operatorName+"-webhook", "--type=merge", "-p", `{"spec":{"selector":{"blocked":"true"}}}`),
					r.operator("rollout", "restart", "deployment/"+operatorName),
					r.operator("rollout", "status", "deployment/"+operatorName, longEnough),
				)
			},
			explained: failover,
			again: func(r *incidentRun) error {
				if err := admission(r.Context()); err == nil {
					return errors.New("the webhook answers")
				}
				return nil
			},
			undo: func(r *incidentRun) error {
				return r.operator("patch", "service", operatorName+"-webhook", "--type=merge", "-p", `{"spec":{"selector":{"blocked":null}}}`)
			},
			shows: []string{`blocked`, `<none>|<unset>|endpointslice`},
		},
		{
			name: "certificate about to expire", alert: "PlatformOperatorCertificateNotRenewed",
			// The operator issues a certificate that expires in less than a tenth of its lifetime,
			// which begins a day before.
			cause: func(r *incidentRun) error {
				return errors.Join(
					r.operator("scale", "deployment", operatorName, "--replicas=0"),
					r.operator("wait", "--for=delete", "pods", "-l", "app.kubernetes.io/name=platform-operator", longEnough),
					r.operator("patch", "secret", certificate, "--type=json", "-p", `[{"op":"remove","path":"/data/tls.crt"},{"op":"remove","path":"/data/tls.key"}]`),
					r.helm("webhooks.certificates.validity=2h", "webhooks.certificates.renewBefore=1h"),
					r.operator("scale", "deployment", operatorName, "--replicas=2"),
				)
			},
			undo: func(r *incidentRun) error {
				return r.helm("webhooks.certificates.validity=2160h", "webhooks.certificates.renewBefore=720h")
			},
			shows: []string{"notAfter=", "yes"},
			explained: map[string]string{
				"PlatformOperatorDown":         "the cause takes the operator down for a moment",
				"PlatformOperatorNoLeader":     failover["PlatformOperatorNoLeader"],
				"PlatformOperatorQueueStarved": failover["PlatformOperatorQueueStarved"],
			},
		},
		{
			name: "operator killed", alert: "PlatformOperatorDown",
			cause: func(r *incidentRun) error {
				return errors.Join(r.operator("scale", "deployment", operatorName, "--replicas=0"),
					r.operator("delete", "pods", "-l", "app.kubernetes.io/name=platform-operator", "--grace-period=0", "--force"))
			},
			undo: func(r *incidentRun) error {
				return errors.Join(r.operator("scale", "deployment", operatorName, "--replicas=2"), r.operator("rollout", "status", "deployment/"+operatorName, longEnough))
			},
			shows:     []string{`platform-operator +0/0`},
			explained: failover,
		},
		{
			name: "node lost", alert: "PlatformOperatorObjectUnavailable", ofObject: true,
			// The operator runs on the other node, so that the object only is concerned.
			prepare: func(r *incidentRun) error {
				return errors.Join(
					r.kubectl("cordon", "node2"),
					r.operator("rollout", "restart", "deployment/"+operatorName),
					r.operator("rollout", "status", "deployment/"+operatorName, longEnough),
					r.kubectl("uncordon", "node2"),
					r.apply(webServerKind.manifest("shop",
						`{image: "nginx:1.27.3", replicas: 2, service: {type: ClusterIP}, pod: {nodeSelector: {kubernetes.io/hostname: node2}}}`)),
					r.ready("webserver/shop"),
					r.rollout(`{"progressDeadlineSeconds":30}`),
					r.ready("webserver/shop"))
			},
			cause: func(r *incidentRun) error {
				_, err := run(r.Context(), "", "../bin/cluster", "kill", "node2")
				return err
			},
			undo: func(r *incidentRun) error {
				_, err := run(r.Context(), "", "../bin/cluster", "start", "node2")
				return err
			},
			shows: []string{`node2 +NotReady`},
		},
		{
			name:    fmt.Sprintf("%d objects edited at once", fleetSize),
			prepare: func(r *incidentRun) error { return errors.Join(fleet(r, "1.27.3"), r.ready("webservers", "--all")) },
			cause: func(r *incidentRun) error {
				if err := fleet(r, "1.27.4"); err != nil {
					return err
				}
				edited := time.Now()
				if err := r.ready("webservers", "--all"); err != nil {
					return err
				}
				wait, err := r.query(`histogram_quantile(0.99, sum by (le) (rate(workqueue_queue_duration_seconds_bucket{job="` + metricsJob + `", controller="webserver"}[2m])))`)
				if err == nil && len(wait) == 1 {
					r.measured = fmt.Sprintf("all Ready %s after the last edit; 99%% waited at most %.3ss in the queue", time.Since(edited).Round(100*time.Millisecond), wait[0].Value[1])
				}
				return err
			},
			undo: func(r *incidentRun) error { return r.kubectl("delete", "webservers", "--all") },
			explained: map[string]string{
				"PlatformOperatorQueueStarved": "the last 5 minutes contain the burst for longer than the shortened duration, but not for the 10 minutes of the chart",
			},
		},
	}
}

// run lets an incident happen, and reports all differences from what is expected.
func (r *incidentRun) run() {
	t := r.T
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %s: %v", r.name, what, err)
		}
	}
	if r.prepare != nil {
		check("preparing", r.prepare(r))
	}
	start := time.Now()
	check("causing it", r.cause(r))
	stop := r.repeat()
	if r.alert == "" {
		// The longest duration of the shortened rules, and two evaluations.
		select {
		case <-t.Context().Done():
		case <-time.After(longestFor + 10*time.Second):
		}
	} else {
		var err error
		ns := ""
		if r.ofObject {
			ns = r.ns
		}
		r.fired, err = r.fires(true, r.alert, ns, start, firingLimit)
		check("the alert must fire", err)
		out, err := runbook(t.Context(), r.alert, append(r.runbook, "team-a", r.ns)...)
		check("the runbook", err)
		for _, want := range r.shows {
			found := regexp.MustCompile(want).FindString(out)
			if found == "" {
				t.Errorf("%s: the commands of the runbook do not show %q:\n%s", r.name, want, out)
			}
			r.diagnosis = append(r.diagnosis, strings.TrimSpace(strings.ReplaceAll(found, "\n", " ")))
		}
		t.Logf("%s: the runbook:\n%s", r.name, out)
		stop()
		undone := time.Now()
		check("undoing it", r.undo(r))
		r.resolved, err = r.fires(false, r.alert, ns, undone, firingLimit)
		check("the alert must be resolved", err)
	}
	stop()
	window := time.Since(start)
	if r.alert == "" {
		check("undoing it", r.undo(r))
	}
	r.findOthers(window)
	t.Logf("%s: %s after %s, resolved after %s; others %v", r.name, r.alert, r.fired, r.resolved, r.others)
}

// repeat repeats the cause until the returned function is called.
func (r *incidentRun) repeat() (stop func()) {
	if r.again == nil {
		return func() {}
	}
	done := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-done:
				return
			case <-time.After(2 * time.Second):
				_ = r.again(r) // what it changes may be absent for a moment
			}
		}
	})
	return sync.OnceFunc(func() { close(done); wait.Wait() })
}

// findOthers finds the other alerts that have fired meanwhile: for an incident of an
// object, about its namespace, and otherwise, about no object or any object.
func (r *incidentRun) findOthers(window time.Duration) {
	matcher := ""
	if r.ofObject {
		matcher = `, namespace="` + r.ns + `"`
	}
	all, err := r.query(fmt.Sprintf(`count by (alertname) (last_over_time(ALERTS{alertname=~"PlatformOperator.*", alertstate="firing"%s}[%ds]))`, matcher, int(window.Seconds())))
	if err != nil {
		r.Errorf("%s: %v", r.name, err)
	}
	for _, s := range all {
		name := s.Metric["alertname"]
		if name == r.alert {
			continue
		}
		why := r.explained[name]
		if why == "" {
			r.Errorf("%s: %s has fired, too", r.name, name)
			why = "unexpected"
		}
		r.others = append(r.others, name+": "+why)
	}
	slices.Sort(r.others)
}

// The durations of alerts are shortened to a tenth, within these limits.
const (
	shortestFor, longestFor = 30 * time.Second, time.Minute
	rulesOfCampaign         = "campaign"
	// shortWindow replaces the 15 minutes for which a rejected request keeps an alert firing, which is more than firingLimit.
	shortWindow = "2m"
)

// shorten replaces the PrometheusRule of the chart by one with shorter durations, and
// returns the durations by the name of the alert. The expressions are the same, except for shortWindow.
func shorten(t *testing.T) map[string]time.Duration {
	t.Helper()
	var rule struct {
		APIVersion string         `json:"apiVersion"`
		Kind       string         `json:"kind"`
		Metadata   map[string]any `json:"metadata"`
		Spec       struct {
			Groups []struct {
				Name  string           `json:"name"`
				Rules []map[string]any `json:"rules"`
			} `json:"groups"`
		} `json:"spec"`
	}
	ofChart := kubectl(t, "-n", operatorNamespace, "get", "prometheusrule", operatorName, "-o", "json")
	if err := json.Unmarshal([]byte(ofChart), &rule); err != nil {
		t.Fatal(err)
	}
	durations := map[string]time.Duration{}
	for _, g := range rule.Spec.Groups {
		for _, r := range g.Rules {
			if expr, _ := r["expr"].(string); strings.Contains(expr, "apiserver_admission_webhook_rejection_count") {
				r["expr"] = strings.NewReplacer("[15m]", "["+shortWindow+"]", "offset 15m", "offset "+shortWindow).Replace(expr)
			}
			text, ok := r["for"].(string)
			if !ok {
				continue
			}
			d, err := time.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			if d > 0 {
				d = min(max(d/10, shortestFor), longestFor)
			}
			name, _ := r["alert"].(string)
			r["for"], durations[name] = d.String(), d
			if d == time.Minute {
				r["for"] = "1m"
			}
		}
	}
	rule.Metadata = map[string]any{"name": rulesOfCampaign, "namespace": "monitoring"}
	raw, err := json.Marshal(rule)
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t, string(raw)); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "-n", operatorNamespace, "delete", "prometheusrule", operatorName)
	t.Cleanup(func() {
		var rule unstructured.Unstructured
		err := rule.UnmarshalJSON([]byte(ofChart))
		unstructured.RemoveNestedField(rule.Object, "metadata", "resourceVersion")
		unstructured.RemoveNestedField(rule.Object, "metadata", "uid")
		raw, encoding := rule.MarshalJSON()
		ctx := context.WithoutCancel(t.Context())
		_, applying := run(ctx, string(raw), "kubectl", "apply", "-f", "-")
		_, deleting := run(ctx, "", "kubectl", "-n", "monitoring", "delete", "prometheusrule", rulesOfCampaign)
		if err := errors.Join(err, encoding, applying, deleting); err != nil {
			t.Errorf("restoring the rules of the chart: %v", err)
		}
	})
	return durations
}

// TestCampaignIncidents lets incidents happen, and writes docs/contributing/incidents.md if all of
// them were noticed as expected.
func TestCampaignIncidents(t *testing.T) {
	campaign(t, "campaign-incident")
	only := regexp.MustCompile(os.Getenv("INCIDENTS"))
	p := newPrometheus(t)
	durations := shorten(t)
	p.install()
	p.targetsUp()
	leads(t)

	var runs []*incidentRun
	start := func(t *testing.T, i incident) *incidentRun {
		r := &incidentRun{incident: i, prometheus: prometheus{t}, ns: namespace(t)}
		runs = append(runs, r)
		return r
	}
	for _, i := range incidentsOfOperator() {
		if !only.MatchString(i.name) {
			continue
		}
		t.Run(i.name, func(t *testing.T) { start(t, i).run() })
	}
	t.Run("objects", func(t *testing.T) {
		leads(t)
		var lock sync.Mutex
		for _, i := range incidentsOfObjects() {
			if !only.MatchString(i.name) {
				continue
			}
			t.Run(i.name, func(t *testing.T) {
				t.Parallel()
				lock.Lock()
				r := start(t, i)
				lock.Unlock()
				r.run()
			})
		}
	})
	if os.Getenv("INCIDENTS") != "" || t.Failed() {
		return
	}
	if err := writeIncidents(t, runs, durations); err != nil {
		t.Error(err)
	}
}

const (
	incidentsPage  = "../docs/contributing/incidents.md"
	incidentsBegin = "<!-- incidents: written by make campaign-incident; changes by hand are overwritten -->"
	incidentsEnd   = "<!-- incidents: end -->"
)

func writeIncidents(t *testing.T, runs []*incidentRun, durations map[string]time.Duration) error {
	t.Helper()
	seconds := func(d time.Duration) string { return fmt.Sprintf("%.0f s", d.Seconds()) }
	var b strings.Builder
	fmt.Fprintf(&b, "`make campaign-incident`, %s\n\n", machine(t))
	b.WriteString("| incident | alert | `for` | firing after | resolved after | other alerts | the runbook's commands show |\n|---|---|---:|---:|---:|---|---|\n")
	var notes []string
	for _, r := range runs {
		others := strings.Join(r.others, "; ")
		if others == "" {
			others = "none"
		}
		if r.alert == "" {
			fmt.Fprintf(&b, "| %s | none may fire | | | | %s | %s |\n", r.name, others, r.measured)
			continue
		}
		name := r.name
		if r.note != "" {
			notes = append(notes, r.name+": "+r.note+".")
		}
		var shown []string
		for _, d := range r.diagnosis {
			shown = append(shown, "`"+strings.ReplaceAll(d, "|", `\|`)+"`")
		}
		fmt.Fprintf(&b, "| %s | [%s](../runbooks/%s.md) | %s | %s | %s | %s | %s |\n", name, strings.TrimPrefix(r.alert, "PlatformOperator"), r.alert,
			seconds(durations[r.alert]), seconds(r.fired), seconds(r.resolved), others, strings.Join(shown, ", "))
	}
	if len(notes) > 0 {
		b.WriteString("\n* " + strings.Join(notes, "\n* ") + "\n")
	}
	return benchmark.WriteSection(incidentsPage, "# Incidents", incidentsBegin, incidentsEnd, b.String())
}
