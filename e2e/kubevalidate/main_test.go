package main

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	deployment1 = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: default}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "nginx:1.27"}
`
	service1 = `
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec: {ports: [{port: 80}]}
`
)

func ask(t *testing.T, old, now string) string {
	t.Helper()
	q := question{}
	for doc, to := range map[string]*json.RawMessage{old: &q.Old, now: &q.New} {
		if doc == "" {
			continue
		}
		raw, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		*to = raw
	}
	in, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := serve(bytes.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		t.Fatal(err)
	}
	return a.Error
}

func TestJudge_AcceptsValidObjects(t *testing.T) {
	for name, tc := range map[string]struct{ old, now string }{
		"a Deployment":     {"", deployment1},
		"its update":       {deployment1, strings.Replace(deployment1, "1.27", "1.28", 1)},
		"a Service":        {"", service1},
		"a Service's port": {service1, strings.Replace(service1, "80", "81", 1)},
		"a Service's type": {strings.Replace(service1, "spec: {", "spec: {type: NodePort, ", 1), service1},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, tc.old, tc.now); got != "" {
				t.Errorf("refused: %s", got)
			}
		})
	}
}

func TestJudge_RejectsInvalidObjects(t *testing.T) {
	for name, tc := range map[string]struct{ old, now, want string }{
		"a field that is not known": {"", deployment1 + "      - {name: b, image: b, imagine: c}\n", "unknown field"},
		"no image":                  {"", strings.Replace(deployment1, "nginx:1.27", "", 1), "spec.template.spec.containers[0].image: Required"},
		"a selector that changes":   {deployment1, strings.ReplaceAll(deployment1, "app: web", "app: wob"), "field is immutable"},
		"a port twice":              {"", strings.Replace(service1, "{port: 80}", "{port: 80, name: a}, {port: 80, name: b}", 1), "Duplicate"},
		"a name":                    {"", strings.Replace(service1, "name: web", "name: Web", 1), "metadata.name"},
		"a rule of pods only":       {"", strings.Replace(deployment1, "      containers:", "      nodeName: a b\n      containers:", 1), "nodeName"},
		"another type":              {"", "{apiVersion: v1, kind: Secret, metadata: {name: a, namespace: b}}", "not among the types"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ask(t, tc.old, tc.now); !strings.Contains(got, tc.want) {
				t.Errorf("got %q, want something with %q", got, tc.want)
			}
		})
	}
}

// Another version would be compiled a second time, and would not be the one
// that the end-to-end tests run on.
func TestModule_HasTheKubernetesVersionOfTheLocalCluster(t *testing.T) {
	version := regexp.MustCompile(`k8s\.io/kubernetes (v\S+)`)
	var found []string
	for _, file := range []string{"go.mod", "../cluster/hyperkube/go.mod"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := version.FindSubmatch(raw)
		if m == nil {
			t.Fatalf("%s requires no k8s.io/kubernetes", file)
		}
		found = append(found, string(m[1]))
	}
	if found[0] != found[1] {
		t.Errorf("it is %s here and %s in hyperkube", found[0], found[1])
	}
}
