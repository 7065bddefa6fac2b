// Package rules defines the alerts and the recording rules for Prometheus. The
// chart and the file for a Prometheus without operator are generated from it.
package rules

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Job is the value of the label job of the operator's metrics, which is the name
// of its Service for metrics. The chart replaces it if the Service has another
// name.
const Job = "platform-operator-metrics"

// WebhookNames returns a regular expression that matches the names of the operator's
// webhooks and no others. resources are those of the kinds, such as "webservers".
func WebhookNames(resources []string) string {
	return `(default|scale|validate)[.](` + strings.Join(resources, "|") + `)[.].+|evict[.]pods[.]platform-operator[.]io`
}

// Replicas is the number of replicas that should be scraped. The chart replaces it.
const Replicas = "2"

// RunbookURL is the prefix of the URLs of the runbooks. The chart replaces it.
const RunbookURL = "https://github.com/platform-operator/platform-operator/blob/main/docs/runbooks/"

// Severity is how urgent an alert is.
type Severity string

// Critical alerts mean that users cannot change objects, that objects are not
// reconciled, or that an object no longer serves. All others are warnings.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
)

// Alert is an alert.
type Alert struct {
	Name                 string
	Expr                 string
	For                  string
	Severity             Severity
	Summary, Description string
	// Dashboard is the UID of the dashboard to look at, and Vars its variables.
	Dashboard string
	Vars      []string
}

// Record is a recording rule.
type Record struct{ Name, Expr string }

// The service level objective: this share of the changes of specs is Ready within
// the time.
const (
	Objective     = 0.99
	ObjectiveTime = 300 // seconds; a bucket of the histogram
)

// windows are the windows over which the share of slow changes is recorded.
var windows = []string{"5m", "30m", "1h", "6h"}

func slow(window string) string {
	return "kind:platform_operator_edit_to_ready_slow:ratio_rate" + window
}

// Records returns the recording rules.
func Records() []Record {
	var all []Record
	for _, w := range windows {
		all = append(all, Record{slow(w), fmt.Sprintf(
			`1 - sum by (kind) (rate(platform_operator_edit_to_ready_seconds_bucket{le=~"%d|%d\\.0"}[%s])) / sum by (kind) (rate(platform_operator_edit_to_ready_seconds_count[%s]))`,
			ObjectiveTime, ObjectiveTime, w, w)})
	}
	return all
}

// burns returns an expression that is true while the error budget is used factor
// times faster than the objective allows, over both windows. A few changes say nothing
// about a share of 1%.
func burns(factor float64, long, short string) string {
	limit := fmt.Sprintf("%.3g", factor*(1-Objective))
	return slow(long) + " > " + limit + " and " + slow(short) + " > " + limit +
		" and on (kind) sum by (kind) (increase(platform_operator_edit_to_ready_seconds_count[" + long + "])) > 10"
}

// rejected returns an expression for how many requests the API servers rejected within 15
// minutes because of a webhook, if there are at least three. The first sample of a series
// is not an increase, but counts too, unless the API server was not scraped before.
func rejected(resources []string, matchers string) string {
	series := `apiserver_admission_webhook_rejection_count{` + matchers + `, name=~"` + WebhookNames(resources) + `"}`
	return "sum by (name) (increase(" + series + "[15m]) > 0 or (" + series + " unless " + series + " offset 15m)" +
		" and on (job, instance) up offset 15m) >= 3"
}

const (
	fleetDashboard    = "platform-operator-fleet"
	objectDashboard   = "platform-operator-object"
	operatorDashboard = "platform-operator-operator"
)

var ofObject = []string{"kind", "namespace", "name"}

const objectName = `{{ $labels.kind }} {{ $labels.namespace }}/{{ $labels.name }}`

