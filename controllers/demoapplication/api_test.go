//go:build envtest

package demoapplication

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	demoapplicationv1beta1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1beta1"
)

// TestSchema checks that violations within one object are rejected without a
// webhook, in both versions.
func TestSchema(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject())
	a63, a64 := strings.Repeat("a", 63), strings.Repeat("a", 64)
	for what, tc := range map[string]struct{ name, spec, want string }{
		"legacy sample":                {"web", `{replica: 2, image: "nginx:latest", ports: [{port: 80, targetPort: 80, nodePort: 30002}]}`, ""},
		"a name of 63":                 {a63, `{image: nginx}`, ""},
		"a name of 64":                 {a64, `{image: nginx}`, "metadata.name must be no more than 63 characters"},
		"a name with a digit first":    {"1web", `{image: nginx}`, "metadata.name must start with a letter"},
		"no image":                     {"web", `{replica: 1}`, "spec.image: Required value"},
		"white space in the image":     {"web", `{image: "nginx "}`, "spec.image"},
		"less than no replica":         {"web", `{image: nginx, replica: -1}`, "spec.replica"},
		"the field of other kinds":     {"web", `{image: nginx, replicas: 3}`, "spec.replicas: Forbidden: the field of this kind is named replica: use spec.replica"},
		"an unknown policy":            {"web", `{image: nginx, deletionPolicy: Keep}`, "spec.deletionPolicy"},
		"no name":                      {"web", `{image: nginx, ports: [{port: 80}]}`, ""},
		"no names":                     {"web", `{image: nginx, ports: [{port: 80}, {name: b, port: 81}]}`, "each port must have a name if there is more than one"},
		"one name":                     {"web", `{image: nginx, ports: [{name: a, port: 80}, {name: a, port: 81}]}`, "the name of a port must be unique"},
		"a name in upper case":         {"web", `{image: nginx, ports: [{name: A, port: 80}]}`, "spec.ports[0].name"},
		"one port":                     {"web", `{image: nginx, ports: [{name: a, port: 80}, {name: b, port: 80, protocol: TCP}]}`, "a port can be listed once for each protocol"},
		"two protocols":                {"web", `{image: nginx, ports: [{name: a, port: 53}, {name: b, port: 53, protocol: UDP}]}`, ""},
		"an unknown protocol":          {"web", `{image: nginx, ports: [{port: 80, protocol: HTTP}]}`, "spec.ports[0].protocol"},
		"one node port":                {"web", `{image: nginx, ports: [{name: a, port: 80, nodePort: 30002}, {name: b, port: 81, nodePort: 30002}]}`, "a nodePort can be used once, or for TCP and UDP of one port"},
		"one node port, 2 protocols":   {"web", `{image: nginx, ports: [{name: a, port: 53, nodePort: 30053}, {name: b, port: 53, nodePort: 30053, protocol: UDP}]}`, ""},
		"port 0":                       {"web", `{image: nginx, ports: [{port: 0}]}`, "spec.ports[0].port"},
		"port 65536":                   {"web", `{image: nginx, ports: [{port: 65536}]}`, "spec.ports[0].port"},
		"target port 0, unset in Go":   {"web", `{image: nginx, ports: [{port: 80, targetPort: 0}]}`, ""},
		"target port 65536":            {"web", `{image: nginx, ports: [{port: 80, targetPort: 65536}]}`, "spec.ports[0].targetPort"},
		"target port less than 0":      {"web", `{image: nginx, ports: [{port: 80, targetPort: -1}]}`, "spec.ports[0].targetPort"},
		"target ports by name":         {"web", `{image: nginx, ports: [{name: a, port: 80, targetPort: web}, {name: b, port: 81, targetPort: 81}]}`, ""},
		"target port, a number quoted": {"web", `{image: nginx, ports: [{port: 80, targetPort: "80"}]}`, "spec.ports[0].targetPort"},
		"target port of two dashes":    {"web", `{image: nginx, ports: [{port: 80, targetPort: a--b}]}`, "spec.ports[0].targetPort"},
		"target port, digits first":    {"web", `{image: nginx, ports: [{port: 80, targetPort: 80-8h-8}]}`, ""},
		"target port of 16":            {"web", `{image: nginx, ports: [{port: 80, targetPort: aaaaaaaaaaaaaaaa}]}`, "spec.ports[0].targetPort"},
		"one target port for two":      {"web", `{image: nginx, ports: [{name: a, port: 80, targetPort: x}, {name: b, port: 81, targetPort: x}]}`, "is the name of one container port"},
		"an application protocol":      {"web", `{image: nginx, ports: [{port: 80, appProtocol: kubernetes.io/h2c}]}`, ""},
		"no application protocol":      {"web", `{image: nginx, ports: [{port: 80, appProtocol: "a b"}]}`, "spec.ports[0].appProtocol"},
		"autoscaling":                  {"web", `{image: nginx, resources: {requests: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, ""},
		"autoscaling by the limit":     {"web", `{image: nginx, resources: {limits: {memory: 1Gi}}, autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 70}}`, ""},
		"autoscaling and replica":      {"web", `{image: nginx, replica: 1, resources: {requests: {cpu: 1}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, "spec.replica: Forbidden: must not be set together with autoscaling"},
		"autoscaling of no CPU":        {"web", `{image: nginx, resources: {requests: {memory: 1Gi}}, autoscaling: {maxReplicas: 3, targetCPUUtilizationPercentage: 70}}`, "set resources.requests.cpu"},
		"autoscaling of no memory":     {"web", `{image: nginx, autoscaling: {maxReplicas: 3, targetMemoryUtilizationPercentage: 70}}`, "set resources.requests.memory"},
		"ClusterIP with a node port":   {"web", `{image: nginx, ports: [{port: 80, nodePort: 30002}], service: {type: ClusterIP}}`, "spec.service.type: Invalid value"},
		"LoadBalancer":                 {"web", `{image: nginx, ports: [{port: 80, nodePort: 30002}], service: {type: LoadBalancer, loadBalancerClass: a/b}}`, ""},
		"a headless Service":           {"web", `{image: nginx, service: {type: ExternalName}}`, "spec.service.type: Unsupported value"},
		"a port of the Service":        {"web", `{image: nginx, service: {nodePort: 30002}}`, "unknown field"},
		"exposed":                      {"web", `{image: nginx, ports: [{port: 80}], expose: {type: Ingress, hosts: [a.b]}}`, ""},
		"nothing exposed":              {"web", `{image: nginx, ports: [{port: 53, protocol: UDP}], expose: {type: Ingress, hosts: [a.b]}}`, "spec.expose: Invalid value"},
		"metrics":                      {"web", `{image: nginx, ports: [{port: 80}], monitoring: {enabled: true}}`, ""},
		"metrics of nothing":           {"web", `{image: nginx, monitoring: {enabled: true}}`, "spec.monitoring: Invalid value"},
		"metrics off":                  {"web", `{image: nginx, monitoring: {enabled: false}}`, ""},
		"every block":                  {"web", asFlow(muchOfIt), ""},
	} {
		for _, version := range []string{"v1", "v1beta1"} {
			t.Run(version+"/"+what, func(t *testing.T) {
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte("apiVersion: paas.cmft.com/"+version+"\nkind: DemoApplication\nspec: "+tc.spec), &o.Object); err != nil {
					t.Fatal(err)
				}
				o.SetNamespace(l.Namespace)
				o.SetName(tc.name)
				switch err := env.Admin.Create(t.Context(), o, client.DryRunAll, client.FieldValidation("Strict")); {
				case tc.want == "" && err != nil:
					t.Errorf("refused: %v", err)
				case tc.want != "" && err == nil:
					t.Error("admitted")
				case tc.want != "" && !strings.Contains(err.Error(), tc.want):
					t.Errorf("refused with %v, which does not say %q", err, tc.want)
				}
			})
		}
	}
}

