package telemetry

import (
	"context"
	"errors"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

// scrape returns the series that Prometheus would receive, and the status code.
func scrape(t *testing.T, c ...prometheus.Collector) ([]string, int) {
	t.Helper()
	r := prometheus.NewPedanticRegistry() // rejects metrics that Describe did not announce
	for _, one := range c {
		r.MustRegister(one)
	}
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	var series []string
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "platform_operator_") {
			series = append(series, strings.TrimSpace(line))
		}
	}
	return series, answer.Code
}

func web(name string, generation, observed int64, conditions ...metav1.Condition) *webserverv1.WebServer {
	w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Generation: generation}}
	w.Status.ObservedGeneration, w.Status.Conditions = observed, conditions
	return w
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(s), webserverv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s
}

func kinds() []client.ObjectList { return []client.ObjectList{&webserverv1.WebServerList{}} }

func TestConditions_OfEveryObject(t *testing.T) {
	active := make(chan struct{})
	s := newScheme(t)
	shop := web("shop", 1, 1, metav1.Condition{Type: common.ConditionReady, Status: metav1.ConditionUnknown})
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(shop, web("web", 5, 3,
		metav1.Condition{Type: common.ConditionAvailable, Status: metav1.ConditionTrue},
		metav1.Condition{Type: common.ConditionReady, Status: metav1.ConditionFalse},
	)).Build()
	collector := NewConditions(c, s, kinds(), active)

	if got, _ := scrape(t, collector); len(got) > 0 {
		t.Errorf("before it leads, a replica reports %q", got)
	}
	close(active)
	ofWeb := []string{
		`platform_operator_object_condition{condition="Available",kind="WebServer",name="web",namespace="ns"} 1`,
		`platform_operator_object_condition{condition="Ready",kind="WebServer",name="web",namespace="ns"} 0`,
	}
	got, _ := scrape(t, collector)
	if diff := cmp.Diff([]string{
		ofWeb[0],
		`platform_operator_object_condition{condition="Ready",kind="WebServer",name="shop",namespace="ns"} 0`,
		ofWeb[1],
		`platform_operator_object_generation_lag{kind="WebServer",name="shop",namespace="ns"} 0`,
		`platform_operator_object_generation_lag{kind="WebServer",name="web",namespace="ns"} 2`,
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	if err := c.Delete(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	got, _ = scrape(t, collector)
	if diff := cmp.Diff(append(ofWeb, `platform_operator_object_generation_lag{kind="WebServer",name="web",namespace="ns"} 2`), got); diff != "" {
		t.Errorf("after the object went (-want +got):\n%s", diff)
	}
}

func TestConditions_ScrapeFailsIfTheCacheCannotBeRead(t *testing.T) {
	active := make(chan struct{})
	close(active)
	s := newScheme(t)
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(s).Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("no cache")
		},
	})
	if got, code := scrape(t, NewConditions(c, s, kinds(), active)); code != 500 || len(got) > 0 {
		t.Errorf("got %d %q: no series would look as if there were no objects", code, got)
	}
}

func TestConditions_IgnoreOtherKinds(t *testing.T) {
	active := make(chan struct{})
	close(active)
	s := newScheme(t)
	c := fake.NewClientBuilder().WithScheme(s).WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}).Build()
	if got, code := scrape(t, NewConditions(c, s, []client.ObjectList{&corev1.ConfigMapList{}}, active)); code != 200 || len(got) > 0 {
		t.Errorf("got %d %q", code, got)
	}
}

func TestWrites_AreCounted(t *testing.T) {
	r := prometheus.NewRegistry()
	w, err := NewWrites(r)
	if err != nil {
		t.Fatal(err)
	}
	w.Wrote("WebServer", "Service", apply.Created)
	w.Wrote("WebServer", "Service", apply.Created)
	w.Wrote("WebServer", "Deployment", apply.TakenOver)
	w.Contested("WebServer", "Deployment")
	got, _ := scrape(t, w.writes, w.contested)
	if diff := cmp.Diff([]string{
		`platform_operator_child_contested_total{child="Deployment",kind="WebServer"} 1`,
		`platform_operator_child_writes_total{action="created",child="Service",kind="WebServer"} 2`,
		`platform_operator_child_writes_total{action="taken-over",child="Deployment",kind="WebServer"} 1`,
	}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, err := NewWrites(r); err == nil {
		t.Error("registering twice is no error")
	}
}

func TestCertificate_ReportsExpiry(t *testing.T) {
	ends := map[string]time.Time{}
	c := NewCertificate(func() map[string]time.Time { return ends })
	if series, code := scrape(t, c); code != 200 || len(series) > 0 {
		t.Errorf("without a certificate: %d, %v", code, series)
	}
	ends["serving"], ends["ca"] = time.Unix(2e9, 0), time.Unix(21e8, 0)
	want := []string{
		`platform_operator_certificate_expiry_timestamp_seconds{certificate="ca"} 2.1e+09`,
		`platform_operator_certificate_expiry_timestamp_seconds{certificate="serving"} 2e+09`,
	}
	if series, _ := scrape(t, c); !slices.Equal(series, want) {
		t.Errorf("got %v, want %v", series, want)
	}
}
