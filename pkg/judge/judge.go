// Package judge counts the statuses of the requests to a pod, and decides whether a canary
// has too many errors. It runs in the pod, and the operator reads its verdict from the status
// of the container: neither needs the network or the API of the other one.
package judge

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Names in the pod, and of the files that the container reads.
const (
	// Container is the name of the container.
	Container = "judge"
	// Port is that of the log, a UDP port on the loopback interface.
	Port = 9181
	// MetricsName is the name of the port at which the counts are metrics.
	MetricsName = "judge-metrics"
	// VerdictFolder keeps the verdict over restarts of the container.
	VerdictFolder = "/run"
	// CanaryFile contains Settings.
	CanaryFile = "canary"
	// TemplateFile contains the hash of the pod's own template.
	TemplateFile = "template"
)

// Settings is what a pod is judged by.
type Settings struct {
	// Template is the hash of the template that is held as a canary, and "" if none is.
	// Other pods are not judged.
	Template      string `json:"template,omitempty"`
	MaxErrorRatio string `json:"maxErrorRatio"`
	MinRequests   int64  `json:"minRequests"`
	HoldSeconds   int64  `json:"holdSeconds"`
	// Metrics is where requests are counted. nil for the log of nginx.
	Metrics *Metrics `json:"metrics,omitempty"`
}

// Encode returns the content of CanaryFile.
func (s Settings) Encode() string {
	raw, _ := json.Marshal(s) // strings and numbers can be encoded
	return string(raw)
}

// Verdict is the result for one pod.
type Verdict struct {
	Requests, Errors int64
	// Exceeded reports that there were certainly more errors than MaxErrorRatio.
	Exceeded      bool
	MaxErrorRatio string
}

const text = "%d of %d requests failed with 5xx: %s the limit of %s"

var pattern = regexp.MustCompile(`^(\d{1,18}) of (\d{1,18}) requests failed with 5xx: (more than|within) the limit of (\S{1,8})$`)

// String returns the termination message of the container.
func (v Verdict) String() string {
	than := "within"
	if v.Exceeded {
		than = "more than"
	}
	return fmt.Sprintf(text, v.Errors, v.Requests, than, v.MaxErrorRatio)
}

// Parse returns the verdict in a termination message, and false if it is another message.
func Parse(message string) (Verdict, bool) {
	m := pattern.FindStringSubmatch(strings.TrimSpace(message))
	if m == nil {
		return Verdict{}, false
	}
	v := Verdict{Exceeded: m[3] == "more than", MaxErrorRatio: m[4]}
	v.Errors, _ = strconv.ParseInt(m[1], 10, 64) // digits
	v.Requests, _ = strconv.ParseInt(m[2], 10, 64)
	return v, true
}

const (
	uncounted = "the requests are not counted: "
	counted   = "the requests are counted now" // after the former
)

// ParseUncounted returns why the requests to a pod are not known, if that is the termination
// message, and "" if it is another one.
func ParseUncounted(message string) string {
	cause, ok := strings.CutPrefix(strings.TrimSpace(message), uncounted)
	if !ok {
		return ""
	}
	return cause
}

// IsReport reports whether a container ended with this message only to report it.
func IsReport(message string) bool {
	_, verdict := Parse(message)
	return verdict || ParseUncounted(message) != "" || strings.TrimSpace(message) == counted
}

// z is the 97.5th percentile of the normal distribution: the interval between the bounds
// contains the ratio with a probability of 95 %.
const z = 1.959964

// lowerBound returns the lower bound of Wilson's score interval for a ratio of which a
// sample is known (Wilson, Probable Inference, the Law of Succession, and Statistical
// Inference, JASA 22, 1927, p. 209-212). The ratio of a small sample is often much larger
// than that of all requests, and its lower bound is not.
func lowerBound(errors, requests int64) float64 {
	if requests == 0 {
		return 0
	}
	n := float64(requests)
	p := float64(errors) / n
	return (p + z*z/(2*n) - z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))) / (1 + z*z/n)
}

// decide returns the verdict about the requests since a pod has been judged, and false if
// there is none yet: too few requests are no success, and a canary passes after its hold.
func (s Settings) decide(errors, requests int64, after time.Duration) (Verdict, bool) {
	percent, err := strconv.ParseFloat(strings.TrimSuffix(s.MaxErrorRatio, "%"), 64)
	if err != nil || requests < s.MinRequests {
		return Verdict{}, false
	}
	v := Verdict{Requests: requests, Errors: errors, MaxErrorRatio: s.MaxErrorRatio}
	v.Exceeded = lowerBound(errors, requests) > percent/100
	return v, v.Exceeded || after >= time.Duration(s.HoldSeconds)*time.Second
}
