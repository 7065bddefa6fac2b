// Package monitoring generates the configuration of Prometheus from the
// ServiceMonitors and PrometheusRules of a cluster, as the Prometheus operator does.
//
// A field that it does not implement is an error, so that no part of an object is
// silently ignored.
package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
)

// Dir is the folder of the configuration files in the pod.
const Dir = "/etc/prometheus"

// evaluationInterval is shorter than the 30 s of the Prometheus operator, because
// tests wait for alerts.
const evaluationInterval = "5s"

// Object is a ServiceMonitor or a PrometheusRule.
type Object struct {
	Metadata struct{ Name, Namespace string }
	Spec     json.RawMessage
}

// ReadSecret returns the value of a key of a Secret.
type ReadSecret func(namespace, name, key string) ([]byte, error)

// Files returns the configuration files of Prometheus and Alertmanager by their
// names. JSON is YAML, too.
func Files(monitors, rules []Object, secret ReadSecret) (map[string][]byte, error) {
	files := map[string][]byte{"alertmanager.yml": []byte("route: {receiver: none}\nreceivers: [{name: none}]\n")}
	scrapes := []any{apiServer(), kubelets()}
	for _, m := range monitors {
		configs, err := scrapeConfigs(m, secret, files)
		if err != nil {
			return nil, fmt.Errorf("ServiceMonitor %s/%s: %w", m.Metadata.Namespace, m.Metadata.Name, err)
		}
		scrapes = append(scrapes, configs...)
	}
	var names []string
	for _, r := range rules {
		name := "rules-" + r.Metadata.Namespace + "-" + r.Metadata.Name + ".yml"
		files[name] = r.Spec // its format is that of a file of rules
		names = append(names, path.Join(Dir, name))
	}
	config, err := json.MarshalIndent(object{
		"global":         object{"scrape_interval": "30s", "evaluation_interval": evaluationInterval},
		"rule_files":     append([]string{}, names...),
		"scrape_configs": scrapes,
		"alerting":       object{"alertmanagers": []any{object{"static_configs": []any{object{"targets": []string{"localhost:9093"}}}}}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	files["prometheus.yml"] = config
	return files, nil
}

type object = map[string]any

// apiServerReader is the folder of the credentials for the API server.
const apiServerReader = "/etc/api-server-reader/"

// apiServer returns the scrape configuration of the API server, with the name of the
// job that it has in kube-prometheus. Only the metrics of its calls of webhooks are
// stored.
func apiServer() object {
	return object{
		"job_name": "apiserver", "scheme": "https", "scrape_interval": "10s", "scrape_timeout": "10s",
		"authorization":  object{"credentials_file": apiServerReader + "token"},
		"tls_config":     object{"ca_file": apiServerReader + "ca.crt"},
		"static_configs": []any{object{"targets": []string{"kubernetes.default.svc:443"}}},
		"metric_relabel_configs": []any{
			object{"action": "keep", "source_labels": []string{"__name__"}, "regex": "apiserver_admission_webhook_rejection_count"},
		},
	}
}

// kubelets returns the scrape configuration of the containers of the first two nodes,
// through the API server.
func kubelets() object {
	return object{
		"job_name": "kubelet", "scheme": "https", "scrape_interval": "10s", "scrape_timeout": "10s", "honor_labels": true,
		"authorization":  object{"credentials_file": apiServerReader + "token"},
		"tls_config":     object{"ca_file": apiServerReader + "ca.crt"},
		"static_configs": []any{object{"targets": []string{config.NodeName(1), config.NodeName(2)}}},
		"relabel_configs": []any{
			object{"source_labels": []string{"__address__"}, "target_label": "__metrics_path__", "replacement": "/api/v1/nodes/$1/proxy/metrics/resource"},
			object{"target_label": "__address__", "replacement": "kubernetes.default.svc:443"},
		},
		"metric_relabel_configs": []any{object{"action": "keep", "source_labels": []string{"__name__"}, "regex": "container_.*"}},
	}
}

// serviceMonitor contains the fields of the spec that are implemented.
type serviceMonitor struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	Endpoints []endpoint `json:"endpoints"`
}

type endpoint struct {
	Port            string `json:"port"`
	Scheme          string `json:"scheme"`
	Path            string `json:"path"`
	Interval        string `json:"interval"`
	HonorLabels     bool   `json:"honorLabels"`
	BearerTokenFile string `json:"bearerTokenFile"`
	TLSConfig       *struct {
		ServerName         string `json:"serverName"`
		InsecureSkipVerify bool   `json:"insecureSkipVerify"`
		CA                 *struct {
			Secret struct {
				Name string `json:"name"`
				Key  string `json:"key"`
			} `json:"secret"`
		} `json:"ca"`
	} `json:"tlsConfig"`
}

var notInLabels = regexp.MustCompile(`[^a-zA-Z0-9_]`)

// scrapeConfigs returns a scrape configuration for each endpoint of a ServiceMonitor,
// and adds the files that it refers to. It follows generateServiceMonitorConfig of
// the Prometheus operator.
func scrapeConfigs(m Object, secret ReadSecret, files map[string][]byte) ([]any, error) {
	var spec serviceMonitor
	d := json.NewDecoder(bytes.NewReader(m.Spec))
	d.DisallowUnknownFields()
	if err := d.Decode(&spec); err != nil {
		return nil, fmt.Errorf("a field that the add-on does not implement: %w", err)
	}
	var configs []any
	for i, e := range spec.Endpoints {
		c := object{
			"job_name":        fmt.Sprintf("serviceMonitor/%s/%s/%d", m.Metadata.Namespace, m.Metadata.Name, i),
			"honor_labels":    e.HonorLabels,
			"http_sd_configs": []any{object{"url": discoveryURL + m.Metadata.Namespace, "refresh_interval": "2s"}},
			"relabel_configs": relabelings(spec, e),
		}
		for key, value := range map[string]string{
			"scrape_interval": e.Interval, "metrics_path": e.Path, "scheme": e.Scheme, "bearer_token_file": e.BearerTokenFile,
			"scrape_timeout": timeout(e),
		} {
			if value != "" {
				c[key] = value
			}
		}
		if t := e.TLSConfig; t != nil {
			tls := object{"insecure_skip_verify": t.InsecureSkipVerify, "server_name": t.ServerName}
			if t.CA != nil {
				from := t.CA.Secret
				ca, err := secret(m.Metadata.Namespace, from.Name, from.Key)
				if err != nil {
					return nil, err
				}
				name := "secret_" + m.Metadata.Namespace + "_" + from.Name + "_" + from.Key
				files[name] = ca
				tls["ca_file"] = path.Join(Dir, name)
			}
			c["tls_config"] = tls
		}
		configs = append(configs, c)
	}
	return configs, nil
}

// discoveryURL is that of the program discovery, in the same pod.
const discoveryURL = "http://localhost:9099/?namespace="

// defaultTimeout is that of Prometheus.
const defaultTimeout = 10 * time.Second

// timeout returns the timeout of a scrape, which must not be longer than the interval.
func timeout(e endpoint) string {
	if interval, err := time.ParseDuration(e.Interval); err == nil && interval < defaultTimeout {
		return e.Interval
	}
	return ""
}

func relabelings(spec serviceMonitor, e endpoint) []any {
	const meta = "__meta_kubernetes_"
	var all []any
	for _, label := range slices.Sorted(maps.Keys(spec.Selector.MatchLabels)) {
		name := notInLabels.ReplaceAllString(label, "_")
		all = append(all, object{
			"action": "keep", "source_labels": []string{meta + "service_label_" + name, meta + "service_labelpresent_" + name},
			"regex": "(" + spec.Selector.MatchLabels[label] + ");true",
		})
	}
	all = append(all,
		object{"action": "keep", "source_labels": []string{meta + "endpointslice_port_name"}, "regex": e.Port},
		object{"action": "drop", "source_labels": []string{meta + "pod_phase"}, "regex": "(Failed|Succeeded)"},
	)
	for _, l := range []struct{ from, to string }{
		{"namespace", "namespace"}, {"service_name", "service"}, {"pod_name", "pod"}, {"pod_container_name", "container"}, {"service_name", "job"},
	} {
		all = append(all, object{"source_labels": []string{meta + l.from}, "target_label": l.to})
	}
	return append(all, object{"target_label": "endpoint", "replacement": e.Port})
}
