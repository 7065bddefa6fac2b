package telemetry

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Type is the type of a metric.
type Type string

// The types of metrics.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Label is a label of a metric.
type Label struct {
	Name string
	// Values describes the possible values.
	Values string
	// Max is the maximum number of values. 0 means that it depends on the cluster.
	Max int
}

// Definition defines a metric. docs/metrics.md is generated from
// Definitions, so a metric without one cannot be registered.
type Definition struct {
	Name   string
	Type   Type
	Unit   string
	Help   string
	Labels []Label
	// PerObject reports that the metric has series of single objects, which exist
	// only while the object is abnormal. There are at most MaxAbnormal objects.
	PerObject bool
}

// The labels of all metrics.
var (
	labelKind        = Label{"kind", "kind of the object, such as `WebServer`", 8}
	labelChild       = Label{"child", "kind of the child, such as `Deployment`", 16}
	labelNamespace   = Label{"namespace", "namespace of the object; empty if `metrics.namespaces` of the platform configuration is false", 0}
	labelName        = Label{"name", "name of the object", 0}
	labelCondition   = Label{"condition", "type of the condition", 16}
	labelStatus      = Label{"status", "`True`, `False` or `Unknown`", 3}
	labelReason      = Label{"reason", "reason in [conditions.md](conditions.md); `Other` for any other", 64}
	labelState       = Label{"state", "`NotReady` (for longer than `rollout.progressDeadlineSeconds`, or 10 minutes), `Stalled`, `RolledBack`, `Held` (the rollout waits until a shared ConfigMap or Secret is corrected), `Dying` (the container of an ImmortalContainer ended three times within an hour) or `Unavailable` (no pod is healthy, although one was before)", 6}
	labelAction      = Label{"action", "`created`, `changed`, `taken-over`, `deleted` or `released`", 5}
	labelFailed      = Label{"action", "`Rollback` or `Halt`", 2}
	labelCause       = Label{"cause", "reason of the action in `status.lastActions`; `Other` for any other", 64}
	labelDrift       = Label{"drift", "`fields` if fields were changed, `deleted` if the child was deleted", 2}
	labelFailure     = Label{"reason", "reason of the condition; `WriteConflict` if the child changed meanwhile or the cache is outdated, which is retried and not reported; `Other` for any other", 64}
	labelRule        = Label{"rule", "`schema` for validation that depends on the object alone, `policy` for the platform configuration, `scale` for `kubectl scale` and autoscalers", 3}
	labelError       = Label{"error", "type of the first error, such as `Forbidden` or `Invalid`", 12}
	labelCertificate = Label{"certificate", "`serving` or `ca`", 2}
	labelVersion     = Label{"version", "version of the operator", 1}
	labelWatched     = Label{"namespace", "an entry of `watchNamespaces` of the platform configuration", 0}
)

