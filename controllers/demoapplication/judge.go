package demoapplication

import (
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/resources"
	"github.com/platform-operator/platform-operator/pkg/workload"
)

// verdictVolume keeps the verdict about a pod.
const verdictVolume = "judge-verdict"

// scratch returns the empty volumes of the operator.
func scratch(a *demoapplicationv1.DemoApplication) []string {
	if a.Spec.Rollout.Shared().Judged() {
		return []string{verdictVolume}
	}
	return nil
}

// addJudge adds a container that reads the counts of requests from the metrics of the
// application.
func addJudge(pod *corev1ac.PodSpecApplyConfiguration, a *demoapplicationv1.DemoApplication, image string) {
	volume, mount := resources.Scratch(verdictVolume, judge.VerdictFolder)
	pod.WithVolumes(volume, workload.JudgeVolume(a)).
		WithInitContainers(workload.JudgeContainer(image, a.Spec.Resources).WithArgs("--scrape").WithVolumeMounts(mount))
}

// requestMetrics returns where the requests to a pod are counted, or nil.
func requestMetrics(a *demoapplicationv1.DemoApplication) *judge.Metrics {
	if !a.Spec.Rollout.Shared().Judged() {
		return nil
	}
	m := &judge.Metrics{Port: metricsNumber(a)}
	if c := a.Spec.Rollout.RequestCounter; c != nil {
		m.Path, m.Name, m.Code = c.Path, c.Name, c.Label
		if c.Port != nil {
			m.Port = *c.Port
		}
	}
	if p := a.Spec.Probes; p != nil {
		m.Probes = perMinute(p.Readiness) + perMinute(p.Liveness)
	}
	return m
}

// perMinute returns how often a probe sends an HTTP request.
func perMinute(p *common.Probe) int64 {
	switch {
	case p == nil || p.HTTPGet == nil:
		return 0
	case p.PeriodSeconds == nil || *p.PeriodSeconds == 0:
		return 6 // the default of Kubernetes is ten seconds
	}
	return 60/int64(*p.PeriodSeconds) + 1
}
