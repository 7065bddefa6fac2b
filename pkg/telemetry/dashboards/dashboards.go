// Package dashboards defines the dashboards for Grafana. The JSON files of the chart
// are generated from it.
package dashboards

import (
	"slices"
	"strings"

	"github.com/platform-operator/platform-operator/pkg/telemetry/rules"
)

// Dashboard is a dashboard.
type Dashboard struct {
	UID, Title, Description string
	Variables               []Variable
	Annotations             []Annotation
	Panels                  []Panel
}

// Annotation marks times in all graphs.
type Annotation struct {
	Title, Expr string
	// Text describes a series of the expression.
	Text  string
	Color string
	// AtValue reports that the values are the times, in milliseconds.
	AtValue bool
}

// Variable is a variable whose values are those of a label.
type Variable struct {
	Name, Title string
	// Values is the query label_values of Grafana.
	Values string
	// All allows to select all values.
	All bool
}

// Type is the type of a panel.
type Type string

// The types of panels.
const (
	TimeSeries Type = "timeseries"
	Stat       Type = "stat"
	Table      Type = "table"
	Text       Type = "text"
)

// Panel is a panel. The width of a dashboard is 24.
type Panel struct {
	Title, Description string
	Type               Type
	Unit               string
	Width              int
	Queries            []Query
	// Steps are the colours of values, from the lowest. If there are none, values are not
	// judged: the default of Grafana shows everything above 80 in red.
	Steps []Step
	// Links are followed from a value.
	Links []Link
	// Content is the Markdown of a text.
	Content string
}

// Query is a query of a panel.
type Query struct{ Expr, Legend string }

// Step is the colour of values from From on. From of the first one is ignored.
type Step struct {
	Color string
	From  float64
}

// Link is a link.
type Link struct{ Title, URL string }

// The UIDs of dashboards to which others link. The alerts use them, too.
const (
	UIDFleet    = "platform-operator-fleet"
	UIDObject   = "platform-operator-object"
	UIDOperator = "platform-operator-operator"
)

var (
	kindVariable      = Variable{Name: "kind", Title: "Kind", Values: "label_values(platform_operator_objects, kind)", All: true}
	oneKind           = Variable{Name: "kind", Title: "Kind", Values: "label_values(platform_operator_objects, kind)"}
	namespaceVariable = Variable{Name: "namespace", Title: "Namespace", Values: `label_values(platform_operator_objects{kind=~"$kind"}, namespace)`, All: true}
	oneNamespace      = Variable{Name: "namespace", Title: "Namespace", Values: `label_values(platform_operator_objects{kind=~"$kind"}, namespace)`}
	nameVariable      = Variable{Name: "name", Title: "Object", Values: `label_values(platform_operator_object_abnormal{kind=~"$kind", namespace=~"$namespace"}, name)`}
	jobVariable       = Variable{Name: "job", Title: "Job", Values: `label_values(leader_election_master_status{name="platform-operator"}, job)`}
)

var (
	toObject  = Link{"The object", "/d/" + UIDObject + "?var-kind=${__data.fields.kind}&var-namespace=${__data.fields.namespace}&var-name=${__data.fields.name}"}
	toRunbook = Link{"Runbook", rules.RunbookURL + "${__data.fields.alertname}.md"}
)

// All returns all dashboards. kinds are the names of the operator's kinds.
func All(kinds []string) []Dashboard {
	all := []Dashboard{fleet(), object(), operator()}
	for _, k := range kinds {
		all = append(all, kind(k))
	}
	return all
}

func fleet() Dashboard {
	return Dashboard{
		UID: UIDFleet, Title: "Platform operator / Fleet", Description: "All objects of the platform operator.",
		Variables: []Variable{kindVariable, namespaceVariable}, Annotations: failures(`kind=~"$kind"`),
		Panels: append(objectPanels(`kind=~"$kind"`), alertPanel()),
	}
}

const (
	failedRollouts = "Failed rollouts"
	immortal       = "ImmortalContainer"
)

