//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// The addresses of the add-on prometheus.
	prometheusURL   = "http://10.10.10.1:9090/api/v1/"
	alertmanagerURL = "http://10.10.10.1:9093/api/v2/"

	prometheusBinding = "prometheus-reads-platform-operator"
	metricsJob        = "platform-operator-metrics"
)

// prometheus is the add-on of that name.
type prometheus struct{ *testing.T }

// newPrometheus installs the add-on, and grants it the permission to read the
// operator's metrics as the README of the chart says.
func newPrometheus(t *testing.T) prometheus {
	t.Helper()
	if !local() {
		t.Skip("needs the add-on prometheus of the local cluster")
	}
	p := prometheus{t}
	p.install()
	yaml, err := run(t.Context(), "", "kubectl", "create", "clusterrolebinding", prometheusBinding,
		"--clusterrole=platform-operator-metrics-reader", "--serviceaccount=monitoring:prometheus", "--dry-run=client", "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t, yaml); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, object := range []string{"clusterrolebinding/" + prometheusBinding, "namespace/monitoring"} {
			if _, err := run(ctx, "", "kubectl", "delete", object, "--wait=false", "--ignore-not-found"); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

// install installs the add-on with a configuration for the monitors and rules that
// the cluster contains now.
func (p prometheus) install() {
	p.Helper()
	if out, err := run(p.Context(), "", "../bin/cluster", "addon", "prometheus"); err != nil {
		p.Fatalf("%v\n%s", err, out)
	}
}

func getJSON(ctx context.Context, address string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", address, res.Status, body)
	}
	return json.Unmarshal(body, into)
}

// get reads the field data of an answer of Prometheus.
func (p prometheus) get(path string, parameters url.Values, data any) error {
	var raw struct{ Data json.RawMessage }
	if err := getJSON(p.Context(), prometheusURL+path+"?"+parameters.Encode(), &raw); err != nil {
		return err
	}
	return json.Unmarshal(raw.Data, data)
}

// series is an element of the result of a query.
type series struct {
	Metric map[string]string
	Value  [2]any // time, and the value as a text
}

func (p prometheus) query(expr string) ([]series, error) {
	var data struct {
		ResultType string
		Result     json.RawMessage
	}
	if err := p.get("query", url.Values{"query": {expr}}, &data); err != nil {
		return nil, err
	}
	var all []series
	if data.ResultType != "vector" {
		return nil, fmt.Errorf("%s is a %s", expr, data.ResultType)
	}
	return all, json.Unmarshal(data.Result, &all)
}

// targetsUp waits until each pod of the operator is scraped by the ServiceMonitor of
// the chart, that is, with TLS and the permission.
func (p prometheus) targetsUp() {
	p.Helper()
	eventually(p.T, "Prometheus to scrape each pod of the operator", func() error {
		var targets struct {
			ActiveTargets []struct {
				Labels            map[string]string
				ScrapeURL, Health string
				LastError         string
			}
		}
		if err := p.get("targets", nil, &targets); err != nil {
			return err
		}
		up := 0
		for _, t := range targets.ActiveTargets {
			if t.Labels["job"] != metricsJob {
				continue
			}
			if t.Health != "up" || !strings.HasPrefix(t.ScrapeURL, "https://") {
				return fmt.Errorf("%s is %s: %s", t.ScrapeURL, t.Health, t.LastError)
			}
			up++
		}
		if up < 2 {
			return fmt.Errorf("%d targets with job=%q", up, metricsJob)
		}
		return nil
	})
}

// alert is an alert in Alertmanager.
type alert struct {
	Labels   map[string]string
	StartsAt time.Time
}

func (a alert) String() string {
	l := a.Labels
	s := l["alertname"]
	if l["name"] != "" {
		s += " " + l["kind"] + " " + l["namespace"] + "/" + l["name"]
	}
	return s
}

// alerts returns the alerts of the operator that fire.
func (p prometheus) alerts() ([]alert, error) {
	var all []alert
	err := getJSON(p.Context(), alertmanagerURL+"alerts?filter="+url.QueryEscape(`alertname=~"PlatformOperator.*"`), &all)
	return all, err
}

// firing returns whether an alert fires in Alertmanager, for any object of a
// namespace if that is given.
func (p prometheus) firing(name, ns string) (bool, []alert, error) {
	all, err := p.alerts()
	return slices.ContainsFunc(all, func(a alert) bool {
		return a.Labels["alertname"] == name && (ns == "" || a.Labels["namespace"] == ns)
	}), all, err
}

// fires waits until an alert fires, or until it does no longer, and returns how long
// that took since a time. The limit is for the wait.
func (p prometheus) fires(want bool, name, ns string, since time.Time, limit time.Duration) (time.Duration, error) {
	asked := time.Now()
	for {
		got, all, err := p.firing(name, ns)
		if err == nil && got == want {
			return time.Since(since), nil
		}
		if time.Since(asked) > limit {
			return 0, fmt.Errorf("%s in namespace %q: firing is %t after %s (%v); alerts: %v", name, ns, got, limit, err, all) //nolint:errorlint // err may be nil
		}
		select {
		case <-p.Context().Done():
			return 0, p.Context().Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// board is a dashboard as the chart delivers it.
type board struct {
	UID        string
	Templating struct {
		List []struct {
			Name, Type, Query, AllValue string
		}
	}
	Annotations struct{ List []struct{ Name, Expr string } }
	Panels      []struct {
		Title   string
		Targets []struct{ Expr string }
	}
}

func (p prometheus) boards() []board {
	p.Helper()
	var list struct {
		Items []struct{ Data map[string]string }
	}
	if err := json.Unmarshal([]byte(kubectl(p.T, "-n", operatorNamespace, "get", "configmaps", "-l", "grafana_dashboard=1", "-o", "json")), &list); err != nil {
		p.Fatal(err)
	}
	var all []board
	for _, item := range list.Items {
		for _, raw := range item.Data {
			var b board
			if err := json.Unmarshal([]byte(raw), &b); err != nil {
				p.Fatal(err)
			}
			all = append(all, b)
		}
	}
	return all
}

var labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)

// substitutions returns the values of the variables of a dashboard, as Grafana
// computes them: the one for all, or the first value. In the dashboard of one object,
// they are those of the object.
func (p prometheus) substitutions(b board, selected map[string]string) *strings.Replacer {
	p.Helper()
	pairs := []string{"$__rate_interval", "1m"}
	for _, v := range b.Templating.List {
		if v.Type != "query" {
			continue
		}
		value := v.AllValue
		m := labelValues.FindStringSubmatch(strings.NewReplacer(pairs...).Replace(v.Query))
		if m == nil {
			p.Errorf("%s: variable %s has the query %s", b.UID, v.Name, v.Query)
			continue
		}
		var values []string
		if err := p.get("label/"+m[2]+"/values", url.Values{"match[]": {m[1]}}, &values); err != nil {
			p.Errorf("%s: variable %s: %v", b.UID, v.Name, err)
		}
		if len(values) == 0 {
			p.Errorf("%s: variable %s has no values: %s", b.UID, v.Name, m[1])
		} else if value == "" {
			value = values[0]
		}
		if b.UID == "platform-operator-object" {
			value = selected[v.Name]
			if !slices.Contains(values, value) {
				p.Errorf("%s: variable %s has not the value %q: %q", b.UID, v.Name, value, values)
			}
		}
		pairs = append(pairs, "$"+v.Name, value)
	}
	return strings.NewReplacer(pairs...)
}

// mayBeEmpty are the panels without data although there are objects of each kind, a
// rollout was rolled back, and a container keeps exiting, with the reason. A key is a
// title, or a dashboard and a title. They are executed anyway.
var mayBeEmpty = map[string]string{
	"Failed applies":             "the series begin when a child cannot be written",
	"Failed applies of its kind": "the series begin when a child cannot be written",
	"Drift repaired":             "the series begin when something else changes a child",
	"Refused requests":           "the series begin with the first rejected request",

	"platform-operator-object Requests": "the test does not read the exporter of nginx",

	"platform-operator-kind-demoapplication Abnormal objects": "its objects are healthy",
	"platform-operator-kind-memcached Abnormal objects":       "its objects are healthy",

	"platform-operator-kind-demoapplication Failed rollouts":   "no rollout of the kind has failed",
	"platform-operator-kind-immortalcontainer Failed rollouts": "the kind has no rollouts",
	"platform-operator-kind-memcached Failed rollouts":         "no rollout of the kind has failed",

	"platform-operator-kind-demoapplication Restarts": "only ImmortalContainers have these counters",
	"platform-operator-kind-memcached Restarts":       "only ImmortalContainers have these counters",
	"platform-operator-kind-webserver Restarts":       "only ImmortalContainers have these counters",

	"platform-operator-kind-demoapplication Time from deletion to gone":   "no object of the kind was deleted",
	"platform-operator-kind-immortalcontainer Time from deletion to gone": "no object of the kind was deleted",
	"platform-operator-kind-memcached Time from deletion to gone":         "no object of the kind was deleted",
}

var errNoData = errors.New("there is no data")

// executed counts the expressions that Prometheus has accepted.
type executed struct {
	panels, rules int
	empty         []string // the panels without data
}

// executeAll executes the expressions of all panels and rules. selected are the values
// of variables in the dashboard of one object.
func (p prometheus) executeAll(selected map[string]string) executed {
	p.Helper()
	var e executed
	boards := p.boards()
	if len(boards) < 7 {
		p.Errorf("the chart delivers %d dashboards", len(boards))
	}
	for _, b := range boards {
		replace := p.substitutions(b, selected)
		for _, a := range b.Annotations.List {
			if _, err := p.query(replace.Replace(a.Expr)); err != nil {
				p.Errorf("%s: annotation %s: %v", b.UID, a.Name, err)
			}
		}
		for _, panel := range b.Panels {
			if len(panel.Targets) == 0 { // a text
				continue
			}
			hasData := func() error {
				found := 0
				for _, target := range panel.Targets {
					result, err := p.query(replace.Replace(target.Expr))
					if err != nil {
						return err
					}
					found += len(result)
				}
				if found == 0 {
					return errNoData
				}
				return nil
			}
			e.panels += len(panel.Targets)
			err := hasData()
			if key := b.UID + " " + panel.Title; errors.Is(err, errNoData) && (mayBeEmpty[key] != "" || mayBeEmpty[panel.Title] != "") {
				e.empty = append(e.empty, key)
				continue
			}
			if err != nil { // a rate needs two samples
				eventually(p.T, fmt.Sprintf("data of the panel %q of %s", panel.Title, b.UID), hasData)
			}
		}
	}
	var rules struct {
		Groups []struct {
			Rules []struct{ Name, Query, Health, LastError string }
		}
	}
	if err := p.get("rules", nil, &rules); err != nil {
		p.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			if r.Health != "ok" {
				p.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
			if _, err := p.query(r.Query); err != nil {
				p.Errorf("rule %s: %v", r.Name, err)
			}
			e.rules++
		}
	}
	if e.rules == 0 {
		p.Error("Prometheus has no rules")
	}
	return e
}

// promtool runs promtool of the add-on.
func (p prometheus) promtool(args ...string) string {
	p.Helper()
	return kubectl(p.T, append([]string{"-n", "monitoring", "exec", "deployment/prometheus", "-c", "prometheus", "--", "promtool"}, args...)...)
}

var (
	diagnosis = regexp.MustCompile(`(?s)\n## Diagnosis\n(.*?)\n## `)
	shell     = regexp.MustCompile("(?s)```(?:sh|console)\n(.*?)```")
)

// runbook executes the commands in the section Diagnosis of a runbook, for an object
// instead of the one of the example, and returns what they print.
func runbook(ctx context.Context, alertname string, replace ...string) (string, error) {
	raw, err := os.ReadFile("../docs/runbooks/" + alertname + ".md")
	if err != nil {
		return "", err
	}
	section := diagnosis.FindStringSubmatch(string(raw))
	if section == nil {
		return "", fmt.Errorf("the runbook of %s has no diagnosis", alertname)
	}
	var out strings.Builder
	var failed []error
	commands := 0
	for _, block := range shell.FindAllStringSubmatch(section[1], -1) {
		for line := range strings.Lines(block[1]) {
			line = strings.NewReplacer(replace...).Replace(strings.TrimSpace(line))
			if line == "" {
				continue
			}
			commands++
			printed, err := shellCommand(ctx, line)
			fmt.Fprintf(&out, "$ %s\n%s", line, printed)
			if err != nil {
				fmt.Fprintf(&out, "%v\n", err)
				if !mayFail(line) {
					failed = append(failed, err)
				}
			}
		}
	}
	if commands == 0 {
		failed = append(failed, fmt.Errorf("the runbook of %s has no commands", alertname))
	}
	return out.String(), errors.Join(failed...)
}

// shellCommand runs a command of a page, with the plugin of bin.
func shellCommand(ctx context.Context, line string) (string, error) {
	return run(ctx, "", "bash", "-c", `PATH="$(realpath ../bin):$PATH"; `+line)
}

// mayFail reports whether the exit status of a command is an answer: an object is not
// Ready, grep has found nothing, the permission is missing, the pod has no previous
// container, or the cluster has no cert-manager.
func mayFail(command string) bool {
	return slices.ContainsFunc([]string{"kubectl platform status", "| grep", " can-i ", " --previous", "describe certificate"}, func(s string) bool {
		return strings.Contains(command, s)
	})
}

// TestPrometheus_AlertsFireAndResolve reads the operator's metrics with a real
// Prometheus, configured by the ServiceMonitor and the PrometheusRule of the chart.
func TestPrometheus_AlertsFireAndResolve(t *testing.T) {
	campaign(t, "campaign-operator")
	t.Parallel()
	p := newPrometheus(t)
	began := time.Now()
	s := newBlockStage(t)
	ns := s.ns
	var objects strings.Builder
	objects.WriteString(webServer(ns, "shop", `{image: "nginx:1.27.3", service: {type: ClusterIP}}`))
	for _, o := range []struct {
		k          kind
		name, spec string
	}{
		{immortalKind, "worker", `{image: "nginx:1.27.3"}`},
		{memcachedKind, "cache", `{size: 1}`},
		{demoApplicationKind, "demo", `{image: "nginx:1.27.3", replica: 1, ports: [{port: 80}]}`},
		{webServerKind, "gone", `{image: nginx, replicas: 0, service: {type: ClusterIP}}`},
	} {
		objects.WriteString(o.k.manifest(o.name, o.spec))
	}
	s.apply(objects.String())
	p.targetsUp()
	for _, file := range []string{"config /etc/prometheus/prometheus.yml", "rules /etc/prometheus/rules-platform-operator-system-platform-operator.yml"} {
		if out := p.promtool(append([]string{"check"}, strings.Fields(file)...)...); !strings.Contains(out, "SUCCESS") {
			t.Errorf("promtool check %s: %s", file, out)
		}
	}
	awaitReady(t, ns, "--all", "webservers,immortalcontainers,memcacheds,demoapplications")
	s.kubectl("delete", "webserver", "gone")

	// A bad image, and a child that is deleted in a loop.
	start := time.Now()
	s.kubectl("patch", "webserver", "shop", "--type=merge", "-p", `{"spec":{`+ampleDeadline+`,"image":"nginx:crash"}}`)
	deleted := ""
	for range 4 {
		deleted = reborn(t, ns, "worker-immortalpod", deleted)
		s.kubectl("delete", "pod", "worker-immortalpod")
	}
	reborn(t, ns, "worker-immortalpod", deleted)
	for alertname, shows := range map[string]string{
		"PlatformOperatorContainerDying":    `Starts: +[45] of pods`,
		"PlatformOperatorRolloutRolledBack": "this image always fails",
	} {
		took, err := p.fires(true, alertname, ns, start, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s fires after %s", alertname, took.Round(100*time.Millisecond))
		out, err := runbook(t.Context(), alertname, "team-a", ns)
		if err != nil {
			t.Errorf("the runbook: %v", err)
		}
		if !regexp.MustCompile(shows).MatchString(out) {
			t.Errorf("the commands of the runbook of %s do not show %q:\n%s", alertname, shows, out)
		}
	}
	e := p.executeAll(map[string]string{"kind": webServerKind.Kind, "namespace": ns, "name": "shop"})
	t.Logf("Prometheus executed %d expressions of panels and %d of rules; panels without data: %d\n%s",
		e.panels, e.rules, len(e.empty), strings.Join(e.empty, "\n"))

	undone := time.Now()
	s.kubectl("patch", "webserver", "shop", "--type=merge", "-p", `{"spec":{"image":"nginx:1.27.3"}}`)
	s.kubectl("delete", "immortalcontainer", "worker")
	for _, alertname := range []string{"PlatformOperatorContainerDying", "PlatformOperatorRolloutRolledBack"} {
		took, err := p.fires(false, alertname, ns, undone, patience)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s is resolved after %s", alertname, took.Round(100*time.Millisecond))
	}
	t.Logf("%s after Prometheus was ready", time.Since(began).Round(time.Second))
}
