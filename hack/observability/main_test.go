package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	admissionmetrics "k8s.io/apiserver/pkg/admission/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
	"github.com/platform-operator/platform-operator/pkg/telemetry/dashboards"
	"github.com/platform-operator/platform-operator/pkg/telemetry/rules"
	"github.com/platform-operator/platform-operator/pkg/testkit/golden"
)

func TestFiles_AreCurrent(t *testing.T) {
	all, err := files()
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range all {
		golden.File(t, "../../"+path, content)
	}
}

// The label reason has no more values than its definition says.
func TestReasons_AreBounded(t *testing.T) {
	reasons := map[string]bool{"Other": true}
	for _, m := range message.All() {
		for _, r := range m.Reasons {
			reasons[r] = true
		}
	}
	for _, l := range telemetry.Labels() {
		if n := len(reasons); l.Name == "reason" && n > l.Max {
			t.Errorf("reason has %d values, and %v say at most %d", n, l.In, l.Max)
		}
	}
	t.Logf("%d reasons", len(reasons))
}

// registered returns the names of the metrics that the operator serves, with those
// of controller-runtime.
func registered(t *testing.T) map[string]bool {
	t.Helper()
	own := prometheus.NewRegistry()
	if err := telemetry.New(telemetry.Options{}).Register(own); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{
		"up": true, // from Prometheus
		"apiserver_admission_webhook_rejection_count": true, // from the API server
	}
	for _, r := range []prometheus.Collector{own, metrics.Registry.(prometheus.Collector)} {
		descs := make(chan *prometheus.Desc, 1000)
		r.Describe(descs)
		close(descs)
		for d := range descs {
			name := strings.Split(d.String(), `"`)[1]
			for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
				names[name+suffix] = true
			}
		}
	}
	for _, r := range rules.Records() {
		names[r.Name] = true
	}
	return names
}

var (
	texts    = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	matchers = regexp.MustCompile(`\{[^{}]*\}|\[[^]]*\]|\boffset \w+|\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)`)
	words    = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*\s*\(?`)
)

// metricsIn returns the names of the metrics in an expression.
func metricsIn(expr string) []string {
	var all []string
	for _, w := range words.FindAllString(matchers.ReplaceAllString(texts.ReplaceAllString(expr, ""), " "), -1) {
		switch w = strings.TrimSpace(w); {
		case strings.HasSuffix(w, "("), slices.Contains([]string{"and", "or", "unless", "bool", "offset"}, w):
		default:
			all = append(all, w)
		}
	}
	return all
}

func TestMetricsIn_FindsMetricsOnly(t *testing.T) {
	got := metricsIn(`1 - sum by (kind) (rate(a_b:c{le="x_y", job=~"z{1}"}[5m])) unless on (name) up == 1 and absent(d_total offset 5m) > 3`)
	if diff := cmp.Diff([]string{"a_b:c", "up", "d_total"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRules_UseRegisteredMetrics(t *testing.T) {
	known := registered(t)
	exprs := map[string]string{}
	for _, r := range rules.Records() {
		exprs[r.Name] = r.Expr
	}
	for _, a := range rules.Alerts(resources()) {
		exprs[a.Name] = a.Expr
	}
	for rule, expr := range exprs {
		used := metricsIn(expr)
		if len(used) == 0 {
			t.Errorf("%s uses no metric", rule)
		}
		for _, name := range used {
			if !known[name] {
				t.Errorf("%s uses %s, which the operator does not have", rule, name)
			}
		}
	}
}

var (
	selectors = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^{}]*)\}`)
	matches   = regexp.MustCompile(`(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"`)
	quoted    = regexp.MustCompile("`([^`]+)`")
)

