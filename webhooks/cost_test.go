package webhooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/controllers"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/webhookserver"
)

// deadAPIServer counts the requests that it receives, and answers none.
type deadAPIServer struct{ asked atomic.Int64 }

func (n *deadAPIServer) RoundTrip(*http.Request) (*http.Response, error) {
	n.asked.Add(1)
	return nil, errors.New("admission asks the API server for nothing")
}

// served returns the handlers of the webhook server, without a server.
func served(tb testing.TB, platform config.Platform) (http.Handler, *deadAPIServer) {
	tb.Helper()
	scheme := runtime.NewScheme()
	if err := controllers.AddToScheme(scheme); err != nil {
		tb.Fatal(err)
	}
	api := &deadAPIServer{}
	cfg := &rest.Config{Host: "https://localhost:1", Transport: api}
	mgr, err := manager.New(cfg, manager.Options{
		Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return meta.NewDefaultRESTMapper(nil), nil },
	})
	if err != nil {
		tb.Fatal(err)
	}
	if err := Setup(mgr, platform, nil); err != nil {
		tb.Fatal(err)
	}
	return mgr.GetWebhookServer().WebhookMux(), api
}

// specimen is an object as the API server sends it: with the fields that it adds,
// and many of those that a user can set.
const specimen = `
apiVersion: my.domain/v1
kind: WebServer
metadata:
  name: web
  namespace: team
  uid: 0d4cbd1c-4f0a-4b5f-8b2f-6d1b5d6ff4c3
  labels: {team: a, tier: front}
spec:
  image: nginx:1.23.1
  replicas: 3
  deletionPolicy: Orphan
  service: {type: ClusterIP}
  env: [{name: A, value: b}, {name: C, value: d}]
  resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 128Mi}}
  probes: {readiness: {httpGet: {path: /ready, port: http}}}
`

// objectOf returns the specimen as JSON.
func objectOf(tb testing.TB) []byte {
	tb.Helper()
	obj, err := yaml.YAMLToJSON([]byte(specimen))
	if err != nil {
		tb.Fatal(err)
	}
	return obj
}

// review is an admission request of the API server.
func review(tb testing.TB) []byte {
	tb.Helper()
	raw, err := json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: "1", Operation: admissionv1.Create, Namespace: "team", Name: "web",
			Kind:     metav1.GroupVersionKind{Group: "my.domain", Version: "v1", Kind: "WebServer"},
			Resource: metav1.GroupVersionResource{Group: "my.domain", Version: "v1", Resource: "webservers"},
			Object:   runtime.RawExtension{Raw: objectOf(tb)},
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// ask calls both webhooks of a WebServer once, as its creation with the deletion
// policy Orphan does.
func ask(tb testing.TB, h http.Handler, body []byte) {
	tb.Helper()
	for _, path := range []string{"/mutate-my-domain-v1-webserver", "/validate-my-domain-v1-webserver"} {
		r := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, path, bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if !bytes.Contains(w.Body.Bytes(), []byte(`"allowed":true`)) {
			tb.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestAdmission_SendsNoRequestsAndAllocatesLittle(t *testing.T) {
	h, api := served(t, config.Default())
	body := review(t)
	// Measured: about half of the limit. One more copy of the object, or a regular
	// expression that is compiled in each call, exceeds it.
	const most = 2000
	got := testing.AllocsPerRun(100, func() { ask(t, h, body) })
	t.Logf("%.0f allocations for the two calls of a creation", got)
	if got > most {
		t.Errorf("%.0f allocations, at most %d", got, most)
	}
	if n := api.asked.Load(); n > 0 {
		t.Errorf("%d requests to the API server", n)
	}
}

// The webhook server limits what requests cost at a time. These are the bodies that
// cost the most of those that were tried: they fail no schema, because they do not
// come from the API server.
func TestAdmission_AllocatesNoMoreThanTheWebhookServerAssumes(t *testing.T) {
	h, _ := served(t, configured(t, "defaults: [{spec: {networkPolicy: {preset: Isolated}, pod: {labels: {team: a}}}}]"))
	const n = 20_000
	empty := "[{}" + strings.Repeat(",{}", n) + "]"
	const valuesOfEmpty = 2*n + 2
	for name, tc := range map[string]struct {
		fields string
		values int
	}{
		"managed fields":     {`"metadata":{"name":"a","managedFields":` + empty + `},"spec":{}`, valuesOfEmpty},
		"conditions":         {`"spec":{},"status":{"conditions":` + empty + `}`, valuesOfEmpty},
		"volumes":            {`"spec":{"pod":{"volumes":` + empty + `}}`, valuesOfEmpty},
		"tolerations":        {`"spec":{"pod":{"tolerations":` + empty + `}}`, valuesOfEmpty},
		"spread constraints": {`"spec":{"pod":{"topologySpreadConstraints":` + empty + `}}`, valuesOfEmpty},
		"finalizers":         {`"metadata":{"name":"a","finalizers":[""` + strings.Repeat(`,""`, n) + `]},"spec":{}`, n},
		"a text":             {`"spec":{"content":{"files":{"a":"` + strings.Repeat("x", 10*n) + `"}}}`, 0},
		"an escaped text":    {`"spec":{"content":{"files":{"a":"` + strings.Repeat(`\u0001`, 10*n) + `"}}}`, 0},
	} {
		for _, path := range []string{"/mutate-my-domain-v1-webserver", "/validate-my-domain-v1-webserver"} {
			t.Run(name+path, func(t *testing.T) {
				body := bytes.Replace(review(t), objectOf(t), []byte(`{"apiVersion":"my.domain/v1","kind":"WebServer",`+tc.fields+`}`), 1)
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				var before, after goruntime.MemStats
				goruntime.ReadMemStats(&before)
				h.ServeHTTP(httptest.NewRecorder(), r)
				goruntime.ReadMemStats(&after)
				got := after.TotalAlloc - before.TotalAlloc
				limit := uint64(webhookserver.CostPerByte*len(body) + webhookserver.CostPerValue*tc.values + 256<<10) //nolint:gosec // a sum of positive numbers
				t.Logf("%d of %d bytes allocated for %d bytes with %d values", got, limit, len(body), tc.values)
				if got > limit {
					t.Errorf("%d bytes allocated for %d bytes with %d values, at most %d", got, len(body), tc.values, limit)
				}
			})
		}
	}
}

// BenchmarkAdmission measures the two calls of a creation, without network and
// TLS.
func BenchmarkAdmission(b *testing.B) {
	h, _ := served(b, config.Default())
	body := review(b)
	b.ReportAllocs()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		ask(b, h, body)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
