//go:build chart

package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/telemetry/rules"
)

// TestDashboards_AreDelivered compares the ConfigMaps with the generated files.
func TestDashboards_AreDelivered(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(chart, "files", "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v %v", files, err)
	}
	want := map[string]any{}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := json.Unmarshal(raw, &content); err != nil {
			t.Errorf("%s: %v", f, err)
		}
		want[filepath.Base(f)] = content
	}
	got := map[string]any{}
	for _, o := range parse(t, template(t, "--set", "metrics.dashboards.enabled=true")) {
		if o.GetKind() != "ConfigMap" || o.GetLabels()["grafana_dashboard"] != "1" {
			continue
		}
		data, _, _ := unstructured.NestedStringMap(o.Object, "data")
		for name, raw := range data {
			var content any
			if err := json.Unmarshal([]byte(raw), &content); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			got[name] = content
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-files +chart):\n%s", diff)
	}
}

// TestPrometheusRule_SelectsTheServiceOfTheRelease installs under another name, which
// is the value of the label job, with another number of replicas and other runbooks.
func TestPrometheusRule_SelectsTheServiceOfTheRelease(t *testing.T) {
	t.Parallel()
	const name = "other"
	raw, err := os.ReadFile(filepath.Join(chart, "files", "prometheus", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	adapted := strings.NewReplacer("platform-operator-metrics", name+"-metrics", "== 1) < 2", "== 1) < 3", "of 2 replicas", "of 3 replicas", rules.RunbookURL, "https://wiki/")
	if err := yaml.Unmarshal([]byte(adapted.Replace(string(raw))), &want); err != nil {
		t.Fatal(err)
	}
	service := false
	for _, o := range parse(t, template(t, "--set", "metrics.prometheusRule.enabled=true", "--set", "fullnameOverride="+name,
		"--set", "replicas=3", "--set", "metrics.prometheusRule.runbookURL=https://wiki/")) {
		service = service || o.GetKind() == "Service" && o.GetName() == name+"-metrics"
		if o.GetKind() != "PrometheusRule" {
			continue
		}
		if diff := cmp.Diff(want, o.Object["spec"]); diff != "" {
			t.Errorf("(-file +chart):\n%s", diff)
		}
		want = nil
	}
	if want != nil || !service {
		t.Error("there is no PrometheusRule or no Service for metrics")
	}
}

// Rules without series are silent, and this would not be noticed.
func TestProduction_ScrapesWhatItAlertsAbout(t *testing.T) {
	t.Parallel()
	scraped, alerts, open := false, false, false
	for _, o := range parse(t, template(t, "-f", filepath.Join(chart, "values-production.yaml"))) {
		scraped = scraped || o.GetKind() == "ServiceMonitor"
		alerts = alerts || o.GetKind() == "PrometheusRule"
		if o.GetKind() == "NetworkPolicy" {
			ingress, _, _ := unstructured.NestedSlice(o.Object, "spec", "ingress")
			for _, r := range ingress {
				ports, _, _ := unstructured.NestedSlice(r.(map[string]any), "ports")
				open = open || len(ports) == 1 && ports[0].(map[string]any)["port"] == "metrics"
			}
		}
	}
	if !scraped || !alerts || !open {
		t.Errorf("ServiceMonitor: %t, PrometheusRule: %t, port for metrics: %t", scraped, alerts, open)
	}
}