// Alerts returns the alerts of an operator of kinds with these resources.
func Alerts(resources []string) []Alert {
	return []Alert{
		{
			Name: "PlatformOperatorDown", For: "5m", Severity: Critical, Dashboard: operatorDashboard,
			// A Prometheus that never scraped it, such as without a ServiceMonitor, knows nothing.
			Expr:        `max(max_over_time(up{job="` + Job + `"}[1d])) == 1 unless on () up{job="` + Job + `"} == 1`,
			Summary:     "No replica of the platform operator can be scraped.",
			Description: "Prometheus has read no metrics of platform-operator for 5 minutes, and did before. Unless only the metrics are unavailable, objects are not reconciled and the API server rejects changes of them.",
		},
		{
			Name: "PlatformOperatorReplicaDown", For: "15m", Severity: Warning, Dashboard: operatorDashboard,
			Expr:        `count(up{job="` + Job + `"} == 1) < ` + Replicas,
			Summary:     "A replica of the platform operator cannot be scraped.",
			Description: "Only {{ $value }} of " + Replicas + " replicas of platform-operator can be scraped for 15 minutes. If the last one is lost, objects are not reconciled and the API server rejects changes of them.",
		},
		{
			Name: "PlatformOperatorNoLeader", For: "2m", Severity: Critical, Dashboard: operatorDashboard,
			Expr:        `sum(leader_election_master_status{job="` + Job + `", name="platform-operator"}) < 1 unless on () up{job="` + Job + `"} == 0`,
			Summary:     "No replica of the platform operator is the leader.",
			Description: "The replicas of platform-operator run, but none holds the Lease platform-operator. Objects are not reconciled.",
		},
		{
			Name: "PlatformOperatorCertificateNotRenewed", For: "1h", Severity: Warning, Dashboard: operatorDashboard,
			// Less than ten days, and than a tenth of its lifetime, which may be short.
			Expr: `min by (certificate) (platform_operator_certificate_expiry_timestamp_seconds) - time() < 10 * 24 * 3600` +
				` and on (certificate) min by (certificate) (platform_operator_certificate_expiry_timestamp_seconds - platform_operator_certificate_lifetime_seconds / 10) < time()`,
			Summary:     "The certificate {{ $labels.certificate }} of the platform operator was not renewed.",
			Description: "The certificate {{ $labels.certificate }} of the webhooks of platform-operator expires in {{ $value | humanizeDuration }}. By default it is renewed 30 days before. When it has expired, the API server rejects all changes of objects.",
		},
		{
			// A webhook that fails answers with HTTP 200: the API server counts the code in the answer.
			Name: "PlatformOperatorWebhookFailing", For: "0m", Severity: Critical, Dashboard: operatorDashboard,
			Expr: `sum by (job) (increase(controller_runtime_webhook_panics_total{job="` + Job + `"}[15m])) > 0` +
				` or ` + rejected(resources, `error_type="no_error", rejection_code=~"5.."`),
			Summary:     "A webhook of the platform operator fails.",
			Description: "A webhook of platform-operator panicked, or answered with an error, {{ $value | humanize }} times within 15 minutes. The API server rejects these changes of objects.",
		},
		{
			// From the API server: a webhook that cannot be reached has no metrics of its own.
			Name: "PlatformOperatorWebhookUnreachable", For: "0m", Severity: Critical, Dashboard: operatorDashboard,
			Expr:        rejected(resources, `error_type="calling_webhook_error"`),
			Summary:     "The API server cannot call the webhook {{ $labels.name }}.",
			Description: "The API server rejected {{ $value | humanize }} requests within 15 minutes, because it cannot call the webhook {{ $labels.name }} of platform-operator.",
		},
		{
			Name: "PlatformOperatorReconcileErrors", For: "15m", Severity: Warning, Dashboard: operatorDashboard,
			// Objects at rest are not reconciled, so a single one that fails every minute may be
			// all. Objects that fail have alerts of their own.
			Expr: `sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="` + Job + `"}[5m]))` +
				` / sum by (controller) (rate(controller_runtime_reconcile_total{job="` + Job + `"}[5m])) > 0.1` +
				` and on (controller) sum by (controller) (rate(controller_runtime_reconcile_errors_total{job="` + Job + `"}[5m])) > 0.1`,
			Summary:     "More than a tenth of the reconciles of {{ $labels.controller }} fail.",
			Description: "{{ $value | humanizePercentage }} of the reconciles of the controller {{ $labels.controller }} of platform-operator ended with an error for 15 minutes.",
		},
		{
			// 10 seconds is a bound of a bucket, and the next one is 100: compared with a value
			// between them, a wait of 11 seconds would count as up to 100.
			Name: "PlatformOperatorQueueStarved", For: "10m", Severity: Warning, Dashboard: operatorDashboard,
			Expr: `histogram_quantile(0.99, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{job="` + Job + `"}[5m]))) > 10` +
				` or sum by (controller) (rate(workqueue_queue_duration_seconds_count{job="` + Job + `"}[5m])) == 0 and sum by (controller) (workqueue_depth{job="` + Job + `"}) > 0`,
			Summary:     "Objects wait long in the queue {{ $labels.controller }} of the platform operator.",
			Description: "More than 1% of the requests wait for more than 10 seconds in the queue of the controller {{ $labels.controller }} of platform-operator, or none is handled. Changes of objects take effect late.",
		},
		{
			Name: "PlatformOperatorObjectUnavailable", For: "2m", Severity: Critical, Dashboard: objectDashboard, Vars: ofObject,
			Expr:        `max by (kind, namespace, name, reason) (platform_operator_object_abnormal{state="Unavailable"}) > 0`,
			Summary:     objectName + " is not available.",
			Description: "No pod of " + objectName + " has been healthy for 2 minutes, although one was before. Reason: {{ $labels.reason }}.",
		},
		{
			Name: "PlatformOperatorObjectStalled", For: "15m", Severity: Warning, Dashboard: objectDashboard, Vars: ofObject,
			Expr:        `max by (kind, namespace, name, reason) (platform_operator_object_abnormal{state="Stalled"}) > 0 unless on (kind, namespace, name) platform_operator_object_abnormal{state="RolledBack"}`,
			Summary:     objectName + " is stalled.",
			Description: objectName + " makes no progress until its spec or the cluster is changed. Reason: {{ $labels.reason }}.",
		},
		{
			Name: "PlatformOperatorObjectNotReady", For: "5m", Severity: Warning, Dashboard: objectDashboard, Vars: ofObject,
			Expr:        `max by (kind, namespace, name, reason) (platform_operator_object_abnormal{state="NotReady", reason!~"Canary|Paused|RolloutHeld|RolloutWaiting"}) > 0 unless on (kind, namespace, name) platform_operator_object_abnormal{state=~"RolledBack|Stalled|Unavailable"}`,
			Summary:     objectName + " is not Ready.",
			Description: objectName + " has not been Ready for longer than its deadline. Reason: {{ $labels.reason }}.",
		},
		{
			Name: "PlatformOperatorRolloutRolledBack", For: "0m", Severity: Warning, Dashboard: objectDashboard, Vars: ofObject,
			Expr:        `max by (kind, namespace, name) (platform_operator_object_abnormal{state="RolledBack"}) > 0`,
			Summary:     "A rollout of " + objectName + " was rolled back.",
			Description: "The last change of " + objectName + " failed, and was rolled back to the last healthy revision. The change is not in effect.",
		},
		{
			Name: "PlatformOperatorRolloutsHeld", For: "5m", Severity: Warning, Dashboard: fleetDashboard, Vars: []string{"kind"},
			Expr:        `sum by (kind, namespace) (platform_operator_objects_abnormal{state="Held"}) > 0`,
			Summary:     "Rollouts of {{ $labels.kind }} objects in {{ $labels.namespace }} are held.",
			Description: "{{ $value }} {{ $labels.kind }} objects in {{ $labels.namespace }} are not rolled out, because a ConfigMap or Secret that they use changed and the rollouts of other objects failed.",
		},
		{
			Name: "PlatformOperatorContainerDying", For: "0m", Severity: Warning, Dashboard: objectDashboard, Vars: ofObject,
			Expr:        `max by (kind, namespace, name) (platform_operator_object_abnormal{state="Dying"}) > 0`,
			Summary:     "The container of " + objectName + " ends repeatedly.",
			Description: "The container of " + objectName + " ended at least three times within an hour, and was started again each time.",
		},
		{
			Name: "PlatformOperatorReadyBudgetBurnsFast", For: "2m", Severity: Warning, Dashboard: fleetDashboard, Vars: []string{"kind"},
			Expr:        burns(14.4, "1h", "5m"),
			Summary:     "Many changes of {{ $labels.kind }} objects become Ready late.",
			Description: fmt.Sprintf("{{ $value | humanizePercentage }} of the changes of {{ $labels.kind }} objects within the last hour took longer than %d seconds to become Ready. The objective is %.0f%% within that time.", ObjectiveTime, Objective*100),
		},
		{
			Name: "PlatformOperatorReadyBudgetBurnsSlowly", For: "15m", Severity: Warning, Dashboard: fleetDashboard, Vars: []string{"kind"},
			Expr:        burns(6, "6h", "30m"),
			Summary:     "Changes of {{ $labels.kind }} objects become Ready late.",
			Description: fmt.Sprintf("{{ $value | humanizePercentage }} of the changes of {{ $labels.kind }} objects within the last 6 hours took longer than %d seconds to become Ready. The objective is %.0f%% within that time.", ObjectiveTime, Objective*100),
		},
	}
}

