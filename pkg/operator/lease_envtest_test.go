//go:build envtest

package operator_test

import (
	"context"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/platform-operator/platform-operator/pkg/certificates"
	"github.com/platform-operator/platform-operator/pkg/operator"
	"github.com/platform-operator/platform-operator/pkg/testkit"
)

// A standby becomes the leader when the leader stops, without waiting for a poll. Before
// that, it already serves the certificate of the webhooks.
func TestNew_HandsTheLeaseOverWhenTheLeaderStops(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	env := testkit.Shared(t, scheme)
	ns := env.NewNamespace(t)
	for _, c := range []client.Object{&admissionregistrationv1.ValidatingWebhookConfiguration{}, &admissionregistrationv1.MutatingWebhookConfiguration{}} {
		c.SetName(ns)
		if err := env.Admin.Create(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Admin.Delete(context.WithoutCancel(t.Context()), c); err != nil {
				t.Error(err)
			}
		})
	}
	start := func() (elected <-chan struct{}, stop func()) {
		mgr, err := operator.New(env.AdminConfig, env.Scheme, operator.Options{
			Namespace: ns, Watch: []string{ns}, MetricsAddress: "0", ProbeAddress: "0", LeaderElection: true, SkipNameValidation: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		certificate := &certificates.Rotator{Secret: "certificate", Configuration: ns, Services: []string{"webhooks"}}
		if err := certificate.AddTo(mgr, ns); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- mgr.Start(ctx) }()
		if err := testkit.Eventually(ctx, "the certificate to be served", func(context.Context) (bool, error) {
			_, err := certificate.GetCertificate(nil)
			return err == nil, nil
		}); err != nil {
			t.Fatal(err)
		}
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
