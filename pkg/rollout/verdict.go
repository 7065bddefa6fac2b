package rollout

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/judge"
	"github.com/platform-operator/platform-operator/pkg/podstate"
)

const defaultMinRequests = 50

// ReasonErrorRatio is the reason of the failure of a canary with too many errors.
const ReasonErrorRatio = "ErrorRatioExceeded"

// judged reports whether the errors of canaries are counted.
func (d *Decision) judged() bool { return d.question.Rollout.Judged() }

// Judgement returns what the pods of a canary are judged by.
func (d *Decision) Judgement() judge.Settings {
	if !d.judged() {
		return judge.Settings{}
	}
	s := judge.Settings{
		MaxErrorRatio: d.question.Rollout.Canary.MaxErrorRatio, MinRequests: d.minRequests(), HoldSeconds: int64(d.hold() / time.Second),
	}
	if d.canary {
		s.Template = d.Serving.hash
	}
	return s
}

func (d *Decision) minRequests() int64 {
	return int64(ptr.Deref(d.question.Rollout.Canary.MinRequests, defaultMinRequests))
}

// reportOf returns what the judge of a pod reported when it ended, or "".
func reportOf(p *corev1.Pod) string {
	for _, s := range p.Status.InitContainerStatuses {
		if s.Name != judge.Container {
			continue
		}
		for _, state := range []corev1.ContainerState{s.State, s.LastTerminationState} {
			if t := state.Terminated; t != nil && judge.IsReport(t.Message) {
				return t.Message
			}
		}
	}
	return ""
}

// uncounted returns why the requests to a pod of the canary are not known, or "".
func (d *Decision) uncounted(pods []corev1.Pod) (cause string) {
	if !d.judged() {
		return ""
	}
	for _, p := range podsOf(pods, d.Serving.hash) {
		if c := judge.ParseUncounted(reportOf(p)); c != "" && (cause == "" || c < cause) {
			cause = c
		}
	}
	return cause
}

// verdict returns the verdict about the pods of the canary, which is that about all of
// them unless one exceeded the limit.
func (d *Decision) verdict(pods []corev1.Pod) (common.CanaryVerdict, judge.Verdict) {
	all := judge.Verdict{MaxErrorRatio: d.question.Rollout.Canary.MaxErrorRatio}
	own := podsOf(pods, d.Serving.hash)
	known := len(own) > 0
	for _, p := range own {
		v, ok := judge.Parse(reportOf(p))
		switch {
		case ok && v.Exceeded:
			return common.CanaryExceeded, v
		case !ok:
			known = false
		}
		all.Requests += v.Requests
		all.Errors += v.Errors
	}
	if !known {
		return common.CanaryNotJudged, all
	}
	return common.CanaryPassed, all
}

// passed reports whether nothing is known against the promotion of a canary that was ready
// for long enough. Too few requests are no success.
func (d *Decision) passed(pods []corev1.Pod) bool {
	if !d.judged() {
		return true
	}
	verdict, _ := d.verdict(pods)
	return verdict == common.CanaryPassed
}

// exceeded returns the failure of a canary with too many errors, or nil.
func (d *Decision) exceeded(pods []corev1.Pod) *failure {
	if !d.canary || !d.judged() {
		return nil
	}
	verdict, v := d.verdict(pods)
	if verdict != common.CanaryExceeded {
		return nil
	}
	return &failure{reason: ReasonErrorRatio, summary: msgExceeded.With(v.Errors, v.Requests, v.MaxErrorRatio), severity: exceeded, certain: true}
}

// servesSince returns since when a pod of a canary has been ready. A report ends its
// container, which is not one that serves, so that a pod with one counts since its
// containers were started.
func servesSince(p *corev1.Pod) (time.Time, bool) {
	since, ok := podstate.ReadySince(p)
	if !ok || reportOf(p) == "" {
		return since, ok
	}
	return podstate.RunningSince(p), true
}