func kind(name string) Dashboard {
	v := namespaceVariable
	matcher := `kind="` + name + `"`
	v.Values = "label_values(platform_operator_objects{" + matcher + "}, namespace)"
	panels, annotations := objectPanels(matcher), failures(matcher)
	if name == immortal { // it has no rollouts, and no other kind counts its restarts
		panels, annotations = slices.DeleteFunc(panels, func(p Panel) bool { return p.Title == failedRollouts }), nil
		panels = append(panels, series("Restarts", "Pods that replaced an earlier one, and restarts of containers, per hour.", "short",
			`3600 * sum(rate(platform_operator_rebirths_total{`+matcher+`}[$__rate_interval]))`, "pods",
			`3600 * sum(rate(platform_operator_container_restarts_total{`+matcher+`}[$__rate_interval]))`, "containers"))
	}
	return Dashboard{
		UID: "platform-operator-kind-" + strings.ToLower(name), Title: "Platform operator / " + name, Description: "All objects of kind " + name + ".",
		Variables: []Variable{v}, Annotations: annotations,
		Panels: append(panels,
			series("Children written", "Writes of children per second, by kind of the child. It is 0 while nothing changes.", "wps",
				`sum by (child, action) (rate(platform_operator_child_writes_total{`+matcher+`}[$__rate_interval]))`, "{{child}} {{action}}"),
			series("Applies skipped", "Children per second that match already and are not written.", "ops",
				`sum by (child) (rate(platform_operator_child_applies_skipped_total{`+matcher+`}[$__rate_interval]))`, "{{child}}"),
			series("Refused requests", "Requests per second that the validating webhooks rejected.", "reqps",
				`sum by (rule, error) (rate(platform_operator_admission_refusals_total{`+matcher+`}[$__rate_interval]))`, "{{rule}} {{error}}"),
		),
	}
}

// failures mark the failed rollouts of objects that a matcher selects.
func failures(matcher string) []Annotation {
	return []Annotation{{
		Title: failedRollouts, Color: "red", Text: "{{kind}}: {{action}}, {{cause}}",
		Expr: `sum by (kind, action, cause) (increase(platform_operator_rollouts_failed_total{` + matcher + `}[$__rate_interval])) > 0`,
	}}
}

// objectPanels are the panels about objects that a matcher selects. The metrics with
// a label namespace are also selected by the variable.
func objectPanels(matcher string) []Panel {
	both := matcher + `, namespace=~"$namespace"`
	return []Panel{
		stat("Objects", "Number of objects.", "short", `sum(platform_operator_objects{`+both+`})`, nil),
		stat("Ready", "Share of the objects that are Ready.", "percentunit",
			`(sum(platform_operator_object_conditions{`+both+`, condition="Ready", status="True"}) or vector(0)) / sum(platform_operator_objects{`+both+`})`, share),
		stat("Available", "Share of the objects that are serving, with the current or an earlier spec.", "percentunit",
			`(sum(platform_operator_object_conditions{`+both+`, condition="Available", status="True"}) or vector(0)) / sum(platform_operator_objects{`+both+`})`, share),
		stat("Abnormal", "Objects in an abnormal state. An object with two states counts twice.", "short",
			`sum(platform_operator_objects_abnormal{`+both+`}) or vector(0)`, []Step{{"green", 0}, {"orange", 1}}),
		{
			Title: "Abnormal objects", Description: "The objects that need attention. At most 500 are listed.", Type: Table, Unit: "short", Width: 24,
			Queries: []Query{{`max by (kind, namespace, name, state, reason) (platform_operator_object_abnormal{` + both + `})`, ""}}, Links: []Link{toObject},
		},
		series("Conditions", "Objects by condition and status.", "short",
			`sum by (condition, status) (platform_operator_object_conditions{`+both+`})`, "{{condition}}={{status}}"),
		series("Not yet observed", "Objects whose status describes an earlier generation. It is above 0 while the queue is long.", "short",
			`sum by (kind) (platform_operator_objects_unobserved{`+both+`})`, "{{kind}}"),
		series("Time from edit to Ready", "How long changes of specs take until the object is Ready. Not selected by namespace.", "s",
			`histogram_quantile(0.5, sum by (le) (rate(platform_operator_edit_to_ready_seconds_bucket{`+matcher+`}[$__rate_interval])))`, "median",
			`histogram_quantile(0.99, sum by (le) (rate(platform_operator_edit_to_ready_seconds_bucket{`+matcher+`}[$__rate_interval])))`, "99%"),
		series("Time from deletion to gone", "How long deletions take. Not selected by namespace.", "s",
			`histogram_quantile(0.99, sum by (le) (rate(platform_operator_deletion_to_gone_seconds_bucket{`+matcher+`}[$__rate_interval])))`, "99%"),
		series("Late changes", "Share of the changes that are not Ready within the objective, over an hour. Not selected by namespace.", "percentunit",
			`kind:platform_operator_edit_to_ready_slow:ratio_rate1h{`+matcher+`}`, "{{kind}}"),
		series(failedRollouts, "Rollouts per hour that were rolled back or halted, by cause. Not selected by namespace.", "short",
			`3600 * sum by (action, cause) (rate(platform_operator_rollouts_failed_total{`+matcher+`}[$__rate_interval]))`, "{{action}} {{cause}}"),
		series("Drift repaired", "Children per second that were changed or deleted by something else and restored. Not selected by namespace.", "wps",
			`sum by (child, drift) (rate(platform_operator_drift_repaired_total{`+matcher+`}[$__rate_interval]))`, "{{child}} {{drift}}"),
		series("Failed applies", "Children per second that could not be written, by reason. Not selected by namespace.", "ops",
			`sum by (child, reason) (rate(platform_operator_child_apply_failures_total{`+matcher+`}[$__rate_interval]))`, "{{child}} {{reason}}",
			`sum by (child) (rate(platform_operator_child_contested_total{`+matcher+`}[$__rate_interval]))`, "{{child}} contested"),
	}
}

