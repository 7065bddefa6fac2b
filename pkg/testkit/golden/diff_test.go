package golden

import (
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

func TestDifference_RefusesAFileWithoutFinalNewline(t *testing.T) {
	if _, err := difference("base", []byte(fleet), []byte("kind: A")); err == nil {
		t.Error("the newline would be lost")
	}
}
