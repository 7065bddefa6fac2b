package webserver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestValidate_SharedFields(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want []string // prefixes of the errors
	}{
		"probes by name":                {`{tls: {secretRef: {name: a}}, probes: {readiness: {httpGet: {port: http}}, liveness: {tcpSocket: {port: https}}}}`, nil},
		"probes by number":              {`{probes: {readiness: {httpGet: {port: 80}}}}`, nil},
		"probes of ports there are not": {`{probes: {startup: {httpGet: {port: web}}, readiness: {tcpSocket: {port: https}}}}`, []string{`spec.probes.startup.httpGet.port: Invalid value: "web": the container has no TCP port of that name: use a number, or one of http`, `spec.probes.readiness.tcpSocket.port: Invalid value: "https"`}},
		"files at one place": {
			`{pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}, {key: l, path: q}]}}, {downwardAPI: {items: [{path: q, fieldRef: {fieldPath: metadata.name}}]}}]}}]}}`,
			[]string{
				`spec.pod.volumes[0].projected.sources[1].secret.items[0].path: Duplicate value: "p"`,
				`spec.pod.volumes[0].projected.sources[2].downwardAPI.items[0].path: Duplicate value: "q"`,
			},
		},
		"everything is said at once": {
			`{probes: {liveness: {tcpSocket: {port: web}}}, pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}, {key: l, path: p}]}}]}}]}}`,
			[]string{"spec.probes.liveness.tcpSocket.port: ", "spec.pod.volumes[0].projected.sources[0].configMap.items[1].path: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &webserverv1.WebServer{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web"}}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &w.Spec); err != nil {
				t.Fatal(err)
			}
			w.Spec.Image = "nginx:1.27.4"
			errs := Validate(w, config.Default())
			if len(errs) != len(tc.want) {
				t.Fatalf("got %d errors, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
		})
	}
}
