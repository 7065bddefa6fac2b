package resources

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// PodMonitor is the intent of one that scrapes the port of that name on the
// pods of that selector. The user's labels never displace the given ones.
func PodMonitor(name, namespace string, labels, selector map[string]string, port string, spec *common.Monitoring) apply.Intent {
	ac := monitoring.PodMonitorConfiguration(name, namespace).
		WithLabels(texts(spec.Labels)).WithLabels(labels)
	ac.Spec = &monitoring.PodMonitorSpec{
		Selector:            monitoring.Selector{MatchLabels: selector},
		PodMetricsEndpoints: []monitoring.PodMetricsEndpoint{{Port: port, Interval: spec.Interval}},
	}
	in := apply.New(ac, func() *monitoring.PodMonitor { return &monitoring.PodMonitor{} })
	in.IfKnown = true // figures can be scraped without it
	return in
}
