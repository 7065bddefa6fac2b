package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	_ "sigs.k8s.io/controller-runtime/pkg/webhook/admission" // its metrics

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

var variables = regexp.MustCompile(`\$\{?([a-z]+)\b`)

// Every panel is described, has a unit, and uses metrics that exist and variables
// that the dashboard has.
func TestDashboards_UseRegisteredMetricsAndTheirVariables(t *testing.T) {
	known := registered(t)
	known["ALERTS"] = true // from Prometheus
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
		titles := map[string]bool{}
		for _, p := range d.Panels {
			if p.Unit == "" || !strings.HasSuffix(p.Description, ".") || titles[p.Title] {
				t.Errorf("%s: panel %q has no unit or description, or is not the only one with its title", d.UID, p.Title)
			}
			titles[p.Title] = true
			if len(p.Queries) == 0 {
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
