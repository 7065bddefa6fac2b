package demoapplication

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestBlocks(t *testing.T) {
	const port = "ports: [{port: 80}]\n"
	for name, tc := range map[string]struct {
		spec string
		want []string // how each fault begins
	}{
		"autoscaling":                     {`{resources: {requests: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, nil},
		"autoscaling by the limit":        {`{resources: {limits: {memory: 1Gi}}, autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 70}}`, nil},
		"autoscaling beside replica":      {`{replica: 1, resources: {requests: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, []string{"spec.replica: Forbidden: with autoscaling"}},
		"autoscaling of nothing":          {`{autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70, targetMemoryUtilizationPercentage: 70}}`, []string{"spec.autoscaling.targetCPUUtilizationPercentage: Invalid value: 70: it is in percent of what the pods request: set spec.resources.requests.cpu", "spec.autoscaling.targetMemoryUtilizationPercentage: Invalid"}},
		"autoscaling of a request of 0":   {`{resources: {requests: {cpu: 0}, limits: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, []string{"spec.autoscaling.targetCPUUtilizationPercentage: Invalid"}},
		"ClusterIP with a node port":      {`{ports: [{port: 80, nodePort: 30002}], service: {type: ClusterIP}}`, []string{`spec.service.type: Invalid value: "ClusterIP": a Service of this type has no node ports`}},
		"LoadBalancer with a node port":   {`{ports: [{port: 80, nodePort: 30002}], service: {type: LoadBalancer}}`, nil},
		"exposed":                         {port + `expose: {type: Ingress, hosts: [a.example.com]}`, nil},
		"nothing to expose":               {`{expose: {type: Ingress, hosts: [a.example.com]}}`, []string{"spec.expose: Forbidden: it leads to the first TCP port"}},
		"no TCP to expose":                {`{ports: [{port: 53, protocol: UDP}], expose: {type: Ingress, hosts: [a.example.com]}}`, []string{"spec.expose: Forbidden"}},
		"a Gateway of the same namespace": {port + `expose: {type: Gateway, hosts: [a.b], gateway: {parentRef: {name: g, namespace: team-a}}}`, nil},
		"a Gateway of another":            {port + `expose: {type: Gateway, hosts: [a.b], gateway: {parentRef: {name: g, namespace: gateways}}}`, []string{`spec.expose.gateway.parentRef.namespace: Forbidden: the Gateway must be in this namespace, "team-a"`}},
		"metrics":                         {port + `monitoring: {enabled: true}`, nil},
		"no metrics":                      {`{monitoring: {labels: {a: b}}}`, nil},
		"metrics of no port":              {`{monitoring: {enabled: true}}`, []string{"spec.monitoring: Forbidden: metrics are scraped from a TCP port"}},
		"probe of a port by its name":     {`{ports: [{port: 80, targetPort: web}], probes: {readiness: {httpGet: {port: web}}, liveness: {tcpSocket: {port: 1}}}}`, nil},
		"probes of ports there are not": {
			`{ports: [{name: http, port: 80, targetPort: web}, {name: dns, port: 53, targetPort: dns, protocol: UDP}], probes: {startup: {httpGet: {port: http}}, readiness: {tcpSocket: {port: dns}}}}`,
			[]string{`spec.probes.startup.httpGet.port: Invalid value: "http": the container has no TCP port of that name`, `spec.probes.readiness.tcpSocket.port: Invalid value: "dns"`},
		},
		"mounts":               {`{pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /b}]}}`, nil},
		"a mount of no volume": {`{pod: {volumeMounts: [{name: a, mountPath: /a}]}}`, []string{`spec.pod.volumeMounts[0].name: Invalid value: "a": must be the name of one of spec.pod.volumes`}},
		"mounts at one place":  {`{pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a/}]}}`, []string{`spec.pod.volumeMounts[1].mountPath: Duplicate value: "/a"`}},
		"volumes of one name":  {`{pod: {volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}}`, []string{`spec.pod.volumes[1].name: Duplicate value: "a"`}},
		"files at one place": {
			`{pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}, {key: l, path: q}]}}, {downwardAPI: {items: [{path: q, fieldRef: {fieldPath: metadata.name}}]}}]}}]}}`,
			[]string{
				`spec.pod.volumes[0].projected.sources[1].secret.items[0].path: Duplicate value: "p"`,
				`spec.pod.volumes[0].projected.sources[2].downwardAPI.items[0].path: Duplicate value: "q"`,
			},
		},
		"everything at once": {
			`{replica: 1, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}, monitoring: {enabled: true}, probes: {liveness: {tcpSocket: {port: web}}}, pod: {volumeMounts: [{name: a, mountPath: /a}]}}`,
			[]string{"spec.replica: ", "spec.autoscaling.targetCPU", "spec.monitoring: ", "spec.probes.liveness.tcpSocket.port: ", "spec.pod.volumeMounts[0].name: "},
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
				t.Fatalf("got %d faults, want %d: %v", len(errs), len(tc.want), errs)
			}
			for i, e := range errs {
				if !strings.HasPrefix(e.Error(), tc.want[i]) {
					t.Errorf("got  %s\nwant %s…", e, tc.want[i])
				}
			}
		})
	}
}