func object() Dashboard {
	const (
		one = `kind="$kind", namespace="$namespace", name="$name"`
		// The kubelets serve these metrics of containers, and Prometheus usually reads them.
		pods     = `{namespace="$namespace", pod=~"$name-([a-z0-9]+-[a-z0-9]{5}|immortalpod)", container!=""}`
		web      = `{namespace="$namespace", pod=~"$name-[a-z0-9]+-[a-z0-9]{5}"}`
		template = `, "template", "$1", "pod", ".*-([a-z0-9]+)-[a-z0-9]{5}")`
		commands = "```sh\nkubectl platform status $kind/$name -n $namespace\nkubectl platform history $kind/$name -n $namespace\nkubectl platform logs $kind/$name -n $namespace\n```"
	)
	return Dashboard{
		UID: UIDObject, Title: "Platform operator / Object",
		Description: "One object. The list has those that were abnormal within the selected time; type the name of another one.",
		Variables:   []Variable{oneKind, oneNamespace, nameVariable},
		Annotations: []Annotation{
			{
				Title: "Rollouts", Color: "blue", Text: "template {{template}}", AtValue: true,
				Expr: `1000 * min by (template) (label_replace(container_start_time_seconds` + pods + template + `)`,
			},
			{Title: "Abnormal", Color: "red", Text: "{{state}} ({{reason}})", Expr: `max by (state, reason) (platform_operator_object_abnormal{` + one + `})`},
		},
		Panels: []Panel{
			{Title: "Commands", Description: "The cause and the remedy, the revisions, and the logs.", Type: Text, Unit: "short", Width: 24, Content: commands},
			{
				Title: "Abnormal states", Description: "States of the object that need attention. No data means that it is healthy.", Type: Stat, Unit: "short", Width: 24,
				Queries: []Query{{`max by (state, reason) (platform_operator_object_abnormal{` + one + `})`, "{{state}} ({{reason}})"}},
			},
			series("States", "When the object was in which state.", "short", `max by (state, reason) (platform_operator_object_abnormal{`+one+`})`, "{{state}} ({{reason}})"),
			series("Pods", "Pods that run, by pod template, as the kubelets report them.", "short",
				`count by (template) (count by (pod, template) (label_replace(container_memory_working_set_bytes`+pods+template+`))`, "{{template}}"),
			series("CPU", "Processors in use by each container.", "short", `sum by (pod, container) (rate(container_cpu_usage_seconds_total`+pods+`[$__rate_interval]))`, "{{pod}} {{container}}"),
			series("Memory", "Working set of each container.", "bytes", `sum by (pod, container) (container_memory_working_set_bytes`+pods+`)`, "{{pod}} {{container}}"),
			series("Requests", "Requests to nginx per second, of a WebServer with spec.monitoring.enabled; by status with rollout.canary.maxErrorRatio.", "reqps",
				`sum by (pod) (rate(nginx_http_requests_total`+web+`[$__rate_interval]))`, "{{pod}}",
				`sum by (code) (rate(webserver_http_responses_total`+web+`[$__rate_interval]))`, "{{code}}"),
			series("Its namespace", "Objects of the same kind and namespace, by state.", "short",
				`sum by (state) (platform_operator_objects_abnormal{kind="$kind", namespace="$namespace"})`, "{{state}}",
				`sum(platform_operator_objects{kind="$kind", namespace="$namespace"})`, "objects"),
			series("Transitions of its kind", "Changes of conditions per second in all namespaces. Many at once point to a common cause.", "ops",
				`sum by (condition, status, reason) (rate(platform_operator_condition_transitions_total{kind="$kind"}[$__rate_interval]))`, "{{condition}}={{status}} {{reason}}"),
			series("Failed applies of its kind", "Children per second that could not be written, by reason, in all namespaces.", "ops",
				`sum by (child, reason) (rate(platform_operator_child_apply_failures_total{kind="$kind"}[$__rate_interval]))`, "{{child}} {{reason}}"),
			{
				Title: "Alerts", Description: "Alerts about the object. A value links to the runbook.", Type: Table, Unit: "short", Width: 24,
				Queries: []Query{{`ALERTS{alertname=~"PlatformOperator.*", ` + one + `}`, ""}}, Links: []Link{toRunbook},
			},
		},
	}
}

