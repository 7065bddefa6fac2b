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

// The objects of the tutorial, as they are written there.
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

// TestCampaignOLM follows the second half of the tutorial "Getting started" of the Operator
// Framework: the Operator Lifecycle Manager installs the operator for one namespace, and
// upgrades it while two caches run. It needs a cluster without the operator.
func TestCampaignOLM(t *testing.T) {
	campaign(t, "campaign-olm")
	bundles := os.Getenv("OLM_BUNDLES")
	if bundles == "" {
		t.Skip("run make campaign-olm")
	}
	csv := func(version string) string {
		return filepath.Join(bundles, version, "olm", "manifests", "platform-operator.clusterserviceversion.yaml")
	}
	phase := func(version string) []string {
		return []string{"-n", "default", "get", "clusterserviceversion", "platform-operator.v" + version, "-o", "jsonpath={.status.phase}"}
	}
	elsewhere := namespace(t)
	t.Cleanup(func() {
		// What the test has made in a namespace that is not its own.
		for _, args := range [][]string{
			{"delete", "memcached", "--all"},
			{"delete", "clusterserviceversions,operatorgroups", "--all"},
			{"delete", "--ignore-not-found", "-f", filepath.Join(bundles, "0.0.2", "olm", "rbac.yaml")},
		} {
			if _, err := run(context.Background(), "", "kubectl", append([]string{"-n", "default"}, args...)...); err != nil {
				t.Log(err)
			}
		}
	})

	kubectl(t, "-n", "default", "apply", "-f", filepath.Join(bundles, "0.0.1", "olm", "rbac.yaml"))
	crds, err := filepath.Glob(filepath.Join(bundles, "0.0.1", "olm", "manifests", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range crds {
		if crd != csv("0.0.1") {
			kubectl(t, "apply", "--server-side", "-f", crd)
		}
	}
	if err := apply(t, operatorGroup); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	kubectl(t, "-n", "default", "apply", "-f", csv("0.0.1"))
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
	kubectl(t, "-n", "default", "apply", "-f", csv("0.0.2"))
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