// produced returns the values that each label of a metric can have, or nil if that depends
// on the cluster. Those of other components are produced by their code.
func produced(t *testing.T) map[string]map[string][]string {
	t.Helper()
	all := map[string]map[string][]string{}
	add := func(metric, label string, values ...string) {
		if all[metric] == nil {
			all[metric] = map[string][]string{}
		}
		all[metric][label] = append(all[metric][label], values...)
	}
	reasons, conditions := []string{"Other"}, []string{}
	for _, m := range message.All() {
		reasons = append(reasons, m.Reasons...)
		for _, in := range m.In {
			condition, _, _ := strings.Cut(in, "=")
			conditions = append(conditions, condition)
		}
	}
	for _, d := range telemetry.Definitions() {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			for _, l := range d.Labels {
				add(d.Name+suffix, l.Name)
				switch l.Name {
				case "kind":
					add(d.Name+suffix, l.Name, kinds()...)
				case "reason":
					add(d.Name+suffix, l.Name, reasons...)
				case "condition":
					add(d.Name+suffix, l.Name, conditions...)
				default:
					for _, v := range quoted.FindAllStringSubmatch(l.Values, -1) {
						add(d.Name+suffix, l.Name, v[1])
					}
				}
			}
			add(d.Name+suffix, "le")
		}
	}
	for _, r := range rules.Records() {
		add(r.Name, "kind", kinds()...)
	}
	variable := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)
	descs := make(chan *prometheus.Desc, 1000)
	metrics.Registry.(prometheus.Collector).Describe(descs)
	close(descs)
	for d := range descs {
		m := variable.FindStringSubmatch(d.String())
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			for l := range strings.SplitSeq(m[2]+",le", ",") {
				add(m[1]+suffix, strings.TrimSpace(l))
			}
		}
	}
	admissionmetrics.Metrics.ObserveWebhookRejection(t.Context(), "validate.webservers.my.domain", "validating", "UPDATE", admissionmetrics.WebhookRejectionCallingWebhookError, 500)
	admissionmetrics.Metrics.ObserveWebhookRejection(t.Context(), "validate.webservers.my.domain", "validating", "UPDATE", admissionmetrics.WebhookRejectionNoError, 500)
	collected := make(chan prometheus.Metric, 10)
	admissionmetrics.Metrics.WebhookRejectionGathererForTest().Collect(collected)
	close(collected)
	for m := range collected {
		var sample dto.Metric
		if err := m.Write(&sample); err != nil {
			t.Fatal(err)
		}
		for _, l := range sample.GetLabel() {
			add("apiserver_admission_webhook_rejection_count", l.GetName(), l.GetValue())
		}
	}
	for _, m := range ofPods {
		all[m] = map[string][]string{"namespace": nil, "pod": nil, "container": nil}
	}
	all["up"] = map[string][]string{}
	all["ALERTS"] = map[string][]string{"alertname": nil, "kind": nil, "namespace": nil, "name": nil}
	return all
}

// ofPods are metrics that the kubelets and the pods of WebServers serve.
var ofPods = []string{
	"container_start_time_seconds", "container_memory_working_set_bytes", "container_cpu_usage_seconds_total",
	"nginx_http_requests_total", "webserver_http_responses_total",
}

// Prometheus adds these labels to every series.
var ofTarget = []string{"job", "instance", "pod"}

