//go:build envtest

package operator_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// A standby becomes the leader when the leader stops, without waiting for a poll.
func TestNew_HandsTheLeaseOverWhenTheLeaderStops(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	env, err := testkit.StartShared(scheme)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	ns := env.NewNamespace(t)
	start := func() (elected <-chan struct{}, stop func()) {
		mgr, err := operator.New(env.AdminConfig, env.Scheme, operator.Options{
			Namespace: ns, Watch: []string{ns}, MetricsAddress: "0", ProbeAddress: "0", LeaderElection: true, SkipNameValidation: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- mgr.Start(ctx) }()
		return mgr.Elected(), func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	elected, stop := start()
	<-elected
	if !ledBy("platform-operator") {
		t.Error(`no metric leader_election_master_status{name="platform-operator"}, which alerts and dashboards use`)
	}
	for range 3 {
		next, stopNext := start()
		began := time.Now()
		stop()
		<-next
		t.Logf("the standby was elected %s after the leader began to stop", time.Since(began).Round(time.Millisecond))
		stop = stopNext
	}
	stop()
}

// ledBy reports whether the metric of the leader election has a name.
func ledBy(name string) bool {
	families, _ := metrics.Registry.Gather()
	for _, f := range families {
		if f.GetName() != "leader_election_master_status" {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "name" && l.GetValue() == name {
					return true
				}
			}
		}
	}
	return false
}
