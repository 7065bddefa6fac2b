package demoapplication

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestValidate_SharedFields(t *testing.T) {
	for name, tc := range map[string]struct {
		spec string
		want []string // prefixes of the errors
	}{
		"probe of a port by its name": {`{ports: [{port: 80, targetPort: web}], probes: {readiness: {httpGet: {port: web}}, liveness: {tcpSocket: {port: 1}}}}`, nil},
		"probes of ports there are not": {
			`{ports: [{name: http, port: 80, targetPort: web}, {name: dns, port: 53, targetPort: dns, protocol: UDP}], probes: {startup: {httpGet: {port: http}}, readiness: {tcpSocket: {port: dns}}}}`,
			[]string{`spec.probes.startup.httpGet.port: Invalid value: "http": the container has no TCP port of that name`, `spec.probes.readiness.tcpSocket.port: Invalid value: "dns"`},
		},
		"mounts": {`{pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /b}]}}`, nil},
		"files at one place": {
			`{pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}, {key: l, path: q}]}}, {downwardAPI: {items: [{path: q, fieldRef: {fieldPath: metadata.name}}]}}]}}]}}`,
			[]string{
				`spec.pod.volumes[0].projected.sources[1].secret.items[0].path: Duplicate value: "p"`,
				`spec.pod.volumes[0].projected.sources[2].downwardAPI.items[0].path: Duplicate value: "q"`,
			},
		},
		"everything at once": {
			`{ports: [{port: 80, nodePort: 80}], probes: {liveness: {tcpSocket: {port: web}}}, pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}]}}]}}]}}`,
			[]string{"spec.ports[0].nodePort: ", "spec.probes.liveness.tcpSocket.port: ", "spec.pod.volumes[0].projected.sources[1].secret.items[0].path: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := &demoapplicationv1.DemoApplication{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "web"}}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &a.Spec); err != nil {
				t.Fatal(err)
			}
			a.Spec.Image = "nginx:1.27.4"
			errs := Validate(a, config.Default())
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
