//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

func demoApplication(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../config/samples/demoapplication_v1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestDemoApplication_Tutorial follows the tutorial of the legacy operator: two pods
// of nginx behind port 30002. Then it checks the two problems that the tutorial
// leaves unsolved: children must be deleted with the object, and manual changes
// must be reverted.
func TestDemoApplication_Tutorial(t *testing.T) {
	t.Parallel()
	const name = "nginx-demo"
	ns := namespace(t)
	in := func(args ...string) []string { return append([]string{"-n", ns}, args...) }
	applyIn := func(yaml string) {
		t.Helper()
		if _, err := run(t.Context(), yaml, "kubectl", in("apply", "-f", "-")...); err != nil {
			t.Fatal(err)
		}
	}
	ready := func() {
		t.Helper()
		awaitReady(t, ns, "demoapp/"+name)
	}
	yaml := demoApplication(t)
	port := "30002"
	if strings.Contains(kubectl(t, "get", "services", "-A", "-o", "jsonpath={..nodePort}"), port) {
		// The port is allocated to another Service, so the object is stalled, and
		// the test continues without the port.
		applyIn(yaml)
		eventuallyPrints(t, "NodePortUnavailable", in("get", "demoapp", name, "-o", `jsonpath={.status.conditions[?(@.type=="Stalled")].reason}`)...)
		yaml = strings.Replace(yaml, "    nodePort: "+port+"\n", "", 1)
		port = ""
	}
	shows := func() {
		t.Helper()
		if port != "" {
			pageHas(t, fmt.Sprintf("http://%s:%s/", nodeAddress(t), port), "Welcome to nginx!")
		}
	}

	applyIn(yaml)
	ready()
	shows()
	if got := kubectl(t, in("get", "deployment", name, "-o", `jsonpath={.status.readyReplicas} {.spec.template.spec.containers[*].name} {.spec.template.spec.containers[*].image}`)...); got != "2 nginx-demo nginx:latest" {
		t.Errorf("Deployment: %q", got)
	}
	if got := kubectl(t, in("get", "pods", "-l", "app="+name, "-o", "name")...); strings.Count(got, "pod/") != 2 {
		t.Errorf("got pods %q by the label of the legacy operator, want 2", got)
	}

	t.Run("an edit of the Deployment is undone", func(t *testing.T) {
		kubectl(t, in("patch", "deployment", name, "--type=json", "-p",
			`[{"op":"replace","path":"/spec/replicas","value":5},{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:1.23.0"}]`)...)
		eventuallyPrints(t, "2 nginx:latest", in("get", "deployment", name, "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].image}")...)
		ready()
	})

	t.Run("an edit of the Service is undone", func(t *testing.T) {
		kubectl(t, in("patch", "service", name, "--type=merge", "-p", `{"spec":{"selector":{"app":"nobody"},"ports":[{"port":8080,"targetPort":9999}]}}`)...)
		eventuallyPrints(t, name+" 80 tcp-80", in("get", "service", name, "-o", "jsonpath={.spec.selector.app} {.spec.ports[*].port} {.spec.ports[*].targetPort}")...)
		shows()
	})

	t.Run("a deleted child comes back", func(t *testing.T) {
		for _, child := range []string{"deployment", "service"} {
			before := kubectl(t, in("get", child, name, "-o", "jsonpath={.metadata.uid}")...)
			kubectl(t, in("delete", child, name)...)
			eventually(t, "the "+child+" to come back", func() error {
				uid, err := run(t.Context(), "", "kubectl", in("get", child, name, "-o", "jsonpath={.metadata.uid}")...)
				if err == nil && uid == before {
					err = errors.New("it is still the old one")
				}
				return err
			})
		}
		ready()
		shows()
	})

	t.Run("both versions are the same object", func(t *testing.T) {
		applyIn(strings.NewReplacer("paas.cmft.com/v1", "paas.cmft.com/v1beta1", "replica: 2", "replica: 3").Replace(yaml))
		eventuallyPrints(t, "paas.cmft.com/v1 3", in("get", "demoapplications.v1.paas.cmft.com", name, "-o", "jsonpath={.apiVersion} {.spec.replica}")...)
		eventuallyPrints(t, "3", in("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")...)
		applyIn(yaml)
		eventuallyPrints(t, "paas.cmft.com/v1beta1 2", in("get", "demoapplications.v1beta1.paas.cmft.com", name, "-o", "jsonpath={.apiVersion} {.spec.replica}")...)
	})

	t.Run("kubectl scale and the short name work", func(t *testing.T) {
		kubectl(t, in("scale", "demoapp", name, "--replicas=1")...)
		eventuallyPrints(t, "1", in("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")...)
	})

	t.Run("without ports there is no Service", func(t *testing.T) {
		kubectl(t, in("patch", "demoapp", name, "--type=merge", "-p", `{"spec":{"ports":null}}`)...)
		eventuallyPrints(t, "", in("get", "services", "-o", "name")...)
		ready()
	})

	t.Run("deletion cleans up", func(t *testing.T) {
		kubectl(t, in("delete", "demoapp", name)...)
		eventuallyPrints(t, "", in("get", "deployments,services,pods", "-o", "name")...)
		eventually(t, "the log line of the legacy operator", func() error {
			for raw := range strings.Lines(kubectl(t, "-n", operatorNamespace, "logs", "-l", "app.kubernetes.io/name=platform-operator", "--tail=-1")) {
				if strings.Contains(raw, `"DemoApplication resource not found. Ignoring since it must be deleted"`) &&
					strings.Contains(raw, `"controllers.DemoApplication"`) && strings.Contains(raw, `"`+ns+"/"+name+`"`) {
					return nil
				}
			}
			return errors.New("it is not in the log")
		})
	})
}
