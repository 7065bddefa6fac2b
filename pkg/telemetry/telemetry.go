// Package telemetry contains the metrics that all kinds have in common.
//
// Metrics of objects are aggregated from the events of the caches: an event
// changes a few counts, and a scrape copies them. A scrape that lists the cache
// instead would cost time in proportion to the number of objects, and a series
// for each object would cost Prometheus memory. There are no additional requests
// and no additional watches, because the controllers watch the same objects.
package telemetry

import (
	"crypto/x509"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/message"
	"github.com/platform-operator/platform-operator/pkg/version"
)

// Options configures the metrics.
type Options struct {
	// WithoutNamespaces leaves the label namespace of counts of objects empty.
	WithoutNamespaces bool
	// Active is closed when this replica becomes the leader. Only the leader
	// reports about objects, so that the replicas can be added up.
	Active <-chan struct{}
	// Certificates returns each existing certificate by its name, which is serving or
	// ca. If it is nil, there are none.
	Certificates func() map[string]*x509.Certificate
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
}

// Metrics are the metrics of the operator.
type Metrics struct {
	Objects *Objects

	writes, skipped, contested, repaired, failures, refusals *prometheus.CounterVec

	build, unserved *prometheus.GaugeVec
	certificates    certificate
	options         Options
}

// New returns the metrics. They are not registered.
func New(o Options) *Metrics {
	if o.Now == nil {
		o.Now = time.Now
	}
	m := &Metrics{
		Objects: newObjects(o),
		writes:  defWrites.counter(), skipped: defSkipped.counter(), contested: defContested.counter(),
		repaired: defRepaired.counter(), failures: defFailures.counter(), refusals: defRefusals.counter(),
		build: defBuild.gauge(), unserved: defUnserved.gauge(), certificates: certificate{o.Certificates, defCertificate.desc(), defLifetime.desc()}, options: o,
	}
	m.build.WithLabelValues(version.Version).Set(1)
	return m
}

// Register registers all metrics.
func (m *Metrics) Register(r prometheus.Registerer) error {
	errs := []error{r.Register(unreadable)}
	for _, c := range []prometheus.Collector{m.Objects, m.writes, m.skipped, m.contested, m.repaired, m.failures, m.refusals, m.build, m.unserved, m.certificates} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// NewTerm replaces Objects by one that has not seen any, because the caches of a term of
// the controllers begin empty. active is Options.Active of the term.
func (m *Metrics) NewTerm(r prometheus.Registerer, active <-chan struct{}) error {
	r.Unregister(m.Objects)
	m.options.Active = active
	m.Objects = newObjects(m.options)
	if err := r.Register(m.Objects); err != nil {
		return fmt.Errorf("registering the metrics of objects: %w", err)
	}
	return nil
}

// SetUnserved records which kinds the API server does not serve.
func (m *Metrics) SetUnserved(kinds []string) {
	m.unserved.Reset()
	for _, k := range kinds {
		m.unserved.WithLabelValues(k).Set(1)
	}
}

// Child counts what is done to a child. owner and child are the names of their kinds.
func (m *Metrics) Child(owner, child string, e apply.Event) {
	switch {
	case e.Err != nil:
		v := fault.Classify(e.Err)
		reason := known(v.Reason)
		if v.Class == fault.Quiet {
			reason = "WriteConflict"
		}
		m.failures.WithLabelValues(owner, child, reason).Inc()
		return
	case e.Action == apply.Unchanged:
		m.skipped.WithLabelValues(owner, child).Inc()
		return
	}
	m.writes.WithLabelValues(owner, child, string(e.Action)).Inc()
	if e.Drift != "" {
		m.repaired.WithLabelValues(owner, child, string(e.Drift)).Inc()
	}
	if e.Contested {
		m.contested.WithLabelValues(owner, child).Inc()
	}
}

// Refused counts a request that a validating webhook rejected.
func (m *Metrics) Refused(kind, rule, errorType string) {
	m.refusals.WithLabelValues(kind, rule, errorType).Inc()
}

// other is the value of a label whose actual value is not one of the documented
// ones, so that texts of other components cannot add series.
const other = "Other"

var reasons = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for _, m := range message.All() {
		for _, r := range m.Reasons {
			all[r] = true
		}
	}
	return all
})

// known returns a reason of a defined message, or Other.
func known(reason string) string {
	if reasons()[reason] {
		return reason
	}
	return other
}

// unreadable has a series for each watched namespace that is skipped.
var unreadable = defUnreadable.gauge()

// SetUnreadable records whether a watched namespace is skipped.
func SetUnreadable(namespace string, skipped bool) {
	if skipped {
		unreadable.WithLabelValues(namespace).Set(1)
	} else {
		unreadable.DeleteLabelValues(namespace)
	}
}

// certificate is a collector of the expiry times and lifetimes of the certificates in use.
type certificate struct {
	inUse          func() map[string]*x509.Certificate
	ends, lifetime *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c certificate) Describe(ch chan<- *prometheus.Desc) { ch <- c.ends; ch <- c.lifetime }

// Collect implements prometheus.Collector.
func (c certificate) Collect(ch chan<- prometheus.Metric) {
	if c.inUse == nil {
		return
	}
	for name, used := range c.inUse() {
		ch <- prometheus.MustNewConstMetric(c.ends, prometheus.GaugeValue, float64(used.NotAfter.Unix()), name)
		ch <- prometheus.MustNewConstMetric(c.lifetime, prometheus.GaugeValue, used.NotAfter.Sub(used.NotBefore).Seconds(), name)
	}
}
