//go:build envtest

package webserver

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
)

func mountedAt(path string) string {
	return "pod: {volumes: [{name: a, emptyDir: {}}], volumeMounts: [{name: a, mountPath: '" + path + "'}]}"
}

// TestSchema tests the schema and its rules, without the webhook.
func TestSchema(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	long := strings.Repeat("x", 262145)
	for name, tc := range map[string]struct{ spec, want string }{
		"inline":                   {"config: {inline: 'return 204;'}", ""},
		"from a ConfigMap":         {"config: {configMapRef: {name: a.b-c}}", ""},
		"a key":                    {"config: {configMapRef: {name: a, key: my_key.conf}}", ""},
		"neither":                  {"config: {}", "spec.config: Invalid value: one of inline, configMapRef and http must be set"},
		"both":                     {"config: {inline: x, configMapRef: {name: a}}", "at most one of inline and configMapRef must be set"},
		"empty inline":             {"config: {inline: ''}", "spec.config.inline"},
		"inline too long":          {"config: {inline: " + long[:65537] + "}", "spec.config.inline: Too long"},
		"a name that is none":      {"config: {configMapRef: {name: A_b}}", "spec.config.configMapRef.name"},
		"a key that is none":       {"config: {configMapRef: {name: a, key: 'b c'}}", "spec.config.configMapRef.key"},
		"no name":                  {"config: {configMapRef: {key: a}}", "spec.config.configMapRef.name: Required value"},
		"files":                    {"content: {files: {index.html: hello, A_b-1.css: ''}}", ""},
		"files at the limit":       {"content: {files: {a: " + long[:262144] + "}}", ""},
		"files over the limit":     {"content: {files: {a: " + long[:200000] + ", b: " + long[:62145] + "}}", "the files must have at most 262144 bytes in all"},
		"no files":                 {"content: {files: {}}", "spec.content.files"},
		"file in a folder":         {"content: {files: {a/b: c}}", "a file name must have at most 253 letters"},
		"file name with two dots":  {"content: {files: {..a: c}}", "a file name must have at most 253 letters"},
		"file name of a dot":       {"content: {files: {'.': c}}", "a file name must have at most 253 letters"},
		"content without a source": {"content: {}", "exactly one of files, configMapRef and image must be set"},
		"content with two sources": {"content: {files: {a: b}, image: {reference: c}}", "exactly one of files, configMapRef and image must be set"},
		"content with all sources": {"content: {files: {a: b}, image: {reference: c}, configMapRef: {name: d}}", "exactly one of files, configMapRef and image must be set"},
		"content from a ConfigMap": {"content: {configMapRef: {name: a}}", ""},
		"content from an image":    {"content: {image: {reference: 'a/b:1', pullPolicy: Always}}", ""},
		"another pull policy":      {"content: {image: {reference: a, pullPolicy: Sometimes}}", "spec.content.image.pullPolicy"},
		"image with white space":   {"content: {image: {reference: 'a b'}}", "spec.content.image.reference"},
		"tls":                      {"tls: {secretRef: {name: a}}", ""},
		"tls without a Secret":     {"tls: {}", "spec.tls.secretRef: Required value"},
		"tls and another port":     {"tls: {secretRef: {name: a}}\n  service: {port: 8080}", ""},
		"tls and http on 443":      {"tls: {secretRef: {name: a}}\n  service: {port: 443}", "spec.service.port: Forbidden"},
		"http on 443 without tls":  {"service: {port: 443}", ""},
		"monitoring":               {"monitoring: {enabled: true}", ""},
		"every block":              {strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(furniture), "image: nginx:1.23.1\n"), "\n", "\n  "), ""},
		"baseline":                 {"security: {profile: Baseline}", "must be Restricted: the pods of a WebServer always comply with this profile"},
		"root":                     {"security: {runAsUser: 0}", "spec.security.runAsUser"},
		"autoscaling and replicas": {"replicas: 2\n  resources: {requests: {cpu: 1}}\n  autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}", "spec.replicas: Forbidden: must not be set together with autoscaling"},
		"autoscaling of nothing":   {"autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}", "set resources.requests.cpu"},
		"autoscaling of no memory": {"resources: {requests: {cpu: 1}}\n  autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 70}", "set resources.requests.memory"},
		"autoscaling by the limit": {"resources: {limits: {cpu: 1}}\n  autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}", ""},
		"exposed by a Gateway":     {"expose: {type: Gateway, hosts: [a.b], gateway: {parentRef: {name: g}}}", ""},
		"exposed by no Gateway":    {"expose: {type: Gateway, hosts: [a.b]}", "gateway is required for type Gateway"},
		"no environment":           {"env: [{name: a, value: b}]", `unknown field "spec.env"`},
		"no command":               {"command: [sh]", `unknown field "spec.command"`},
		"load balancer's class":    {"service: {type: LoadBalancer, loadBalancerClass: a.b/c}", ""},
		"mounted next to it":       {"config: {inline: x}\n  tls: {secretRef: {name: a}}\n  content: {configMapRef: {name: a}}\n  " + mountedAt("/etc/nginx/conf.d2"), ""},
		"mounted where we do not":  {mountedAt("/etc/nginx/conf.d"), ""},
		"over our configuration":   {"config: {inline: x}\n  " + mountedAt("/etc/nginx/conf.d"), "/etc/nginx/conf.d contains the operator's configuration"},
		"above our configuration":  {"monitoring: {enabled: true}\n  " + mountedAt("/etc/"), "/etc/nginx/conf.d contains the operator's configuration"},
		"below the content":        {"content: {configMapRef: {name: a}}\n  " + mountedAt("/usr/share/nginx/html/a"), "/usr/share/nginx/html contains the content"},
		"over the certificate":     {"tls: {secretRef: {name: a}}\n  " + mountedAt("/etc/nginx/tls"), "/etc/nginx/tls contains the certificate"},
		"a path that winds":        {mountedAt("/a/../etc/nginx"), "without empty, '.' and '..' parts"},
		"a path with a hole":       {mountedAt("/etc//nginx"), "without empty, '.' and '..' parts"},
		"a path with dots":         {mountedAt("/a..b/.c"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte("spec:\n  image: nginx\n  "+tc.spec), &u.Object); err != nil {
				t.Fatal(err)
			}
			u.SetGroupVersionKind(webserverv1.GroupVersion.WithKind(webserverv1.Kind))
			u.SetNamespace(l.Namespace)
			u.SetName("web")
			err := env.Admin.Create(t.Context(), u, client.DryRunAll, client.FieldValidation("Strict"))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("refused: %.300v", err)
			case tc.want != "" && err == nil:
				t.Error("admitted")
			case tc.want != "" && !strings.Contains(err.Error(), tc.want):
				t.Errorf("refused with %.600v, which does not say %q", err, tc.want)
			}
		})
	}
}
