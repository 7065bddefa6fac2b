package promrules

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// load parses the rules like promtool check rules, including the templates of
// annotations.
func load(t *testing.T) map[string]rulefmt.Rule {
	t.Helper()
	content, err := os.ReadFile("../../charts/platform-operator/files/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	groups, errs := rulefmt.Parse(content, false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.Default())
	for _, err := range errs {
		t.Error(err)
	}
	if t.Failed() {
		t.FailNow()
	}
	rules := map[string]rulefmt.Rule{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			rules[r.Alert+r.Record] = r
		}
	}
	return rules
}

// eval evaluates an expression after 15 minutes, and returns the sorted results as LABELS VALUE.
func eval(t *testing.T, series, expr string) []string {
	t.Helper()
	storage := promqltest.LoadedStorage(t, "load 1m\n"+indented(series))
	defer func() { _ = storage.Close() }()
	engine := promqltest.NewTestEngine(t, false, 0, 100_000)
	q, err := engine.NewInstantQuery(t.Context(), storage, nil, expr, time.Unix(0, 0).Add(15*time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	r := q.Exec(t.Context())
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	var all []string
	for _, s := range r.Value.(promql.Vector) {
		all = append(all, fmt.Sprintf("%s %.3g", s.Metric, s.F))
	}
	slices.Sort(all)
	return all
}

func indented(series string) string {
	var b strings.Builder
	for line := range strings.Lines(series) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// cases has for every alert the series for which its expression is true, and those
// for which it is not. Each lasts 15 minutes, one sample a minute.
var cases = map[string]struct{ fires, quiet, want string }{
	"PlatformOperatorDown": {
		fires: `up{job="platform-operator-metrics"} 1x5 0x10`,
		quiet: `up{job="platform-operator-metrics", pod="a"} 1x15
			up{job="platform-operator-metrics", pod="b"} 0x15`,
		want: `{} 1`,
	},
	"PlatformOperatorReplicaDown": {
		fires: `up{job="platform-operator-metrics", pod="a"} 1x15
			up{job="platform-operator-metrics", pod="b"} 0x15`,
		quiet: `up{job="platform-operator-metrics", pod="a"} 1x15
			up{job="platform-operator-metrics", pod="b"} 1x15`,
		want: `{} 1`,
	},
	"PlatformOperatorNoLeader": {
		fires: `leader_election_master_status{job="platform-operator-metrics", name="platform-operator", pod="a"} 0x15
			leader_election_master_status{job="another", name="platform-operator"} 1x15`,
		quiet: `leader_election_master_status{job="platform-operator-metrics", name="platform-operator", pod="a"} 0x15
			leader_election_master_status{job="platform-operator-metrics", name="platform-operator", pod="b"} 1x15`,
		want: `{} 0`,
	},
	"PlatformOperatorCertificateNotRenewed": {
		fires: `platform_operator_certificate_expiry_timestamp_seconds{certificate="serving", pod="a"} 600000x15
			platform_operator_certificate_lifetime_seconds{certificate="serving", pod="a"} 7776000x15
			platform_operator_certificate_expiry_timestamp_seconds{certificate="ca"} 9000000x15
			platform_operator_certificate_lifetime_seconds{certificate="ca"} 315360000x15`,
		quiet: `platform_operator_certificate_expiry_timestamp_seconds{certificate="serving"} 900000x15
			platform_operator_certificate_lifetime_seconds{certificate="serving"} 7776000x15`,
		want: `{certificate="serving"} 5.99e+05`,
	},
	"PlatformOperatorWebhookFailing": {
		fires: `controller_runtime_webhook_panics_total{job="platform-operator-metrics"} 0+1x15`,
		quiet: `controller_runtime_webhook_panics_total{job="platform-operator-metrics"} 7x15
			controller_runtime_webhook_panics_total{job="another"} 0+60x15
			up{job="apiserver", instance="a"} 1x30
			apiserver_admission_webhook_rejection_count{job="apiserver", instance="a", name="validate.webservers.my.domain", error_type="no_error", rejection_code="403"} 0+60x15`,
		want: `{job="platform-operator-metrics"} 1`,
	},
	"PlatformOperatorWebhookUnreachable": {
		fires: `up{job="apiserver", instance="a"} 1x30
			apiserver_admission_webhook_rejection_count{job="apiserver", instance="a", name="validate.webservers.my.domain", error_type="calling_webhook_error", operation="CREATE"} 0+60x15`,
		quiet: `up{job="apiserver", instance="a"} 1x30
			apiserver_admission_webhook_rejection_count{job="apiserver", instance="a", name="validate.webservers.my.domain", error_type="no_error", operation="CREATE"} 0+60x15
			apiserver_admission_webhook_rejection_count{job="apiserver", instance="a", name="validate.webservers.my.domain", error_type="calling_webhook_error", operation="UPDATE"} 7x15
			apiserver_admission_webhook_rejection_count{job="apiserver", instance="a", name="validate.example.com", error_type="calling_webhook_error", operation="CREATE"} 0+60x15`,
		want: `{name="validate.webservers.my.domain"} `,
	},
	"PlatformOperatorReconcileErrors": {
		fires: `controller_runtime_reconcile_errors_total{job="platform-operator-metrics", controller="webserver"} 0+30x15
			controller_runtime_reconcile_total{job="platform-operator-metrics", controller="webserver", result="error"} 0+30x15
			controller_runtime_reconcile_total{job="platform-operator-metrics", controller="webserver", result="success"} 0+30x15`,
		quiet: `controller_runtime_reconcile_errors_total{job="platform-operator-metrics", controller="webserver"} 0+1x15
			controller_runtime_reconcile_total{job="platform-operator-metrics", controller="webserver", result="success"} 0+30x15`,
		want: `{controller="webserver"} 0.5`,
	},
	"PlatformOperatorQueueStarved": {
		fires: `workqueue_queue_duration_seconds_count{job="platform-operator-metrics", controller="webserver", name="webserver"} 5x15
			workqueue_depth{job="platform-operator-metrics", controller="webserver", name="webserver", priority="0"} 9x15`,
		quiet: `workqueue_queue_duration_seconds_count{job="platform-operator-metrics", controller="webserver", name="webserver"} 0+60x15
			workqueue_queue_duration_seconds_bucket{job="platform-operator-metrics", controller="webserver", le="1"} 0+60x15
			workqueue_queue_duration_seconds_bucket{job="platform-operator-metrics", controller="webserver", le="+Inf"} 0+60x15
			workqueue_depth{job="platform-operator-metrics", controller="webserver", name="webserver", priority="0"} 9x15`,
		want: `{controller="webserver"} 0`,
	},
	"PlatformOperatorObjectUnavailable": {
		fires: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="Unavailable", reason="Progressing", pod="x"} 1x15`,
		quiet: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="NotReady", reason="Progressing"} 1x15`,
		want:  `{kind="WebServer", name="web", namespace="a", reason="Progressing"} 1`,
	},
	"PlatformOperatorObjectStalled": {
		fires: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="Stalled", reason="Conflict", pod="x"} 1x15`,
		quiet: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="Stalled", reason="RolledBack"} 1x15
			platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="RolledBack", reason="RolledBack"} 1x15`,
		want: `{kind="WebServer", name="web", namespace="a", reason="Conflict"} 1`,
	},
	"PlatformOperatorObjectNotReady": {
		fires: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="NotReady", reason="Progressing"} 1x15`,
		quiet: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="NotReady", reason="Paused"} 1x15
			platform_operator_object_abnormal{kind="WebServer", namespace="a", name="two", state="NotReady", reason="Conflict"} 1x15
			platform_operator_object_abnormal{kind="WebServer", namespace="a", name="two", state="Stalled", reason="Conflict"} 1x15`,
		want: `{kind="WebServer", name="web", namespace="a", reason="Progressing"} 1`,
	},
	"PlatformOperatorRolloutRolledBack": {
		fires: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="RolledBack", reason="RolledBack"} 1x15`,
		quiet: `platform_operator_object_abnormal{kind="WebServer", namespace="a", name="web", state="Stalled", reason="Conflict"} 1x15`,
		want:  `{kind="WebServer", name="web", namespace="a"} 1`,
	},
	"PlatformOperatorRolloutsHeld": {
		fires: `platform_operator_objects_abnormal{kind="WebServer", namespace="a", state="Held", pod="x"} 20x15`,
		quiet: `platform_operator_objects_abnormal{kind="WebServer", namespace="a", state="RolledBack"} 20x15`,
		want:  `{kind="WebServer", namespace="a"} 20`,
	},
	"PlatformOperatorContainerDying": {
		fires: `platform_operator_object_abnormal{kind="ImmortalContainer", namespace="a", name="i", state="Dying", reason="Running"} 1x15`,
		quiet: `platform_operator_object_abnormal{kind="ImmortalContainer", namespace="a", name="i", state="NotReady", reason="Running"} 1x15`,
		want:  `{kind="ImmortalContainer", name="i", namespace="a"} 1`,
	},
	"PlatformOperatorReadyBudgetBurnsFast": {
		fires: `kind:platform_operator_edit_to_ready_slow:ratio_rate1h{kind="WebServer"} 0.2x15
			kind:platform_operator_edit_to_ready_slow:ratio_rate5m{kind="WebServer"} 0.15x15
			platform_operator_edit_to_ready_seconds_count{kind="WebServer"} 0+10x15`,
		quiet: `kind:platform_operator_edit_to_ready_slow:ratio_rate1h{kind="WebServer"} 0.2x15
			kind:platform_operator_edit_to_ready_slow:ratio_rate5m{kind="WebServer"} 0.1x15`,
		want: `{__name__="kind:platform_operator_edit_to_ready_slow:ratio_rate1h", kind="WebServer"} 0.2`,
	},
	"PlatformOperatorReadyBudgetBurnsSlowly": {
		fires: `kind:platform_operator_edit_to_ready_slow:ratio_rate6h{kind="WebServer"} 0.07x15
			kind:platform_operator_edit_to_ready_slow:ratio_rate30m{kind="WebServer"} 0.07x15
			platform_operator_edit_to_ready_seconds_count{kind="WebServer"} 0+10x15`,
		quiet: `kind:platform_operator_edit_to_ready_slow:ratio_rate6h{kind="WebServer"} 0.07x15
			kind:platform_operator_edit_to_ready_slow:ratio_rate30m{kind="WebServer"} 0.01x15`,
		want: `{__name__="kind:platform_operator_edit_to_ready_slow:ratio_rate6h", kind="WebServer"} 0.07`,
	},
}

func TestAlerts_Fire(t *testing.T) {
	rules := load(t)
	for _, name := range slices.Sorted(maps.Keys(rules)) {
		r := rules[name]
		if r.Alert == "" {
			continue
		}
		c, ok := cases[name]
		if !ok {
			t.Errorf("%s has no test", name)
			continue
		}
		if got := eval(t, c.fires, r.Expr); len(got) != 1 || !strings.HasPrefix(got[0], c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		if got := eval(t, c.quiet, r.Expr); len(got) > 0 {
			t.Errorf("%s fires: %q", name, got)
		}
	}
}

// What was found to fire, or not to, in a cluster where it should not, or should.
func TestAlerts_AreTruthful(t *testing.T) {
	const (
		up       = "up{job=\"apiserver\", instance=\"a\"} 1x60\n"
		rejected = `apiserver_admission_webhook_rejection_count{job="apiserver", instance="a", type="validating", operation="UPDATE", name="validate.webservers.my.domain", `
	)
	rules := load(t)
	for name, tc := range map[string]struct {
		alert, series string
		fires         bool
	}{
		"users retry every three minutes":      {"PlatformOperatorWebhookUnreachable", up + rejected + `error_type="calling_webhook_error", rejection_code="500"} 1x2 2x2 3x2 4x2 5x2 6x2`, true},
		"a burst in a new series":              {"PlatformOperatorWebhookUnreachable", up + rejected + `error_type="calling_webhook_error", rejection_code="500"} _x5 50x60`, true},
		"a single refused request":             {"PlatformOperatorWebhookUnreachable", up + rejected + `error_type="calling_webhook_error", rejection_code="500"} _x5 1x60`, false},
		"an API server that was not scraped":   {"PlatformOperatorWebhookUnreachable", "up{job=\"apiserver\", instance=\"a\"} _x5 1x60\n" + rejected + `error_type="calling_webhook_error", rejection_code="500"} _x5 50x60`, false},
		"webhooks answer with errors":          {"PlatformOperatorWebhookFailing", up + rejected + `error_type="no_error", rejection_code="500"} _x5 50x60`, true},
		"rejections of invalid objects":        {"PlatformOperatorWebhookFailing", up + rejected + `error_type="no_error", rejection_code="422"} _x5 50x60`, false},
		"a certificate of seven days":          {"PlatformOperatorCertificateNotRenewed", "platform_operator_certificate_expiry_timestamp_seconds{certificate=\"serving\"} 170000x15\nplatform_operator_certificate_lifetime_seconds{certificate=\"serving\"} 604800x15", false},
		"it is not renewed":                    {"PlatformOperatorCertificateNotRenewed", "platform_operator_certificate_expiry_timestamp_seconds{certificate=\"serving\"} 50000x15\nplatform_operator_certificate_lifetime_seconds{certificate=\"serving\"} 604800x15", true},
		"only the leader cannot be scraped":    {"PlatformOperatorNoLeader", "up{job=\"platform-operator-metrics\", pod=\"a\"} 0x15\nup{job=\"platform-operator-metrics\", pod=\"b\"} 1x15\nleader_election_master_status{job=\"platform-operator-metrics\", name=\"platform-operator\", pod=\"b\"} 0x15", false},
		"nothing was ever scraped":             {"PlatformOperatorDown", up, false},
		"scraping was never permitted":         {"PlatformOperatorDown", `up{job="platform-operator-metrics"} 0x15`, false},
		"the targets no longer exist":          {"PlatformOperatorDown", `up{job="platform-operator-metrics"} 1x5`, true},
		"one object fails among idle ones":     {"PlatformOperatorReconcileErrors", "controller_runtime_reconcile_total{job=\"platform-operator-metrics\", controller=\"webserver\", result=\"error\"} 0+1x15\ncontroller_runtime_reconcile_errors_total{job=\"platform-operator-metrics\", controller=\"webserver\"} 0+1x15", false},
		"a single slow change within an hour":  {"PlatformOperatorReadyBudgetBurnsFast", "kind:platform_operator_edit_to_ready_slow:ratio_rate1h{kind=\"WebServer\"} 1x15\nkind:platform_operator_edit_to_ready_slow:ratio_rate5m{kind=\"WebServer\"} 1x15\nplatform_operator_edit_to_ready_seconds_count{kind=\"WebServer\"} 20x8 21x7", false},
		"one of two replicas no longer exists": {"PlatformOperatorReplicaDown", `up{job="platform-operator-metrics", pod="a"} 1x15`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := eval(t, tc.series, rules[tc.alert].Expr); (len(got) > 0) != tc.fires {
				t.Errorf("%s: got %q", tc.alert, got)
			}
		})
	}
}

// Half of the changes took longer than the objective allows, in both formats of
// the label le.
func TestRecords_AreTheShareOfSlowChanges(t *testing.T) {
	rules := load(t)
	for _, le := range []string{"300", "300.0"} {
		got := eval(t, `platform_operator_edit_to_ready_seconds_bucket{kind="WebServer", le="`+le+`"} 0+5x15
			platform_operator_edit_to_ready_seconds_bucket{kind="WebServer", le="3600"} 0+10x15
			platform_operator_edit_to_ready_seconds_count{kind="WebServer"} 0+10x15`,
			rules["kind:platform_operator_edit_to_ready_slow:ratio_rate5m"].Expr)
		if want := `{kind="WebServer"} 0.5`; len(got) != 1 || got[0] != want {
			t.Errorf("le=%s: got %q, want %q", le, got, want)
		}
	}
}

// The histogram has a bound at 10 seconds and the next one at 100, so that any other
// threshold would depend on an interpolation between them.
func TestQueueStarved_FiresIfMoreThan1PercentWaitsFor10Seconds(t *testing.T) {
	expr := load(t)["PlatformOperatorQueueStarved"].Expr
	for late, want := range map[int]int{0: 0, 8: 0, 12: 1, 1000: 1} {
		series := fmt.Sprintf(`workqueue_queue_duration_seconds_bucket{job="platform-operator-metrics", controller="webserver", le="1"} 0+%[1]dx15
			workqueue_queue_duration_seconds_bucket{job="platform-operator-metrics", controller="webserver", le="10"} 0+%[1]dx15
			workqueue_queue_duration_seconds_bucket{job="platform-operator-metrics", controller="webserver", le="100"} 0+1000x15
			workqueue_queue_duration_seconds_bucket{job="platform-operator-metrics", controller="webserver", le="+Inf"} 0+1000x15
			workqueue_queue_duration_seconds_count{job="platform-operator-metrics", controller="webserver"} 0+1000x15`, 1000-late)
		if got := eval(t, series, expr); len(got) != want {
			t.Errorf("%d of 1000 requests waited for more than 10 seconds: got %q, want %d alerts", late, got, want)
		}
	}
}
