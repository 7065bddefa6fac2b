package golden

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const fleet = `apiVersion: v1
kind: ConfigMap
metadata:
  name: web
---
apiVersion: apps/v1
kind: ControllerRevision
metadata:
  labels: {a: b}
  name: web-1
revision: 1
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  template:
    spec:
      containers:
      - image: nginx:1
        name: web
        ports:
        - containerPort: 80
          name: http
      - image: exporter:1
        name: metrics
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: web
`

// edit replaces parts of the fleet, given as pairs of old and new.
func edit(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(fleet) }

func TestDifference_ShowsOnlyWhatChanged(t *testing.T) {
	for name, tc := range map[string]struct{ got, want string }{
		"nothing": {fleet, `= ConfigMap web
= ControllerRevision web-1
= Deployment web
= PodDisruptionBudget web
`},
		"field": {edit("replicas: 3", "replicas: 2"), `= ConfigMap web
= ControllerRevision web-1
~ Deployment web
= PodDisruptionBudget web

--- Deployment web
+++ Deployment web
@@ -4,5 +4,5 @@ spec
   name: web
 spec:
-  replicas: 3
+  replicas: 2
   template:
     spec:
`},
		"field of an item": {edit("        name: metrics\n", "        name: metrics\n        tty: true\n"), `= ConfigMap web
= ControllerRevision web-1
~ Deployment web
= PodDisruptionBudget web

--- Deployment web
+++ Deployment web
@@ -15,2 +15,3 @@ spec.template.spec.containers
       - image: exporter:1
         name: metrics
+        tty: true
`},
		"field of an item's item is deleted": {edit("          name: http\n", ""), `= ConfigMap web
= ControllerRevision web-1
~ Deployment web
= PodDisruptionBudget web

--- Deployment web
+++ Deployment web
@@ -12,5 +12,4 @@ spec.template.spec.containers.ports
         ports:
         - containerPort: 80
-          name: http
       - image: exporter:1
         name: metrics
`},
		"name that depends on the content": {edit("web-1", "web-2", "revision: 1", "revision: 2"), `= ConfigMap web
~ ControllerRevision web-2
= Deployment web
= PodDisruptionBudget web

--- ControllerRevision web-1
+++ ControllerRevision web-2
@@ -3,4 +3,4 @@ metadata
 metadata:
   labels: {a: b}
-  name: web-1
-revision: 1
+  name: web-2
+revision: 2
`},
		"new and deleted documents": {edit("apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata:\n  name: web\n", "kind: Ingress\nmetadata:\n  name: web\n---\n# deleted: *v1.Service web\n"), `= ConfigMap web
= ControllerRevision web-1
= Deployment web
+ Ingress web
+ deleted: *v1.Service web
- PodDisruptionBudget web

--- /dev/null
+++ Ingress web
@@ -0,0 +1,3 @@
+kind: Ingress
+metadata:
+  name: web
--- /dev/null
+++ deleted: *v1.Service web
@@ -0,0 +1,1 @@
+# deleted: *v1.Service web
`},
		"order": {"kind: PodDisruptionBudget\n---\n" + edit("apiVersion: policy/v1\n", ""), `+ PodDisruptionBudget
= ConfigMap web
= ControllerRevision web-1
= Deployment web
~ PodDisruptionBudget web

--- /dev/null
+++ PodDisruptionBudget
@@ -0,0 +1,1 @@
+kind: PodDisruptionBudget
--- PodDisruptionBudget web
+++ PodDisruptionBudget web
@@ -1,3 +1,2 @@
-apiVersion: policy/v1
 kind: PodDisruptionBudget
 metadata:
`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := difference("../base/want.yaml", []byte(fleet), []byte(tc.got))
			if err != nil {
				t.Fatal(err)
			}
			want := "# Differences from ../base/want.yaml. Unchanged documents are only listed.\n" + tc.want
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Lines and documents are added, deleted, repeated and moved at random.
func TestPatch_ReversesDifference(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // the seed makes a failure reproducible
		docs := strings.Split(fleet, "---\n")
		for range random.IntN(6) {
			i, j := random.IntN(len(docs)), random.IntN(len(docs))
			lines := strings.SplitAfter(docs[i], "\n")
			at := random.IntN(len(lines))
			switch random.IntN(6) {
			case 0:
				docs[i], docs[j] = docs[j], docs[i]
			case 1:
				docs = append(docs, docs[i])
			case 2:
				docs = append(docs[:i:i], docs[i+1:]...)
				if len(docs) == 0 {
					docs = []string{""}
				}
			case 3:
				docs[i] = strings.Join(append(lines[:at:at], lines[min(at+1, len(lines)):]...), "")
			case 4:
				docs[i] = strings.Join(lines[:at], "") + fmt.Sprintf("# -- %d\n\n", seed) + strings.Join(lines[at:], "")
			case 5:
				docs[i] = ""
			}
		}
		got := strings.Join(docs, "---\n")
		if _, err := split([]byte(got)); err != nil {
			continue // a deletion has left no YAML
		}
		diff, err := difference("base", []byte(fleet), []byte(got))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, got)
		}
		again, err := patch([]byte(fleet), diff)
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, diff)
		}
		if d := cmp.Diff(got, string(again)); d != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, d)
		}
	}
}

func TestPatch_RefusesWhatDoesNotFit(t *testing.T) {
	diff, err := difference("base", []byte(fleet), []byte(edit("replicas: 3", "replicas: 2")))
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct{ base, diff, want string }{
		"changed base":      {edit("replicas: 3", "replicas: 4"), string(diff), `the base has no line "  replicas: 3" there`},
		"shorter base":      {edit("  replicas: 3\n", ""), string(diff), "the base has no line"},
		"missing document":  {edit("kind: ConfigMap", "kind: Secret"), string(diff), "the base has no ConfigMap web"},
		"missing hunk line": {fleet, strings.Replace(string(diff), "     spec:\n", "", 1), "lines are missing"},
		"surplus line":      {fleet, string(diff) + " x\n", `" x" belongs to no document`},
		"no changes":        {fleet, "~ Deployment web\n", "its changes are missing"},
		"unknown line":      {fleet, "? Deployment web\n", "neither a comment nor a document"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := patch([]byte(tc.base), []byte(tc.diff)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q; patched:\n%s", err, tc.want, got)
			}
		})
	}
}

func TestDifference_RefusesAFileWithoutFinalNewline(t *testing.T) {
	if _, err := difference("base", []byte(fleet), []byte("kind: A")); err == nil {
		t.Error("the newline would be lost")
	}
}
