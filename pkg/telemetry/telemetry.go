// Package telemetry contains the metrics that all kinds have in common: the
// writes of children, and the conditions of every object.
package telemetry

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

// Writes counts the writes of children.
type Writes struct {
	writes    *prometheus.CounterVec
	contested *prometheus.CounterVec
}

// NewWrites creates the counters and registers them.
func NewWrites(r prometheus.Registerer) (*Writes, error) {
	w := &Writes{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "platform_operator_child_writes_total",
			Help: "Children written, by kind of the owner, kind of the child and what was done. Flat while nothing changes.",
		}, []string{"kind", "child", "action"}),
		contested: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "platform_operator_child_contested_total",
			Help: "Children whose stated fields were changed back by something else in the same request, such as a mutating webhook.",
		}, []string{"kind", "child"}),
	}
	if err := r.Register(w.writes); err != nil {
		return nil, err
	}
	return w, r.Register(w.contested)
}

// Wrote counts a write of a child. owner and child are the names of their
// kinds.
func (w *Writes) Wrote(owner, child string, action apply.Action) {
	w.writes.WithLabelValues(owner, child, string(action)).Inc()
}

// Contested counts a write that something else, such as a mutating webhook,
// reverted in the same request.
func (w *Writes) Contested(owner, child string) { w.contested.WithLabelValues(owner, child).Inc() }

// Conditions is a collector that reads the conditions of every object from the
// cache when it is scraped. Therefore the series of an object end with it,
// without any bookkeeping.
type Conditions struct {
	reader client.Reader
	scheme *runtime.Scheme
	kinds  []client.ObjectList
	active <-chan struct{}

	condition, generation *prometheus.Desc
}

// NewConditions returns the collector. kinds are empty lists of the objects.
// Nothing is reported before active is closed, so that only the leader among
// the replicas reports.
func NewConditions(reader client.Reader, scheme *runtime.Scheme, kinds []client.ObjectList, active <-chan struct{}) *Conditions {
	object := []string{"kind", "namespace", "name"}
	return &Conditions{
		reader: reader, scheme: scheme, kinds: kinds, active: active,
		condition: prometheus.NewDesc("platform_operator_object_condition",
			"Condition of an object: 1 while it is True, 0 otherwise. Absent conditions have no series.", append(object, "condition"), nil),
		generation: prometheus.NewDesc("platform_operator_object_generation_lag",
			"Generations of the spec that the status does not speak about yet.", object, nil),
	}
}

// Describe implements prometheus.Collector.
func (c *Conditions) Describe(ch chan<- *prometheus.Desc) {
	ch <- c.condition
	ch <- c.generation
}

// Collect implements prometheus.Collector.
func (c *Conditions) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-c.active:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for _, empty := range c.kinds {
		list := empty.DeepCopyObject().(client.ObjectList)
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			ch <- prometheus.NewInvalidMetric(c.condition, err)
			continue
		}
		_ = meta.EachListItem(list, func(o runtime.Object) error {
			c.collect(ch, o)
			return nil
		})
	}
}

func (c *Conditions) collect(ch chan<- prometheus.Metric, o runtime.Object) {
	obj, ok := o.(interface {
		client.Object
		GetStatus() *common.Status
	})
	if !ok {
		return
	}
	gvk, err := apiutil.GVKForObject(o, c.scheme)
	if err != nil {
		return
	}
	st := obj.GetStatus()
	for _, cond := range st.Conditions {
		v := 0.0
		if cond.Status == metav1.ConditionTrue {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(c.condition, prometheus.GaugeValue, v, gvk.Kind, obj.GetNamespace(), obj.GetName(), cond.Type)
	}
	ch <- prometheus.MustNewConstMetric(c.generation, prometheus.GaugeValue,
		float64(obj.GetGeneration()-st.ObservedGeneration), gvk.Kind, obj.GetNamespace(), obj.GetName())
}

// Certificate is a collector of the expiry times of the certificates in use.
type Certificate struct {
	ends func() map[string]time.Time
	desc *prometheus.Desc
}

// NewCertificate returns the collector. ends returns the expiry time of each
// existing certificate by its name, such as "serving" and "ca".
func NewCertificate(ends func() map[string]time.Time) *Certificate {
	return &Certificate{ends: ends, desc: prometheus.NewDesc("platform_operator_certificate_expiry_timestamp_seconds",
		"When the certificate of admission and metrics, as this replica serves it, and its CA end, in seconds since 1970.", []string{"certificate"}, nil)}
}

// Describe implements prometheus.Collector.
func (c *Certificate) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *Certificate) Collect(ch chan<- prometheus.Metric) {
	for name, end := range c.ends() {
		ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(end.Unix()), name)
	}
}
