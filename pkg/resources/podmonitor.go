package resources

import (
	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// Limits of one scrape. Prometheus is shared by all tenants, so that one of them must
// not fill it, nor send it by a redirect to an address that only Prometheus can reach.
// The limits are far above what programs expose: a scrape above them fails as a whole.
const (
	maxSamples = 50_000
	maxLabels  = 100
)

// PodMonitor returns the intent of a PodMonitor that scrapes the named ports of
// the selected pods. The given labels take precedence over the user's.
func PodMonitor(name, namespace string, labels, selector map[string]string, ports []string, spec *common.Monitoring) apply.Intent {
	ac := monitoring.PodMonitorConfiguration(name, namespace).
		WithLabels(config.Texts(spec.Labels)).WithLabels(labels)
	ac.Spec = &monitoring.PodMonitorSpec{
		Selector:    monitoring.Selector{MatchLabels: selector},
		SampleLimit: maxSamples,
		LabelLimit:  maxLabels,
	}
	for _, port := range ports {
		ac.Spec.PodMetricsEndpoints = append(ac.Spec.PodMetricsEndpoints,
			monitoring.PodMetricsEndpoint{Port: port, Interval: spec.Interval, FollowRedirects: new(false)})
	}
	in := apply.New(ac, func() *monitoring.PodMonitor { return &monitoring.PodMonitor{} })
	in.Optional = true // the object works without it
	return in
}