// The metrics. All others at the endpoint are those of controller-runtime,
// client-go and Go.
var (
	defBuild = Definition{
		Name: "platform_operator_build_info", Type: Gauge, Unit: "1", Labels: []Label{labelVersion},
		Help: "1 for each running replica of the operator, with its version.",
	}
	defObjects = Definition{
		Name: "platform_operator_objects", Type: Gauge, Unit: "objects", Labels: []Label{labelKind, labelNamespace},
		Help: "Objects in the cache of the leader. There is no series while there are none.",
	}
	defConditions = Definition{
		Name: "platform_operator_object_conditions", Type: Gauge, Unit: "objects", Labels: []Label{labelKind, labelNamespace, labelCondition, labelStatus},
		Help: "Objects that have a condition with a status. There is no series while there are none.",
	}
	defOutdated = Definition{
		Name: "platform_operator_objects_unobserved", Type: Gauge, Unit: "objects", Labels: []Label{labelKind, labelNamespace},
		Help: "Objects whose status describes an earlier generation of the spec.",
	}
	defAbnormalObjects = Definition{
		Name: "platform_operator_objects_abnormal", Type: Gauge, Unit: "objects", Labels: []Label{labelKind, labelNamespace, labelState},
		Help: "Objects that are abnormal. There is no series while there are none.",
	}
	defAbnormal = Definition{
		Name: "platform_operator_object_abnormal", Type: Gauge, Unit: "1", Labels: []Label{labelKind, labelNamespace, labelName, labelState, labelReason}, PerObject: true,
		Help: "1 for each object that is abnormal, with the reason of its condition Ready. There is no series for other objects.",
	}
	defTransitions = Definition{
		Name: "platform_operator_condition_transitions_total", Type: Counter, Unit: "transitions", Labels: []Label{labelKind, labelCondition, labelStatus, labelReason},
		Help: "Changes of the status or the reason of a condition.",
	}
	defReady = Definition{
		Name: "platform_operator_edit_to_ready_seconds", Type: Histogram, Unit: "seconds", Labels: []Label{labelKind},
		Help: "Time from the creation or the last change of a spec, as first observed by this replica, until the object is Ready. A change that never becomes Ready is not counted.",
	}
	defGone = Definition{
		Name: "platform_operator_deletion_to_gone_seconds", Type: Histogram, Unit: "seconds", Labels: []Label{labelKind},
		Help: "Time from the first observation of the deletion of an object until the object no longer exists. It is 0 for an object without finalizers.",
	}
	defFailedRollouts = Definition{
		Name: "platform_operator_rollouts_failed_total", Type: Counter, Unit: "rollouts", Labels: []Label{labelKind, labelFailed, labelCause},
		Help: "Failed rollouts, which were rolled back or halted, by cause.",
	}
	defRebirths = Definition{
		Name: "platform_operator_rebirths_total", Type: Counter, Unit: "pods", Labels: []Label{labelKind},
		Help: "Pods that replaced an earlier pod of the same ImmortalContainer.",
	}
	defRestarts = Definition{
		Name: "platform_operator_container_restarts_total", Type: Counter, Unit: "restarts", Labels: []Label{labelKind},
		Help: "Restarts of the container within the pod of an ImmortalContainer.",
	}
	defWrites = Definition{
		Name: "platform_operator_child_writes_total", Type: Counter, Unit: "writes", Labels: []Label{labelKind, labelChild, labelAction},
		Help: "Children written, by kind of the owner, kind of the child and what was done. Constant while nothing changes.",
	}
	defSkipped = Definition{
		Name: "platform_operator_child_applies_skipped_total", Type: Counter, Unit: "applies", Labels: []Label{labelKind, labelChild},
		Help: "Children that were compared and not written, because they match already.",
	}
	defContested = Definition{
		Name: "platform_operator_child_contested_total", Type: Counter, Unit: "writes", Labels: []Label{labelKind, labelChild},
		Help: "Children whose applied fields were changed back in the same request by something else, such as a mutating webhook.",
	}
	defRepaired = Definition{
		Name: "platform_operator_drift_repaired_total", Type: Counter, Unit: "writes", Labels: []Label{labelKind, labelChild, labelDrift},
		Help: "Children that were changed or deleted by something else and written again, although their desired state had not changed.",
	}
	defFailures = Definition{
		Name: "platform_operator_child_apply_failures_total", Type: Counter, Unit: "applies", Labels: []Label{labelKind, labelChild, labelFailure},
		Help: "Children that could not be written. Reason Conflict counts unowned objects with the name of a child.",
	}
	defRefusals = Definition{
		Name: "platform_operator_admission_refusals_total", Type: Counter, Unit: "requests", Labels: []Label{labelKind, labelRule, labelError},
		Help: "Requests that the validating webhooks rejected. The schemas of the CRDs reject most invalid objects before that.",
	}
	defCertificate = Definition{
		Name: "platform_operator_certificate_expiry_timestamp_seconds", Type: Gauge, Unit: "seconds", Labels: []Label{labelCertificate},
		Help: "Expiry time of the certificate of the webhooks and the metrics, as served by this replica, and of its CA, in seconds since 1970.",
	}
	defLifetime = Definition{
		Name: "platform_operator_certificate_lifetime_seconds", Type: Gauge, Unit: "seconds", Labels: []Label{labelCertificate},
		Help: "Validity of the certificates above, from their issue until their expiry.",
	}
	defUnserved = Definition{
		Name: "platform_operator_kind_unserved", Type: Gauge, Unit: "1", Labels: []Label{labelKind},
		Help: "1 for each kind that the operator does not manage because the API server does not serve it: its CRD is missing.",
	}
	defUnreadable = Definition{
		Name: "platform_operator_namespace_unreadable", Type: Gauge, Unit: "1", Labels: []Label{labelWatched},
		Help: "1 for each namespace of watchNamespaces that the operator skips because it has no permission to list its objects there.",
	}
)

// Definitions returns the definition of every metric of the operator.
func Definitions() []Definition {
	return []Definition{
		defBuild, defObjects, defConditions, defOutdated, defAbnormalObjects, defAbnormal, defTransitions, defReady, defGone,
		defFailedRollouts, defRebirths, defRestarts, defWrites, defSkipped, defContested, defRepaired, defFailures, defRefusals,
		defCertificate, defLifetime, defUnserved, defUnreadable,
	}
}

func (d Definition) labels() []string {
	names := make([]string, len(d.Labels))
	for i, l := range d.Labels {
		names[i] = l.Name
	}
	return names
}

func (d Definition) desc() *prometheus.Desc {
	return prometheus.NewDesc(d.Name, d.Help, d.labels(), nil)
}

func (d Definition) counter() *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: d.Name, Help: d.Help}, d.labels())
}

func (d Definition) gauge() *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: d.Name, Help: d.Help}, d.labels())
}

// Buckets are the classic buckets of the histograms, in seconds: from a reconcile
// without a rollout up to the longest rollouts.
func Buckets() []float64 { return []float64{.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600} }

// histogram returns a native histogram that also has classic buckets, for a
// Prometheus that does not scrape native ones.
func (d Definition) histogram() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: d.Name, Help: d.Help, Buckets: Buckets(),
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}, d.labels())
}

// LabelUse is a label and the metrics that have it.
type LabelUse struct {
	Label
	In []string
}

// Labels returns the labels of all metrics, in the order of the metrics.
func Labels() []LabelUse {
	var all []LabelUse
	for _, d := range Definitions() {
		for _, l := range d.Labels {
			i := slices.IndexFunc(all, func(u LabelUse) bool { return u.Label == l })
			if i < 0 {
				i, all = len(all), append(all, LabelUse{Label: l})
			}
			all[i].In = append(all[i].In, d.Name)
		}
	}
	return all
}