func operator() Dashboard {
	const job = `job="$job"`
	return Dashboard{
		UID: UIDOperator, Title: "Platform operator / Operator", Description: "The operator itself.",
		Variables: []Variable{jobVariable},
		Panels: []Panel{
			stat("Replicas", "Replicas that Prometheus can scrape.", "short", `sum(up{`+job+`})`, []Step{{"red", 0}, {"green", 1}}),
			stat("Leaders", "Replicas that hold the Lease. It must be 1.", "short", `sum(leader_election_master_status{`+job+`, name="platform-operator"})`, []Step{{"red", 0}, {"green", 1}, {"red", 2}}),
			stat("Certificate", "Time until the certificate or its CA expires.", "s", `min(platform_operator_certificate_expiry_timestamp_seconds{`+job+`}) - time()`, []Step{{"red", 0}, {"green", 24 * 3600}}),
			stat("Unreadable namespaces", "Watched namespaces that are skipped, because the operator has no permission in them.", "short", `sum(platform_operator_namespace_unreadable{`+job+`}) or vector(0)`, []Step{{"green", 0}, {"red", 1}}),
			series("Version", "Replicas by version.", "short", `sum by (version) (platform_operator_build_info{`+job+`})`, "{{version}}"),
			series("Reconciles", "Reconciles per second.", "ops", `sum by (controller, result) (rate(controller_runtime_reconcile_total{`+job+`}[$__rate_interval]))`, "{{controller}} {{result}}"),
			series("Errors", "Reconciles per second that ended with an error, or with a panic.", "ops",
				`sum by (controller) (rate(controller_runtime_reconcile_errors_total{`+job+`}[$__rate_interval]))`, "{{controller}}",
				`sum by (controller) (rate(controller_runtime_reconcile_panics_total{`+job+`}[$__rate_interval]))`, "{{controller}} panics"),
			series("Duration of reconciles", "99th percentile.", "s",
				`histogram_quantile(0.99, sum by (controller, le) (rate(controller_runtime_reconcile_time_seconds_bucket{`+job+`}[$__rate_interval])))`, "{{controller}}"),
			series("Queue", "Objects that wait to be reconciled.", "short", `sum by (controller) (workqueue_depth{`+job+`})`, "{{controller}}"),
			series("Wait in the queue", "99th percentile.", "s",
				`histogram_quantile(0.99, sum by (controller, le) (rate(workqueue_queue_duration_seconds_bucket{`+job+`}[$__rate_interval])))`, "{{controller}}"),
			series("Workers", "Share of the workers that are active.", "percentunit",
				`sum by (controller) (controller_runtime_active_workers{`+job+`}) / sum by (controller) (controller_runtime_max_concurrent_reconciles{`+job+`})`, "{{controller}}"),
			series("Requests", "Requests to the API server per second, by status code. Nearly 0 while nothing changes.", "reqps",
				`sum by (method, code) (rate(rest_client_requests_total{`+job+`}[$__rate_interval]))`, "{{method}} {{code}}"),
			series("Admission", "Calls of the webhooks per second, by status code of HTTP.", "reqps",
				`sum by (webhook, code) (rate(controller_runtime_webhook_requests_total{`+job+`}[$__rate_interval]))`, "{{webhook}} {{code}}"),
			series("Duration of admission", "99th percentile.", "s",
				`histogram_quantile(0.99, sum by (webhook, le) (rate(controller_runtime_webhook_latency_seconds_bucket{`+job+`}[$__rate_interval])))`, "{{webhook}}"),
			series("Memory", "Resident memory of each replica.", "bytes", `process_resident_memory_bytes{`+job+`}`, "{{pod}}"),
			series("CPU", "Processors in use by each replica.", "short", `rate(process_cpu_seconds_total{`+job+`}[$__rate_interval])`, "{{pod}}"),
			alertPanel(),
		},
	}
}

func alertPanel() Panel {
	return Panel{
		Title: "Alerts", Description: "Alerts of the operator and of objects. A value links to the runbook.", Type: Table, Unit: "short", Width: 24,
		Queries: []Query{{`ALERTS{alertname=~"PlatformOperator.*"}`, ""}}, Links: []Link{toRunbook},
	}
}

// share are the colours of a share that should be 1.
var share = []Step{{"red", 0}, {"orange", 0.9}, {"green", 0.999}}

func stat(title, description, unit, expr string, steps []Step) Panel {
	return Panel{Title: title, Description: description, Type: Stat, Unit: unit, Width: 6, Queries: []Query{{expr, ""}}, Steps: steps}
}

// series returns a graph. queries are pairs of an expression and a legend.
func series(title, description, unit string, queries ...string) Panel {
	p := Panel{Title: title, Description: description, Type: TimeSeries, Unit: unit, Width: 12}
	for i := 0; i+1 < len(queries); i += 2 {
		p.Queries = append(p.Queries, Query{queries[i], queries[i+1]})
	}
	return p
}