// DashboardPath returns the path of the dashboard for an alert, below the URL of
// Grafana.
func (a Alert) DashboardPath() string {
	var query []string
	for _, v := range a.Vars {
		query = append(query, fmt.Sprintf("var-%s={{ $labels.%s }}", v, v))
	}
	path := "/d/" + a.Dashboard
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	return path
}

type (
	file struct {
		Groups []ruleGroup `json:"groups"`
	}
	ruleGroup struct {
		Name  string `json:"name"`
		Rules []rule `json:"rules"`
	}
	rule struct {
		Record      string            `json:"record,omitempty"`
		Alert       string            `json:"alert,omitempty"`
		Expr        string            `json:"expr"`
		For         string            `json:"for,omitempty"`
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
)

// File returns the rules of an operator of kinds with these resources, in the format of
// Prometheus.
func File(resources []string) ([]byte, error) {
	records, alerts := ruleGroup{Name: "platform-operator.records"}, ruleGroup{Name: "platform-operator.alerts"}
	for _, r := range Records() {
		records.Rules = append(records.Rules, rule{Record: r.Name, Expr: r.Expr})
	}
	for _, a := range Alerts(resources) {
		alerts.Rules = append(alerts.Rules, rule{
			Alert: a.Name, Expr: a.Expr, For: a.For, Labels: map[string]string{"severity": string(a.Severity)},
			Annotations: map[string]string{
				"summary": a.Summary, "description": a.Description, "runbook_url": RunbookURL + a.Name + ".md", "dashboard": a.DashboardPath(),
			},
		})
	}
	out, err := yaml.Marshal(file{[]ruleGroup{records, alerts}})
	if err != nil {
		return nil, fmt.Errorf("encoding the rules: %w", err)
	}
	return append([]byte("# Generated by make generate from pkg/telemetry/rules (hack/observability). Do not edit.\n"), out...), nil
}
