package main

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
)

// measureAdmission returns the latencies of the webhooks for WebServers while do runs.
func (l *lab) measureAdmission(ctx context.Context, do func() error) (latencies, error) {
	before, err := l.admissionBuckets(ctx)
	if err != nil {
		return latencies{}, err
	}
	if err := do(); err != nil {
		return latencies{}, err
	}
	after, err := l.admissionBuckets(ctx)
	if err != nil {
		return latencies{}, err
	}
	for bound := range after {
		after[bound] -= before[bound]
	}
	return summarize(after), nil
}

func (l *lab) admissionBuckets(ctx context.Context) (map[float64]float64, error) {
	raw, err := l.typed.(*kubernetes.Clientset).RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return parseBuckets(string(raw)), nil
}

// parseBuckets returns the buckets of apiserver_admission_webhook_admission_duration_seconds
// by their upper bounds, added up over the mutating and the validating webhook.
func parseBuckets(metrics string) map[float64]float64 {
	buckets := map[float64]float64{}
	for labels, n := range samples(metrics, "apiserver_admission_webhook_admission_duration_seconds_bucket") {
		if !strings.Contains(labels, "webservers") {
			continue
		}
		_, bound, _ := strings.Cut(labels, `le="`)
		bound, _, _ = strings.Cut(bound, `"`)
		if le, err := strconv.ParseFloat(bound, 64); err == nil {
			buckets[le] += n
		}
	}
	return buckets
}

// summarize interpolates in the bucket of the quantile, as Prometheus does.
func summarize(buckets map[float64]float64) latencies {
	bounds := slices.Sorted(maps.Keys(buckets))
	if len(bounds) == 0 || buckets[bounds[len(bounds)-1]] == 0 {
		return latencies{}
	}
	total := buckets[bounds[len(bounds)-1]]
	s := latencies{Calls: int(total), Below5: buckets[0.005] / total, Below25: buckets[0.025] / total}
	lower, below := 0.0, 0.0
	for _, le := range bounds {
		if buckets[le] >= 0.99*total {
			if math.IsInf(le, 1) {
				le = lower
			}
			s.P99 = time.Duration((lower + (le-lower)*(0.99*total-below)/max(buckets[le]-below, 1)) * float64(time.Second))
			break
		}
		lower, below = le, buckets[le]
	}
	return s
}
