package monitoring

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
)

const monitor = `{"selector": {"matchLabels": {"app.kubernetes.io/name": "op"}}, "endpoints": [{
	"port": "https", "scheme": "https", "path": "/metrics", "interval": "5s", "honorLabels": true,
	"bearerTokenFile": "/token", "tlsConfig": {"serverName": "op.ns.svc", "ca": {"secret": {"name": "cert", "key": "ca.crt"}}}}]}`

func newObject(spec string) Object {
	o := Object{Spec: json.RawMessage(spec)}
	o.Metadata.Namespace, o.Metadata.Name = "ns", "op"
	return o
}

func readSecret(namespace, name, key string) ([]byte, error) {
	if namespace+"/"+name+"/"+key != "ns/cert/ca.crt" {
		return nil, errors.New("not found")
	}
	return []byte("PEM"), nil
}

func TestFiles_ContainScrapesAndRules(t *testing.T) {
	files, err := Files([]Object{newObject(monitor)}, []Object{newObject(`{"groups":[]}`)}, readSecret)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(files["secret_ns_cert_ca.crt"]); got != "PEM" {
		t.Errorf("the CA is %q", got)
	}
	if got := string(files["rules-ns-op.yml"]); got != `{"groups":[]}` {
		t.Errorf("the rules are %q", got)
	}
	var config struct {
		RuleFiles []string `json:"rule_files"`
		Scrapes   []struct {
			Name        string `json:"job_name"`
			Interval    string `json:"scrape_interval"`
			Timeout     string `json:"scrape_timeout"`
			HonorLabels bool   `json:"honor_labels"`
			Token       string `json:"bearer_token_file"`
			TLS         struct {
				CA         string `json:"ca_file"`
				ServerName string `json:"server_name"`
				Insecure   bool   `json:"insecure_skip_verify"`
			} `json:"tls_config"`
			Discovery []struct{ URL string } `json:"http_sd_configs"`
		} `json:"scrape_configs"`
	}
	if err := json.Unmarshal(files["prometheus.yml"], &config); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(config.RuleFiles, []string{"/etc/prometheus/rules-ns-op.yml"}) {
		t.Errorf("the files of rules are %v", config.RuleFiles)
	}
	s := config.Scrapes[len(config.Scrapes)-1]
	if s.Name != "serviceMonitor/ns/op/0" || s.Interval != "5s" || s.Timeout != "5s" || !s.HonorLabels || s.Token != "/token" ||
		s.TLS.CA != "/etc/prometheus/secret_ns_cert_ca.crt" || s.TLS.ServerName != "op.ns.svc" || s.TLS.Insecure ||
		!strings.HasSuffix(s.Discovery[0].URL, "?namespace=ns") {
		t.Errorf("the scrape configuration is %+v", s)
	}
}

func TestFiles_RejectsWhatItDoesNotImplement(t *testing.T) {
	for name, tt := range map[string]struct{ spec, want string }{
		"an unknown field":      {`{"sampleLimit": 5}`, "sampleLimit"},
		"an absent Secret":      {strings.Replace(monitor, "cert", "other", 1), "not found"},
		"an unknown expression": {`{"selector": {"matchExpressions": []}}`, "matchExpressions"},
	} {
		if _, err := Files([]Object{newObject(tt.spec)}, nil, readSecret); err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "ns/op") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
