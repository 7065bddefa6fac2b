package webserver

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
)

func TestBlocks(t *testing.T) {
	mount := func(path string) string {
		return `, pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: "` + path + `"}]}}`
	}
	for name, tc := range map[string]struct {
		spec string
		want []string // how each fault begins
	}{
		"autoscaling":                     {`{resources: {requests: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, nil},
		"autoscaling by the limit":        {`{resources: {limits: {memory: 1Gi}}, autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 70}}`, nil},
		"autoscaling beside replicas":     {`{replicas: 1, resources: {requests: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, []string{"spec.replicas: Forbidden: with autoscaling"}},
		"autoscaling of nothing":          {`{autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70, targetMemoryUtilizationPercentage: 70}}`, []string{"spec.autoscaling.targetCPUUtilizationPercentage: Invalid value: 70: it is in percent of what the pods request: set spec.resources.requests.cpu", "spec.autoscaling.targetMemoryUtilizationPercentage: Invalid"}},
		"autoscaling of a request of 0":   {`{resources: {requests: {cpu: 0}, limits: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, []string{"spec.autoscaling.targetCPUUtilizationPercentage: Invalid"}},
		"exposed":                         {`{expose: {type: Ingress, hosts: [a.example.com]}}`, nil},
		"a Gateway of the same namespace": {`{expose: {type: Gateway, hosts: [a.b], gateway: {parentRef: {name: g, namespace: team-a}}}}`, nil},
		"a Gateway of another":            {`{expose: {type: Gateway, hosts: [a.b], gateway: {parentRef: {name: g, namespace: gateways}}}}`, []string{`spec.expose.gateway.parentRef.namespace: Forbidden: the Gateway must be in this namespace, "team-a"`}},
		"probes by name":                  {`{tls: {secretRef: {name: a}}, probes: {readiness: {httpGet: {port: http}}, liveness: {tcpSocket: {port: https}}}}`, nil},
		"probes by number":                {`{probes: {readiness: {httpGet: {port: 80}}}}`, nil},
		"probes of ports there are not":   {`{probes: {startup: {httpGet: {port: web}}, readiness: {tcpSocket: {port: https}}}}`, []string{`spec.probes.startup.httpGet.port: Invalid value: "web": the container has no TCP port of that name; use a number, or one of http`, `spec.probes.readiness.tcpSocket.port: Invalid value: "https"`}},
		"mounts":                          {`{pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /var/cache/nginx}]}}`, nil},
		"a mount of no volume":            {`{pod: {volumeMounts: [{name: a, mountPath: /a}]}}`, []string{`spec.pod.volumeMounts[0].name: Invalid value: "a": must be the name of one of spec.pod.volumes`}},
		"mounts at one place":             {`{pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: /a}, {name: a, mountPath: /a/}]}}`, []string{`spec.pod.volumeMounts[1].mountPath: Duplicate value: "/a"`}},
		"volumes of one name":             {`{pod: {volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]}}`, []string{`spec.pod.volumes[1].name: Duplicate value: "a"`}},
		"files at one place": {
			`{pod: {volumes: [{name: a, projected: {sources: [{configMap: {name: c, items: [{key: k, path: p}]}}, {secret: {name: s, items: [{key: k, path: p}, {key: l, path: q}]}}, {downwardAPI: {items: [{path: q, fieldRef: {fieldPath: metadata.name}}]}}]}}]}}`,
			[]string{
				`spec.pod.volumes[0].projected.sources[1].secret.items[0].path: Duplicate value: "p"`,
				`spec.pod.volumes[0].projected.sources[2].downwardAPI.items[0].path: Duplicate value: "q"`,
			},
		},
		"over nothing of ours":      {`{replicas: 1` + mount("/etc/nginx"), nil},
		"beside our configuration":  {`{config: {inline: "return 204;"}` + mount("/etc/nginx/snippets"), nil},
		"over our configuration":    {`{config: {inline: "return 204;"}` + mount("/etc/nginx/conf.d/"), []string{"spec.pod.volumeMounts[0].mountPath: Forbidden: /etc/nginx/conf.d holds the operator's configuration"}},
		"above our configuration":   {`{monitoring: {enabled: true}` + mount("/etc//nginx"), []string{"spec.pod.volumeMounts[0].mountPath: Forbidden"}},
		"below the content":         {`{content: {image: {reference: a}}` + mount("/usr/share/nginx/html/a"), []string{"spec.pod.volumeMounts[0].mountPath: Forbidden: /usr/share/nginx/html holds spec.content"}},
		"over the certificate":      {`{tls: {secretRef: {name: a}}` + mount("/etc/nginx/x/../tls"), []string{"spec.pod.volumeMounts[0].mountPath: Forbidden: /etc/nginx/tls holds the certificate"}},
		"above both, which is 2":    {`{tls: {secretRef: {name: a}}` + mount("/etc"), []string{"spec.pod.volumeMounts[0].mountPath: Forbidden", "spec.pod.volumeMounts[0].mountPath: Forbidden"}},
		"a place of a similar name": {`{tls: {secretRef: {name: a}}` + mount("/etc/nginx/tls2"), nil},
		"everything is said at once": {
			`{replicas: 1, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}, probes: {liveness: {tcpSocket: {port: web}}}, pod: {volumeMounts: [{name: a, mountPath: /a}]}}`,
			[]string{"spec.replicas: ", "spec.autoscaling.targetCPU", "spec.probes.liveness.tcpSocket.port: ", "spec.pod.volumeMounts[0].name: "},
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
