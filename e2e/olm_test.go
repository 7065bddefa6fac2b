//go:build e2e

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The objects of the tutorial, as they are written there, and what installs a package of a catalog.
const (
	operatorGroup = `apiVersion: operators.coreos.com/v1alpha2
kind: OperatorGroup
metadata:
  name: memcached-operator-group
  namespace: default
spec:
  targetNamespaces:
  - default
`
	subscription = `apiVersion: operators.coreos.com/v1alpha1
kind: Subscription
metadata: {name: platform-operator, namespace: default}
spec: {name: platform-operator, channel: stable, source: platform-operator, sourceNamespace: default}
`
	twoCaches = `apiVersion: "cache.example.com/v1alpha1"
kind: "Memcached"
metadata:
  name: "memcached-for-wordpress"
spec:
  size: 1
---
apiVersion: "cache.example.com/v1alpha1"
kind: "Memcached"
metadata:
  name: "memcached-for-drupal"
spec:
  size: 1
`
)

// serveCatalog lets opm serve the catalog with one version of the operator, and makes that
// the CatalogSource that the Subscription names.
func serveCatalog(t *testing.T, bundles, version string) {
	t.Helper()
	name := "catalog-" + strings.ReplaceAll(version, ".", "-")
	kubectl(t, "-n", "default", "create", "configmap", name, "--from-file=catalog.yaml="+filepath.Join(bundles, version, "olm", "catalog.yaml"))
	served := `apiVersion: v1
kind: Pod
metadata: {name: NAME, namespace: default, labels: {app: NAME}}
spec:
  containers:
  - name: opm
    image: opm:local
    args: [serve, /configs]
    readinessProbe: {tcpSocket: {port: 50051}, periodSeconds: 1}
    volumeMounts:
    - {name: catalog, mountPath: /configs/catalog.yaml, subPath: catalog.yaml}
    - {name: tmp, mountPath: /tmp}
  volumes:
  - {name: catalog, configMap: {name: NAME}}
  - {name: tmp, emptyDir: {}}
---
apiVersion: v1
kind: Service
metadata: {name: NAME, namespace: default}
spec: {selector: {app: NAME}, ports: [{port: 50051}]}
`
	source := `apiVersion: operators.coreos.com/v1alpha1
kind: CatalogSource
metadata: {name: platform-operator, namespace: default}
spec: {sourceType: grpc, address: "NAME.default.svc:50051"}
`
	if err := apply(t, strings.ReplaceAll(served, "NAME", name)); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, "default", "pod/"+name)
	if err := apply(t, strings.ReplaceAll(source, "NAME", name)); err != nil {
		t.Fatal(err)
	}
}

// TestCampaignOLM follows the second half of the tutorial "Getting started" of the Operator
// Framework: the Operator Lifecycle Manager installs the operator from a catalog for one
// namespace, and upgrades it while two caches run. It needs a cluster without the operator.
func TestCampaignOLM(t *testing.T) {
	campaign(t, "campaign-olm")
	bundles := os.Getenv("OLM_BUNDLES")
	if bundles == "" {
		t.Skip("run make campaign-olm")
	}
	phase := func(version string) []string {
		return []string{"-n", "default", "get", "clusterserviceversion", "platform-operator.v" + version, "-o", "jsonpath={.status.phase}"}
	}
	elsewhere := namespace(t)
	t.Cleanup(func() {
		// What the test has made in a namespace that is not its own.
		for _, args := range [][]string{
			{"delete", "memcached", "--all"},
			{"delete", "subscriptions,catalogsources,clusterserviceversions,operatorgroups", "--all"},
			{"delete", "--ignore-not-found", "pod/catalog-0-0-1", "service/catalog-0-0-1", "configmap/catalog-0-0-1"},
			{"delete", "--ignore-not-found", "pod/catalog-0-0-2", "service/catalog-0-0-2", "configmap/catalog-0-0-2"},
		} {
			if _, err := run(context.Background(), "", "kubectl", append([]string{"-n", "default"}, args...)...); err != nil {
				t.Log(err)
			}
		}
	})

	serveCatalog(t, bundles, "0.0.1")
	began := time.Now()
	if err := apply(t, operatorGroup+"---\n"+subscription); err != nil {
		t.Fatal(err)
	}
	eventuallyPrints(t, "Succeeded", phase("0.0.1")...)
	t.Logf("installed after %s", time.Since(began).Round(time.Second))

	if _, err := run(t.Context(), twoCaches, "kubectl", "-n", "default", "apply", "-f", "-"); err != nil {
		t.Fatal(err)
	}
	awaitReady(t, "default", "memcached/memcached-for-wordpress", "memcached/memcached-for-drupal")
	t.Log(kubectl(t, "-n", "default", "get", "memcached"))
	cache := func(ns, spec string) error {
		return apply(t, "apiVersion: cache.example.com/v1alpha1\nkind: Memcached\nmetadata: {name: other, namespace: "+ns+"}\nspec: "+spec+"\n")
	}
	if err := cache("default", "{size: 1, podDisruptionBudget: {minAvailable: 1, maxUnavailable: 1}}"); err == nil {
		t.Error("a budget with two limits is admitted: the webhook was not called")
	}
	// Another namespace is not of the group.
	if err := cache(elsewhere, "{size: 1}"); err != nil {
		t.Error(err)
	}

	pods := func() []string {
		out := kubectl(t, "-n", "default", "get", "pods", "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}")
		return slices.DeleteFunc(strings.Split(out, "\n"), func(line string) bool { return !strings.HasPrefix(line, "memcached-for-") })
	}
	before := pods()
	if len(before) != 2 {
		t.Fatalf("pods of the caches: %q, want two", before)
	}
	began = time.Now()
	serveCatalog(t, bundles, "0.0.2")
	eventuallyPrints(t, "Succeeded", phase("0.0.2")...)
	eventually(t, "the earlier version to go", func() error {
		if out, err := run(t.Context(), "", "kubectl", phase("0.0.1")...); err == nil {
			return errors.New("it is " + out)
		}
		return nil
	})
	eventuallyPrints(t, "2 platform-operator:0.0.2", "-n", "default", "get", "deployment", operatorName, "-o", "jsonpath={.status.updatedReplicas} {.spec.template.spec.containers[0].image}")
	kubectl(t, "-n", "default", "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String())
	t.Logf("upgraded after %s", time.Since(began).Round(time.Second))
	kubectl(t, "-n", "default", "patch", "memcached", "memcached-for-drupal", "--type=merge", "-p", `{"spec":{"size":2}}`)
	eventuallyPrints(t, "2", "-n", "default", "get", "deployment", "memcached-for-drupal", "-o", "jsonpath={.status.readyReplicas}")
	after := pods()
	for _, pod := range before {
		if !slices.Contains(after, pod) {
			t.Errorf("pod %s was replaced or restarted by the upgrade; now: %q", pod, after)
		}
	}
	if out := kubectl(t, "-n", elsewhere, "get", "deployments", "-o", "name"); out != "" {
		t.Errorf("the operator made %s in a namespace that is not of the group", out)
	}
}
