//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/podstate"
)

// TestAutoscaling_ReportsAnAutoscalerOfTheUser checks that an autoscaler for the
// Deployment is reported, and that it works with the WebServer as its target.
func TestAutoscaling_ReportsAnAutoscalerOfTheUser(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	s := newBlockStage(t)
	s.apply(webServerKind.manifest("web", `{image: "nginx:1.27.4", replicas: 1, service: {type: ClusterIP}, resources: {requests: {cpu: 5m}}}`))
	s.serves("webserver/web")
	s.apply(`
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: own}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 3
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 80}}}]
`)
	s.stalled("webserver/web", "Disputed", `changing spec.replicas of Deployment "web"`)
	s.kubectl("patch", "hpa", "own", "--type=merge", "-p", `{"spec":{"scaleTargetRef":{"apiVersion":"my.domain/v1","kind":"WebServer"}}}`)
	s.serves("webserver/web")
	s.prints("2 2", "get", "webserver", "web", "-o", "jsonpath={.spec.replicas} {.status.readyReplicas}")
}

// TestAutoscaling_FollowsMetrics checks that objects have as many pods as metrics of pods,
// an object and an external system require, and report a metric that is not served.
func TestAutoscaling_FollowsMetrics(t *testing.T) {
	campaign(t, "campaign-e2e")
	s := newBlockStage(t)
	s.serveMetrics()
	scaled := func(metric string) string {
		return `{image: "nginx:1.27.4", service: {type: ClusterIP}, autoscaling: {maxReplicas: 4, metrics: [` + metric + `]}}`
	}
	// The adapter reports a total of 50.
	s.apply(webServerKind.manifest("by-pods", scaled(`{type: Pods, name: requests, averageValue: 20}`)))
	s.apply(webServerKind.manifest("by-object", scaled(`{type: Object, name: requests, object: {apiVersion: v1, kind: Service, name: by-object-service}, averageValue: 20}`)))
	s.apply(webServerKind.manifest("by-queue", scaled(`{type: External, name: queue, matchLabels: {queue: orders}, averageValue: "20"}`)))
	s.apply(webServerKind.manifest("by-nothing", scaled(`{type: External, name: unknown, value: 1}`)))
	for _, name := range []string{"by-pods", "by-object", "by-queue"} {
		s.prints("3 True", "get", "webserver", name, "-o", `jsonpath={.status.readyReplicas} {.status.conditions[?(@.type=="Ready")].status}`)
	}
	s.prints("AutoscalingFailed", "get", "webserver", "by-nothing", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].reason}`)
	said := s.kubectl("get", "webserver", "by-nothing", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`)
	if got, want := podstate.Remedy(said), "Correct spec.autoscaling.metrics"; !strings.HasPrefix(got, want) {
		s.Errorf("remedy %q for %q", got, said)
	}
}

// serveMetrics registers an adapter that reports a total of 50 for the metrics requests of
// pods and Services, and for the external metric queue with the label queue: orders.
func (s blockStage) serveMetrics() {
	s.Helper()
	listener, err := (&net.ListenConfig{}).Listen(s.Context(), "tcp", "10.10.10.1:0")
	if err != nil {
		s.Fatal(err)
	}
	adapter := httptest.NewUnstartedServer(http.HandlerFunc(s.metrics))
	adapter.Listener = listener
	adapter.StartTLS()
	s.Cleanup(adapter.Close)
	port := listener.Addr().(*net.TCPAddr).Port
	s.apply(fmt.Sprintf(`
apiVersion: v1
kind: Service
metadata: {name: adapter}
spec: {ports: [{port: 443, targetPort: %[1]d}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: adapter, labels: {kubernetes.io/service-name: adapter}}
addressType: IPv4
endpoints: [{addresses: [10.10.10.1]}]
ports: [{port: %[1]d, protocol: TCP}]
`, port))
	for group, version := range map[string]string{"custom.metrics.k8s.io": "v1beta2", "external.metrics.k8s.io": "v1beta1"} {
		name := version + "." + group
		s.apply(fmt.Sprintf(`
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %s}
spec: {group: %s, version: %s, groupPriorityMinimum: 100, versionPriority: 100, insecureSkipTLSVerify: true, service: {name: adapter, namespace: %s}}
`, name, group, version, s.ns))
		s.Cleanup(func() {
			if _, err := run(context.WithoutCancel(s.Context()), "", "kubectl", "delete", "apiservice", name); err != nil {
				s.Error(err)
			}
		})
		kubectl(s.T, "wait", "--for=condition=Available", "apiservice/"+name, "--timeout=2m")
	}
}

// aMetric matches requests for a metric; the part is the resource.
var aMetric = regexp.MustCompile(`/namespaces/[^/]+/(?:(pods|services)/[^/]+/requests|queue)$`)

func (s blockStage) metrics(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	const custom, external = "custom.metrics.k8s.io/v1beta2", "external.metrics.k8s.io/v1beta1"
	at := aMetric.FindStringSubmatch(r.URL.Path)
	switch {
	case r.URL.Path == "/apis/"+custom:
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`, custom)
	case r.URL.Path == "/apis/"+external:
		fmt.Fprintf(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[]}`, external)
	case at == nil || at[1] == "" && r.URL.Query().Get("labelSelector") != "queue=orders":
		http.NotFound(w, r)
	case at[1] == "":
		fmt.Fprintf(w, `{"kind":"ExternalMetricValueList","apiVersion":%q,"items":[{"metricName":"queue","timestamp":null,"value":"50"}]}`, external)
	default:
		kind, names := "Service", []string{"by-object-service"}
		if at[1] == "pods" {
			out, err := run(s.Context(), "", "kubectl", "-n", s.ns, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
			if err != nil {
				http.Error(w, "kubectl failed", http.StatusInternalServerError)
				return
			}
			kind, names = "Pod", slices.DeleteFunc(strings.Fields(out), func(name string) bool { return !strings.HasPrefix(name, "by-pods-") })
		}
		items := make([]string, len(names))
		for i, name := range names {
			items[i] = fmt.Sprintf(`{"describedObject":{"kind":%q,"apiVersion":"v1","namespace":%q,"name":%q},"metric":{"name":"requests"},"timestamp":null,"value":"%dm"}`,
				kind, s.ns, name, 50_000/len(names))
		}
		fmt.Fprintf(w, `{"kind":"MetricValueList","apiVersion":%q,"items":[%s]}`, custom, strings.Join(items, ","))
	}
}
