package resources

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// PodMonitor returns the intent of a PodMonitor that scrapes the named port of
// the selected pods. The given labels take precedence over the user's.
func PodMonitor(name, namespace string, labels, selector map[string]string, port string, spec *common.Monitoring) apply.Intent {
	ac := monitoring.PodMonitorConfiguration(name, namespace).
		WithLabels(texts(spec.Labels)).WithLabels(labels)
	ac.Spec = &monitoring.PodMonitorSpec{
		Selector:            monitoring.Selector{MatchLabels: selector},
		PodMetricsEndpoints: []monitoring.PodMetricsEndpoint{{Port: port, Interval: spec.Interval}},
	}
	in := apply.New(ac, func() *monitoring.PodMonitor { return &monitoring.PodMonitor{} })
	in.Optional = true // the object works without it
	return in
}
