package fairqueue

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// controller-runtime registers the metrics of work queues but does not export
// them. They are found by registering identical ones, so that the alerts and
// dashboards for controller-runtime's queues also work for this one.
var (
	labels = []string{"name", "controller"}

	depth = registered(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.DepthKey,
		Help: "Current depth of workqueue by workqueue and priority",
	}, []string{"name", "controller", "priority"}))
	adds = registered(prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.AddsKey,
		Help: "Total number of adds handled by workqueue",
	}, labels))
	latency = registered(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.QueueLatencyKey,
		Help: "How long in seconds an item stays in workqueue before being requested",
	}, labels))
	duration = registered(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.WorkDurationKey,
		Help: "How long in seconds processing an item from workqueue takes.",
	}, labels))
	unfinished = registered(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.UnfinishedWorkKey,
		Help: "How many seconds of work has been done that " +
			"is in progress and hasn't been observed by work_duration. Large " +
			"values indicate stuck threads. One can deduce the number of stuck " +
			"threads by observing the rate at which this increases.",
	}, labels))
	longestRunning = registered(prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.LongestRunningProcessorKey,
		Help: "How many seconds has the longest running " +
			"processor for workqueue been running.",
	}, labels))
	retries = registered(prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: metrics.WorkQueueSubsystem, Name: metrics.RetriesKey,
		Help: "Total number of items added to the workqueue with a non-zero delay (rate-limited requeues, explicit RequeueAfter or AddAfter calls)",
	}, labels))
)

// registered returns the metric that is registered with the description of c.
// If another version of controller-runtime describes it differently, c is
// returned, which is not exposed; a test reports that.
func registered[C prometheus.Collector](c C) C {
	var already prometheus.AlreadyRegisteredError
	if err := metrics.Registry.Register(c); errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return c
}

// queueMetrics are the metrics of one queue.
type queueMetrics struct {
	depth                      [classes]prometheus.Gauge
	adds, retries              prometheus.Counter
	latency, duration          prometheus.Observer
	unfinished, longestRunning prometheus.Gauge
}

func newQueueMetrics(name string) *queueMetrics {
	m := &queueMetrics{
		adds: adds.WithLabelValues(name, name), retries: retries.WithLabelValues(name, name),
		latency: latency.WithLabelValues(name, name), duration: duration.WithLabelValues(name, name),
		unfinished: unfinished.WithLabelValues(name, name), longestRunning: longestRunning.WithLabelValues(name, name),
	}
	for c, p := range priorities {
		m.depth[c] = depth.WithLabelValues(name, name, strconv.Itoa(p))
	}
	return m
}

func (m *queueMetrics) add(class int) {
	m.adds.Inc()
	m.depth[class].Inc()
}

func (m *queueMetrics) move(from, to int) {
	m.depth[from].Dec()
	m.depth[to].Inc()
}

// postpone is the opposite of add, except that adds is a counter.
func (m *queueMetrics) postpone(class int) { m.depth[class].Dec() }

func (m *queueMetrics) get(class int, waited time.Duration) {
	m.depth[class].Dec()
	m.latency.Observe(waited.Seconds())
}

func (m *queueMetrics) done(took time.Duration) { m.duration.Observe(took.Seconds()) }

func (m *queueMetrics) retry() { m.retries.Inc() }

func (m *queueMetrics) running(total, longest time.Duration) {
	m.unfinished.Set(total.Seconds())
	m.longestRunning.Set(longest.Seconds())
}