// checkSelectors checks that a series can exist for each selector of an expression.
func checkSelectors(t *testing.T, where, expr string, known map[string]map[string][]string) {
	t.Helper()
	for _, s := range selectors.FindAllStringSubmatch(expr, -1) {
		for _, m := range matches.FindAllStringSubmatch(s[2], -1) {
			label, value := m[1], m[3]
			values, ok := known[s[1]][label]
			if !ok && !slices.Contains(ofTarget, label) {
				t.Errorf("%s: %s has no label %s", where, s[1], label)
			}
			if len(values) == 0 || strings.Contains(value, "$") {
				continue
			}
			alternatives := []string{value}
			if m[2] == "=~" || m[2] == "!~" {
				alternatives = strings.Split(value, "|")
				if strings.Contains(value, "(") {
					alternatives = []string{value}
				}
			}
			for _, a := range alternatives {
				pattern := regexp.MustCompile("^(?:" + strings.ReplaceAll(a, `\\`, `\`) + ")$")
				if !slices.ContainsFunc(values, pattern.MatchString) {
					t.Errorf("%s: %s never has %s=%q: %q", where, s[1], label, a, values)
				}
			}
		}
	}
}

func TestSelectors_CanHaveSeries(t *testing.T) {
	known := produced(t)
	for _, r := range rules.Records() {
		checkSelectors(t, r.Name, r.Expr, known)
	}
	for _, a := range rules.Alerts(resources()) {
		checkSelectors(t, a.Name, a.Expr, known)
	}
	for _, d := range dashboards.All(kinds()) {
		for _, a := range d.Annotations {
			checkSelectors(t, d.UID+", "+a.Title, a.Expr, known)
		}
		for _, p := range d.Panels {
			for _, q := range p.Queries {
				checkSelectors(t, d.UID+", "+p.Title, q.Expr, known)
			}
			// Only ImmortalContainers restart, and they have no rollouts.
			text := fmt.Sprint(p.Queries)
			if of, ok := strings.CutPrefix(d.UID, "platform-operator-kind-"); ok {
				never := []string{"rebirths", "container_restarts"}
				if of == "immortalcontainer" {
					never = []string{"rollouts_failed"}
				}
				if slices.ContainsFunc(never, func(m string) bool { return strings.Contains(text, m) }) {
					t.Errorf("%s: panel %q cannot have data", d.UID, p.Title)
				}
			}
		}
	}
}

// A panic of a webhook is answered with HTTP 200, and counted.
func TestWebhookFailing_SeesPanics(t *testing.T) {
	panics := func() (n float64) {
		families, err := metrics.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() == "controller_runtime_webhook_panics_total" {
				n = f.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return n
	}
	before := panics()
	handler, err := admission.StandaloneWebhook(&admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
		panic("a bug")
	})}, admission.StandaloneOptions{MetricsPath: "/validate"})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate", strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1"}}`))
	r.Header.Set("Content-Type", "application/json")
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"code":500`) || panics() != before+1 {
		t.Errorf("answered %d %s, and counted %v panics", answer.Code, answer.Body, panics()-before)
	}
}

// A healthy certificate is not red, and nothing has the default of Grafana.
func TestDashboards_ColourHealthyValuesGreen(t *testing.T) {
	healthy := map[string]float64{"Certificate": 30 * 24 * 3600, "Leaders": 1, "Ready": 1, "Available": 1, "Replicas": 2}
	for _, d := range dashboards.All(kinds()) {
		for _, p := range d.Panels {
			value, ok := healthy[p.Title]
			if !ok {
				continue
			}
			color := ""
			for i, s := range p.Steps {
				if i == 0 || value >= s.From {
					color = s.Color
				}
			}
			if color != "green" {
				t.Errorf("%s: %s is %q", d.UID, p.Title, color)
			}
		}
		raw, err := d.JSON()
		if n := strings.Count(string(raw), `"thresholds"`); err != nil || n != len(d.Panels) {
			t.Errorf("%s: %d of %d panels have thresholds: %v", d.UID, n, len(d.Panels), err)
		}
	}
}

// The alert about unreachable webhooks is about all of the operator's.
func TestRules_SelectEachWebhook(t *testing.T) {
	manifests, err := os.ReadFile("../../config/webhook/manifests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile("^(?:" + rules.WebhookNames(resources()) + ")$")
	names := regexp.MustCompile(`(?m)^  name: (\S+)$`).FindAllStringSubmatch(string(manifests), -1)
	webhooks := 0
	for _, m := range names {
		if strings.HasSuffix(m[1], "-webhook-configuration") {
			continue
		}
		if webhooks++; !ours.MatchString(m[1]) {
			t.Errorf("%s does not match %s", m[1], rules.WebhookNames(resources()))
		}
	}
	if webhooks < 8 {
		t.Errorf("found %d webhooks", webhooks)
	}
}

// Every alert has a runbook with all sections, and every runbook has an alert.
func TestAlerts_HaveRunbooks(t *testing.T) {
	pages, err := filepath.Glob("../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	unused := map[string]bool{}
	for _, p := range pages {
		unused[strings.TrimSuffix(filepath.Base(p), ".md")] = true
	}
	for _, a := range rules.Alerts(resources()) {
		if !unused[a.Name] {
			t.Errorf("docs/runbooks/%s.md does not exist", a.Name)
			continue
		}
		delete(unused, a.Name)
		page, err := os.ReadFile("../../docs/runbooks/" + a.Name + ".md")
		if err != nil {
			t.Fatal(err)
		}
		for _, section := range []string{"# " + a.Name, "## Meaning", "## Impact", "## Diagnosis", "## Mitigation"} {
			if !strings.Contains(string(page), section+"\n") {
				t.Errorf("docs/runbooks/%s.md has no section %q", a.Name, section)
			}
		}
		if a.Severity != rules.Critical && a.Severity != rules.Warning {
			t.Errorf("%s has severity %q", a.Name, a.Severity)
		}
		if a.Summary == "" || a.Description == "" || a.For == "" || a.Dashboard == "" {
			t.Errorf("%s has no summary, description, duration or dashboard", a.Name)
		}
		// The object is named if the alert is about one.
		for _, label := range a.Vars {
			if !strings.Contains(a.Summary+a.Description, "$labels."+label) {
				t.Errorf("%s does not name the %s", a.Name, label)
			}
		}
	}
	for name := range unused {
		t.Errorf("docs/runbooks/%s.md is about no alert", name)
	}
}

// A user finds there what an object uses, when it was rolled out, and the command that says
// more.
func TestDashboards_OfAnObject(t *testing.T) {
	all := dashboards.All(kinds())
	d := all[slices.IndexFunc(all, func(d dashboards.Dashboard) bool { return d.UID == dashboards.UIDObject })]
	shown := map[string]string{}
	for _, p := range d.Panels {
		shown[p.Title] = p.Content + fmt.Sprint(p.Queries)
	}
	for _, a := range d.Annotations {
		shown[a.Title] = a.Expr
	}
	for title, want := range map[string]string{
		"Commands": "kubectl platform status $kind/$name -n $namespace", "Pods": "container_memory", "CPU": "container_cpu", "Memory": "container_memory",
		"Requests": "nginx_http_requests_total", "Rollouts": "container_start_time_seconds", "Alerts": "ALERTS",
	} {
		if !strings.Contains(shown[title], want) {
			t.Errorf("%s shows %q, not %s", title, shown[title], want)
		}
	}
}

var variables = regexp.MustCompile(`\$\{?([a-z]+)\b`)

// Every panel is described, has a unit, and uses metrics that exist and variables
// that the dashboard has.
func TestDashboards_UseRegisteredMetricsAndTheirVariables(t *testing.T) {
	known := registered(t)
	known["ALERTS"] = true // from Prometheus
	for _, m := range ofPods {
		known[m] = true
	}
	for _, d := range dashboards.All(kinds()) {
		declared := map[string]bool{}
		check := func(where, expr string) {
			t.Helper()
			for _, v := range variables.FindAllStringSubmatch(expr, -1) {
				if !declared[v[1]] {
					t.Errorf("%s: %s uses the variable %s, which is not declared before", d.UID, where, v[1])
				}
			}
			used := metricsIn(strings.ReplaceAll(expr, "$__rate_interval", "5m"))
			if len(used) == 0 {
				t.Errorf("%s: %s uses no metric", d.UID, where)
			}
			for _, name := range used {
				if !known[name] {
					t.Errorf("%s: %s uses %s, which the operator does not have", d.UID, where, name)
				}
			}
		}
		for _, v := range d.Variables {
			metric, _, _ := strings.Cut(strings.TrimPrefix(v.Values, "label_values("), ", "+v.Name+")")
			check("variable "+v.Name, metric)
			declared[v.Name] = true
		}
		for _, a := range d.Annotations {
			check("annotation "+a.Title, a.Expr)
		}
		titles := map[string]bool{}
		for _, p := range d.Panels {
			if p.Unit == "" || !strings.HasSuffix(p.Description, ".") || titles[p.Title] {
				t.Errorf("%s: panel %q has no unit or description, or is not the only one with its title", d.UID, p.Title)
			}
			titles[p.Title] = true
			if len(p.Queries) == 0 && p.Content == "" {
				t.Errorf("%s: panel %q has no query", d.UID, p.Title)
			}
			for _, q := range p.Queries {
				check("panel "+p.Title, q.Expr)
			}
		}
	}
}

// The dashboard of each alert exists, and has the variables that the alert sets.
// required are the fields that the JSON Schema of dashboards in
// https://github.com/grafana/grafana-foundation-sdk requires, as far as we use its types.
var required = map[string][]string{
	"":                                      {"schemaVersion", "templating", "annotations"},
	"time":                                  {"from", "to"},
	"links[]":                               linkFields,
	"annotations.list[]":                    {"name", "enable", "iconColor"},
	"templating.list[]":                     {"type", "name"},
	"panels[]":                              {"type"},
	"panels[].gridPos":                      {"h", "w", "x", "y"},
	"panels[].fieldConfig":                  {"defaults", "overrides"},
	"panels[].fieldConfig.defaults.links[]": linkFields,
}

var linkFields = []string{"title", "type", "icon", "tooltip", "tags", "asDropdown", "targetBlank", "includeVars", "keepTime"}

func TestDashboards_HaveTheFieldsThatGrafanaRequires(t *testing.T) {
	for _, d := range dashboards.All(kinds()) {
		raw, err := d.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := json.Unmarshal(raw, &content); err != nil {
			t.Fatal(err)
		}
		var visit func(path string, v any)
		visit = func(path string, v any) {
			switch v := v.(type) {
			case []any:
				for _, e := range v {
					visit(path+"[]", e)
				}
			case map[string]any:
				for _, field := range required[path] {
					if v[field] == nil {
						t.Errorf("%s: %s has no %s", d.UID, path, field)
					}
				}
				for field, e := range v {
					visit(strings.TrimPrefix(path+"."+field, "."), e)
				}
			}
		}
		visit("", content)
	}
}

func TestAlerts_HaveDashboards(t *testing.T) {
	for _, a := range rules.Alerts(resources()) {
		all := dashboards.All(kinds())
		i := slices.IndexFunc(all, func(d dashboards.Dashboard) bool { return d.UID == a.Dashboard })
		if i < 0 {
			t.Errorf("%s: there is no dashboard %s", a.Name, a.Dashboard)
			continue
		}
		for _, name := range a.Vars {
			if !slices.ContainsFunc(all[i].Variables, func(v dashboards.Variable) bool { return v.Name == name }) {
				t.Errorf("%s: dashboard %s has no variable %s", a.Name, a.Dashboard, name)
			}
		}
	}
}
