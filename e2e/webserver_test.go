//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// sample returns the sample WebServer, which is that of the legacy operator's
// tutorial.
func sample(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile("../config/samples/webserver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// filler returns a pod on a node that requests half of its memory, and uses none.
func filler(t *testing.T, node string) string {
	t.Helper()
	allocatable := resource.MustParse(kubectl(t, "get", "node", node, "-o", "jsonpath={.status.allocatable.memory}"))
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: filler}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  containers: [{name: filler, image: "nginx:1.27.4", resources: {requests: {memory: "%d"}}}]
`, node, allocatable.Value()/2)
}

// TestWebServer_Tutorial follows the tutorial of the legacy operator: nginx behind
// port 30010, three replicas become four, the version changes, and the Service is
// restored.
func TestWebServer_Tutorial(t *testing.T) {
	const name, service = "webserver-sample", "webserver-sample-service"
	ns := namespace(t)
	free := !strings.Contains(kubectl(t, "get", "services", "-A", "-o", "jsonpath={..nodePort}"), "30010")
	in := func(args ...string) []string { return append([]string{"-n", ns}, args...) }
	applyIn := func(yaml string) {
		t.Helper()
		if _, err := run(t.Context(), yaml, "kubectl", in("apply", "-f", "-")...); err != nil {
			t.Fatal(err)
		}
	}
	ready := func() {
		t.Helper()
		awaitReady(t, ns, "webserver/"+name)
	}

	if local() {
		applyIn(filler(t, "node1"))
		awaitReady(t, ns, "pod/filler")
	}
	applyIn(sample(t))
	ready()
	port := kubectl(t, in("get", "service", service, "-o", "jsonpath={.spec.ports[0].nodePort}")...)
	if free && port != "30010" {
		t.Errorf("got node port %s, want 30010 as in the legacy tutorial", port)
	}
	url := fmt.Sprintf("http://%s:%s/", nodeAddress(t), port)
	pageHas(t, url, "Welcome to nginx!")
	if got := kubectl(t, in("get", "deployment", name, "-o", `jsonpath={.status.readyReplicas} {.spec.template.spec.containers[*].name} {.spec.template.spec.containers[*].image}`)...); got != "3 webserver nginx:1.23.1" {
		t.Errorf("Deployment: %q", got)
	}
	if got := kubectl(t, in("get", "pods", "-l", "app=webserver,webserver_cr="+name, "-o", "name")...); strings.Count(got, "pod/") != 3 {
		t.Errorf("got pods %q by the labels of the legacy operator, want 3", got)
	}
	if local() {
		// The nodes have no zones, and the scheduler prefers node2.
		nodes := strings.Fields(kubectl(t, in("get", "pods", "-l", "webserver_cr="+name, "-o", "jsonpath={.items[*].spec.nodeName}")...))
		slices.Sort(nodes)
		if different := slices.Compact(slices.Clone(nodes)); len(different) != 2 {
			t.Errorf("the pods are on the nodes %q, want both", nodes)
		}
		kubectl(t, in("delete", "pod", "filler")...)
	}

	t.Run("replicas changed from 3 to 4", func(t *testing.T) {
		applyIn(strings.Replace(sample(t), "replicas: 3", "replicas: 4", 1))
		eventuallyPrints(t, "4", in("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")...)
		eventuallyPrints(t, "4 4", in("get", "webserver", name, "-o", "jsonpath={.status.replicas} {.status.readyReplicas}")...)
	})

	t.Run("image changed", func(t *testing.T) {
		applyIn(strings.NewReplacer("replicas: 3", "replicas: 4", "1.23.1", "1.23.0").Replace(sample(t)))
		eventuallyPrints(t, "nginx:1.23.0", in("get", "webserver", name, "-o", "jsonpath={.status.image}")...)
		if local() {
			pageHas(t, url, "nginx:1.23.0")
		}
		eventuallyPrints(t, "", in("get", "pods", "-l", "webserver_cr="+name, "-o", `jsonpath={.items[?(@.spec.containers[0].image=="nginx:1.23.1")].metadata.name}`)...)
	})

	t.Run("service deleted comes back on the same port", func(t *testing.T) {
		before := kubectl(t, in("get", "service", service, "-o", "jsonpath={.metadata.uid}")...)
		kubectl(t, in("delete", "service", service)...)
		eventually(t, "the Service to come back", func() error {
			uid, err := run(t.Context(), "", "kubectl", in("get", "service", service, "-o", "jsonpath={.metadata.uid}")...)
			if err == nil && uid == before {
				err = errors.New("it is still the old one")
			}
			return err
		})
		if got := kubectl(t, in("get", "service", service, "-o", "jsonpath={.spec.ports[0].nodePort}")...); got != port {
			t.Errorf("node port %s, was %s", got, port)
		}
		pageHas(t, url, "Welcome to nginx!")
	})

	t.Run("kubectl scale and the short name work", func(t *testing.T) {
		kubectl(t, in("scale", "ws", name, "--replicas=2")...)
		eventuallyPrints(t, "2", in("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")...)
	})

	t.Run("the log has the lines of the legacy operator", func(t *testing.T) {
		logs := operatorLogs(t)
		for _, want := range []string{
			"Creating a new Deployment", "Creating a new Service",
			"Deployment spec.replicas change", "Deployment spec.template.spec.container[0].image change",
		} {
			if !slices.ContainsFunc(logs, func(l logLine) bool {
				return l.Msg == want && l.Logger == "controllers.WebServer" && l.Webserver == ns+"/"+name
			}) {
				t.Errorf("no line %q of logger controllers.WebServer about %s/%s", want, ns, name)
			}
		}
	})

	t.Run("deletion cleans up", func(t *testing.T) {
		kubectl(t, in("delete", "webserver", name)...)
		eventuallyPrints(t, "", in("get", "deployments,services,pods", "-o", "name")...)
		eventually(t, "the log line of the legacy operator", func() error {
			for _, l := range operatorLogs(t) {
				if l.Msg == "Webserver resource not found. Ignoring since object must be deleted" && l.Webserver == ns+"/"+name {
					return nil
				}
			}
			return errors.New("it is not in the log")
		})
	})
}

type logLine struct{ Logger, Msg, Webserver string }

// operatorLogs returns the log lines of all replicas.
func operatorLogs(t *testing.T) []logLine {
	t.Helper()
	var lines []logLine
	for raw := range strings.Lines(kubectl(t, "-n", operatorNamespace, "logs", "-l", "app.kubernetes.io/name=platform-operator", "--tail=-1")) {
		var l logLine
		if err := json.Unmarshal([]byte(raw), &l); err == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// TestWebServer_TwoInOneNamespace is needed because the legacy operator could not
// create the Service of a second WebServer: the node port was a constant.
func TestWebServer_TwoInOneNamespace(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	ns := namespace(t)
	for _, name := range []string{"one", "two"} {
		if err := apply(t, webServer(ns, name, `{image: nginx}`)); err != nil {
			t.Fatal(err)
		}
	}
	var ports []string
	for _, name := range []string{"one", "two"} {
		awaitReady(t, ns, "webserver/"+name)
		port := kubectl(t, "-n", ns, "get", "webserver", name, "-o", "jsonpath={.status.service.nodePort}")
		pageHas(t, fmt.Sprintf("http://%s:%s/", nodeAddress(t), port), "Welcome to nginx!")
		ports = append(ports, port)
	}
	if ports[0] == ports[1] {
		t.Errorf("both have node port %s", ports[0])
	}
}

// TestWebServer_ReportsTheDigestThatPodsRun moves a tag. The known digest is reported as
// long as any pod has it.
func TestWebServer_ReportsTheDigestThatPodsRun(t *testing.T) {
	campaign(t, "campaign-e2e")
	t.Parallel()
	if !local() {
		t.Skip("only the registry of the local cluster can be told to move a tag")
	}
	s := newBlockStage(t)
	const object = "webserver/web"
	image := "example.com/" + s.ns + ":1"
	push := func(from string) (digest string) {
		t.Helper()
		out, err := run(t.Context(), "", "../bin/cluster", "load", image, "--from", from)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	reports := func(digest string) {
		t.Helper()
		eventually(t, object+" to report "+digest, func() error {
			out := s.kubectl("get", object, "-o", "jsonpath={.status.image} {.status.imageID}")
			if !strings.HasPrefix(out, image+" ") || !strings.HasSuffix(out, "@"+digest) {
				return errors.New("it reports " + out)
			}
			return nil
		})
	}
	pods := func() []string {
		t.Helper()
		return strings.Fields(s.kubectl("get", "pods", "-o", "name"))
	}
	// digests waits until that many pods run with each of the digests, and no other pod is left.
	digests := func(want map[string]int) {
		t.Helper()
		eventually(t, fmt.Sprintf("pods with these digests: %v", want), func() error {
			out := strings.Fields(s.kubectl("get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[?(@.ready==true)].imageID}"))
			got := map[string]int{}
			for _, id := range out {
				_, digest, _ := strings.Cut(id, "@")
				got[digest]++
			}
			if n := len(pods()); !maps.Equal(got, want) || n != len(out) {
				return fmt.Errorf("%d pods, and %v", n, out)
			}
			return nil
		})
	}

	first := push("nginx:1.27.3")
	s.apply(webServerKind.manifest("web", `{image: "`+image+`", replicas: 2, service: {type: ClusterIP}}`))
	s.serves(object)
	digests(map[string]int{first: 2})
	reports(first)

	second := push("nginx:1.27.4")
	if first == second {
		t.Fatalf("both tags are %s, so this test shows nothing", first)
	}
	all := pods()
	s.kubectl("delete", all[0])
	digests(map[string]int{first: 1, second: 1})
	s.serves(object)
	reports(first)

	s.kubectl("delete", all[1])
	digests(map[string]int{second: 2})
	s.serves(object)
	reports(second)
}