// asFlow is the spec as YAML on one line, with the ports that it needs.
func asFlow(spec string) string {
	raw, err := yaml.YAMLToJSON([]byte(spec + "ports: [{port: 80, targetPort: metrics}]\n"))
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestDemoApplication_VersionsShareOneObject(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	beta := &demoapplicationv1beta1.DemoApplication{Spec: application("", "").Spec}
	beta.Namespace, beta.Name = l.Namespace, "web"
	l.Create(beta)

	a := &demoapplicationv1.DemoApplication{}
	l.Ready(a, "web")
	if len(a.Spec.Ports) != 2 || a.Spec.Ports[1].TargetPort.StrVal != "metrics" || *a.Spec.Replica != 2 {
		t.Errorf("written as v1beta1, read as v1: %+v", a.Spec)
	}
	l.Edit(a, "web", func() { a.Spec.Image = "nginx:1.23.0" })
	l.Ready(a, "web")
	l.Get(beta, "web")
	if beta.Spec.Image != "nginx:1.23.0" || beta.Status.Image != "nginx:1.23.0" || len(beta.Status.Conditions) != 2 {
		t.Errorf("written as v1, read as v1beta1: %+v", beta)
	}
	// The owner reference names the stored version, whichever version the object
	// was written in.
	d := &appsv1.Deployment{}
	l.Get(d, "web")
	if o := d.OwnerReferences; len(o) != 1 || o[0].APIVersion != "paas.cmft.com/v1" {
		t.Errorf("owners %v", o)
	}
}

func TestDemoApplication_ScaleSubresource(t *testing.T) {
	t.Parallel()
	l := env.NewSandbox(t, subject()).Start()
	a, d := application(l.Namespace, "web"), &appsv1.Deployment{}
	l.Create(a)
	l.Ready(a, "web")
	scale := &autoscalingv1.Scale{}
	if err := env.Admin.SubResource("scale").Get(t.Context(), a, scale); err != nil {
		t.Fatal(err)
	}
	if scale.Spec.Replicas != 2 || scale.Status.Replicas != 2 || scale.Status.Selector != "app=web,demoapplication_cr=web" {
		t.Errorf("scale is %+v, %+v", scale.Spec, scale.Status)
	}
	scale.Spec.Replicas = 3
	if err := env.Admin.SubResource("scale").Update(t.Context(), a, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	l.Until("3 replicas", d, "web", func() bool { return *d.Spec.Replicas == 3 })
}
