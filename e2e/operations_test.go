//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
)

const (
	operationsPage = "../docs/contributing/incidents.md"
	chart          = "../charts/platform-operator"
	// chartBefore is that of OPERATIONS_BEFORE; the tag of its image is before.
	chartBefore = "../bin/operations/before/charts/platform-operator"
	// builtIn and byCertManager are the modes of the certificate.
	builtIn, byCertManager = "webhooks.certManager.enabled=false", "webhooks.certManager.enabled=true"
)

// operation is something that is done to the operator or to its cluster.
type operation struct {
	name string
	do   func(*operations) error
	// most is the goal for the seconds in which requests are refused.
	most time.Duration
	// deletes is whether the objects of users are deleted, and cluster whether what users
	// notice is due to Kubernetes.
	deletes, cluster bool
}

// operations runs them.
type operations struct {
	*testing.T
	values string // of the release
	reader reader
	users  *users
	// earlier is the namespace of objects that the version before has created, and
	// earlierPods are their pods.
	earlier, earlierPods string

	mu      sync.Mutex
	refused time.Duration // because of a webhook
	cause   string
}

var operationsTried = []operation{
	{name: "API server away, two replicas", do: (*operations).pauseAPIServer, cluster: true},
	{name: "API server away, one replica", do: func(o *operations) error {
		return errors.Join(o.upgrade("replicas=1"), o.pauseAPIServer(), o.upgrade())
	}, most: 10 * time.Second, cluster: true},
	{name: "API server slow, two replicas", do: (*operations).slowAPIServer},
	{name: "API server slow, one replica", do: func(o *operations) error {
		return errors.Join(o.upgrade("replicas=1"), o.slowAPIServer(), o.upgrade())
	}, most: 10 * time.Second},
	{name: "CRD deleted, and both replicas restarted", do: func(o *operations) error {
		return errors.Join(o.kubectl("delete", "crd", "memcacheds.cache.example.com"), o.restart(),
			o.kubectl("apply", "--server-side", "--force-conflicts", "-f", "../config/crd/bases/cache.example.com_memcacheds.yaml"))
	}},
	{name: "clock a day ahead, certificate deleted", do: func(o *operations) error { return o.shiftClock("ahead") }},
	{name: "clock a day behind, certificate deleted", do: func(o *operations) error { return o.shiftClock("behind") }},
	{name: "downgrade to the version before", do: func(o *operations) error {
		return errors.Join(o.downgrade(), o.createEarlier())
	}},
	{name: "upgrade from the version before", do: func(o *operations) error { return errors.Join(o.upgrade(), o.keepsEarlier()) }},
	{name: "production values, certificate by cert-manager, and back", do: func(o *operations) error {
		return errors.Join(o.upgrade("-f", chart+"/values-production.yaml",
			"metrics.serviceMonitor.enabled=false,metrics.prometheusRule.enabled=false"), o.settle(), o.upgrade(), o.settle())
	}},
	{name: "certificate by cert-manager, and back, each with a missing image first", do: func(o *operations) error {
		return errors.Join(o.fail(byCertManager), o.settle(), o.upgrade(byCertManager), o.fail(builtIn), o.settle(), o.upgrade(builtIn))
	}},
	{name: "the same with a missing image, and `helm rollback`", do: func(o *operations) error {
		err := o.fail(byCertManager)
		_, rollback := helm(o.Context(), "", "rollback", operatorName, "-n", operatorNamespace, "--wait", "--force-conflicts")
		return errors.Join(err, o.settle(), rollback, o.settle())
	}},
	{name: "rendered installation applied", do: (*operations).applyRendered},
	{name: "node of the leader drained", do: func(o *operations) error {
		node, err := run(o.Context(), "", "kubectl", "-n", operatorNamespace, "get", "pod", o.leader(), "-o", "jsonpath={.spec.nodeName}")
		return errors.Join(err,
			o.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app.kubernetes.io/name=platform-operator", "--timeout=2m"),
			o.kubectl("uncordon", node), o.restart())
	}},
	{name: "uninstallation, chart first", do: func(o *operations) error {
		_, err := helm(o.Context(), "", "uninstall", operatorName, "-n", operatorNamespace, "--wait")
		return errors.Join(err, o.unblocked(), o.upgrade())
	}, most: 40 * time.Second},
	{name: "uninstallation, namespace first", do: func(o *operations) error {
		return errors.Join(o.kubectl("delete", "namespace", operatorNamespace), o.unblocked(), o.upgrade("--create-namespace"))
	}, most: 40 * time.Second},
	{name: "uninstallation, CRDs first", do: func(o *operations) error {
		err := o.kubectl("delete", "crd", "webservers.my.domain", "demoapplications.paas.cmft.com", "memcacheds.cache.example.com", "immortalcontainers.immortalcontainer.flugel.it")
		_, uninstall := helm(o.Context(), "", "uninstall", operatorName, "-n", operatorNamespace, "--wait")
		return errors.Join(err, uninstall, o.upgrade())
	}, most: 40 * time.Second, deletes: true},
}

// TestCampaignOperations measures for how long requests are refused because a webhook does
// not answer, and what users notice, and writes the table of operationsPage. OPERATIONS
// selects some operations, and writes no table.
func TestCampaignOperations(t *testing.T) {
	campaign(t, "campaign-operations")
	only := regexp.MustCompile(os.Getenv("OPERATIONS"))
	values, err := helm(t.Context(), "", "get", "values", operatorName, "-n", operatorNamespace, "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := &operations{T: t, values: values, reader: newReader(t), users: newUsers(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := newCertManager(ctx, o.reader); err != nil {
		t.Fatal(err)
	}
	go o.probe(ctx)
	var table strings.Builder
	fmt.Fprintf(&table, "`make campaign-operations`, %s\n\n", machine(t))
	table.WriteString("| operation | seconds without admission | goal | users notice |\n|---|---:|---:|---|\n")
	for _, op := range operationsTried {
		if !only.MatchString(op.name) {
			continue
		}
		table.WriteString(o.try(op))
		if os.Getenv("OPERATIONS") == "" {
			err = benchmark.WriteSection(operationsPage, "# Incidents", "<!-- operations: written by make campaign-operations; changes by hand are overwritten -->", "<!-- operations: end -->", table.String())
		}
	}
	if err != nil {
		t.Error(err)
	}
}

// try returns the row of the table.
func (o *operations) try(op operation) string {
	if op.deletes {
		o.users.end()
	}
	o.take()
	if !op.deletes {
		o.users.take()
	}
	began := time.Now()
	err := op.do(o)
	leads(o.T)
	time.Sleep(2 * time.Second) // a refused request may still wait
	refused, cause := o.take()
	o.Logf("%s: %s; refused for %s %s", op.name, time.Since(began).Round(time.Second), refused.Round(100*time.Millisecond), cause)
	if err != nil {
		o.Errorf("%s: %v", op.name, err)
		return ""
	}
	if refused > op.most {
		o.Errorf("%s: requests were refused for %s, the goal is %s: %s", op.name, refused, op.most, cause)
	}
	row := fmt.Sprintf("| %s | %.1f | %.0f |", op.name, refused.Seconds(), op.most.Seconds())
	if op.deletes {
		return row + " |\n"
	}
	n, messages := o.users.take()
	if n != (noticed{}) && !op.cluster {
		o.Errorf("%s: users notice %s\n%s", op.name, n, messages)
	}
	return fmt.Sprintf("%s %s |\n", row, n)
}

// probe sends requests all the time. One that fails because of a webhook counts from the
// end of the one before.
func (o *operations) probe(ctx context.Context) {
	webServers := o.reader.objects.Resource(schema.GroupVersionResource{Group: "my.domain", Version: "v1", Resource: "webservers"}).Namespace("default")
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "my.domain/v1", "kind": "WebServer", "metadata": map[string]any{"name": "probe"}, "spec": map[string]any{"image": "nginx:1.27.4"},
	}}
	for last := time.Now(); ctx.Err() == nil; time.Sleep(100 * time.Millisecond) {
		_, err := webServers.Create(ctx, object.DeepCopy(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		now := time.Now()
		if err != nil && strings.Contains(err.Error(), "failed calling webhook") {
			o.mu.Lock()
			o.refused, o.cause = o.refused+now.Sub(last), err.Error()
			o.mu.Unlock()
		}
		last = now
	}
}

// take returns for how long requests were refused since the last call.
func (o *operations) take() (time.Duration, string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	refused, cause := o.refused, o.cause
	o.refused, o.cause = 0, ""
	return refused, cause
}

func (o *operations) kubectl(args ...string) error {
	_, err := run(o.Context(), "", "kubectl", args...)
	return err
}

// arguments returns those of helm upgrade, which reads the values of the release. Those of
// more that are not flags, or files, are values.
func (o *operations) arguments(from string, more ...string) []string {
	args := []string{
		"upgrade", "--install", operatorName, from, "-n", operatorNamespace,
		"--force-conflicts", "--wait", "--hide-notes", "-f", "-",
	}
	for _, m := range more {
		if strings.Contains(m, "=") && !strings.HasPrefix(m, "--") {
			args = append(args, "--set")
		}
		args = append(args, m)
	}
	return args
}

// install installs a chart with the values of the release, and changes.
func (o *operations) install(from string, more ...string) error {
	_, err := helm(o.Context(), o.values, o.arguments(from, more...)...)
	return err
}

// upgrade installs the values of the release again, with changes.
func (o *operations) upgrade(more ...string) error { return o.install(chart, more...) }

// downgrade installs the version before with its own values, because its schema refuses those
// that it does not know.
func (o *operations) downgrade() error {
	_, err := helm(o.Context(), "{image: {repository: platform-operator, tag: before}}",
		o.arguments(chartBefore, "-f", chartBefore+"/../../e2e/values.yaml", "-f", "../e2e/values-monitoring.yaml")...)
	return err
}

// fail upgrades to an image that does not exist.
func (o *operations) fail(more ...string) error {
	if o.upgrade(append(more, "image.tag=missing,image.digest=", "--timeout=10s")...) == nil {
		return errors.New("the upgrade to a missing image succeeded")
	}
	return nil
}

// settle gives all clients of a certificate the time to notice it.
func (o *operations) settle() error { //nolint:unparam // one of several steps
	time.Sleep(5 * time.Second)
	return nil
}

// earlierObjects are created by the version before, and their changes are made by this one.
var earlierObjects = []struct{ name, manifest, change string }{
	{"webserver/web", webServerKind.manifest("web", `{image: "nginx:1.27.4", replicas: 2, config: {inline: "gzip on;"}, content: {files: {index.html: earlier}}}`), `{"spec":{"replicas":3}}`},
	{"demoapp/app", demoApplicationKind.manifest("app", `{image: "nginx:1.27.4", replica: 2, ports: [{port: 80}]}`), `{"spec":{"replica":3}}`},
	{"memcached/cache", memcachedKind.manifest("cache", `{size: 2}`), `{"spec":{"size":3}}`},
	{"immortal/one", immortalKind.manifest("one", `{image: "nginx:1.27.4"}`), `{"metadata":{"labels":{"changed":"true"}}}`},
}

// createEarlier creates an object of each kind.
func (o *operations) createEarlier() error {
	o.earlier = namespace(o.T)
	for _, e := range earlierObjects {
		if _, err := run(o.Context(), e.manifest, "kubectl", "-n", o.earlier, "apply", "-f", "-"); err != nil {
			return err
		}
	}
	for _, e := range earlierObjects {
		awaitReady(o.T, o.earlier, e.name)
	}
	o.earlierPods = o.podsOfEarlier()
	return nil
}

func (o *operations) podsOfEarlier() string {
	return kubectl(o.T, "-n", o.earlier, "get", "pods", "--sort-by=.metadata.creationTimestamp", "-o", "jsonpath={range .items[*]}{.metadata.name} {.status.containerStatuses[*].restartCount}{\"\\n\"}{end}")
}

// keepsEarlier checks that the objects of the version before are Ready, without a pod that
// was replaced, and can be changed.
func (o *operations) keepsEarlier() error {
	if o.earlier == "" {
		return nil // the downgrade was not selected
	}
	leads(o.T)
	time.Sleep(10 * time.Second) // the leader has reconciled all objects
	for _, e := range earlierObjects {
		awaitReady(o.T, o.earlier, e.name)
	}
	if pods := o.podsOfEarlier(); pods != o.earlierPods {
		return fmt.Errorf("the pods of objects of the version before are now\n%s, and were\n%s", pods, o.earlierPods)
	}
	for _, e := range earlierObjects {
		kubectl(o.T, "-n", o.earlier, "patch", e.name, "--type=merge", "-p", e.change)
		eventually(o.T, e.name+" to be Ready after its change", func() error {
			out, err := run(o.Context(), "", "kubectl", "-n", o.earlier, "get", e.name, "-o", `jsonpath={.metadata.generation} {.status.conditions[?(@.type=="Ready")].observedGeneration} {.status.conditions[?(@.type=="Ready")].status}`)
			if f := strings.Fields(out); err == nil && (len(f) != 3 || f[0] != f[1] || f[2] != "True") {
				err = errors.New("generation, that of Ready, and its status: " + out)
			}
			return err
		})
	}
	return nil
}

// shiftClock runs replicas with another clock, which issue a certificate and roll out an object.
func (o *operations) shiftClock(tag string) error {
	const secret = "secret/" + operatorName + "-webhook-cert"
	if err := o.upgrade("image.tag=" + tag + ",image.digest="); err != nil {
		return err
	}
	return errors.Join(o.kubectl("-n", operatorNamespace, "delete", secret),
		o.kubectl("-n", operatorNamespace, "wait", "--for=create", secret, "--timeout=1m"),
		o.changeObject(), o.upgrade())
}

// leader returns the name of its pod.
func (o *operations) leader() string {
	holder, _, _ := strings.Cut(kubectl(o.T, "-n", operatorNamespace, "get", "lease", operatorName, "-o", "jsonpath={.spec.holderIdentity}"), "_")
	return holder
}

// rolledOut waits until all replicas are those of the Deployment.
func (o *operations) rolledOut() error {
	return o.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String())
}

// restart replaces the replicas one after the other.
func (o *operations) restart() error {
	return errors.Join(o.kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/"+operatorName), o.rolledOut())
}

// unblocked creates and deletes an object without the operator.
func (o *operations) unblocked() error {
	const object = "apiVersion: my.domain/v1\nkind: WebServer\nmetadata: {name: unmanaged, namespace: default}\nspec: {image: nginx, deletionPolicy: Orphan}\n"
	return poll(o.Context(), "an object to be created and deleted", func() error {
		if _, err := run(o.Context(), object, "kubectl", "apply", "-f", "-"); err != nil {
			return err
		}
		return o.kubectl("-n", "default", "delete", "webserver", "unmanaged", "--timeout=10s")
	})
}

// applyRendered installs the chart as tools do that render it, with the Job of its hook, and
// applies it again, which is measured.
func (o *operations) applyRendered() error {
	const job = "job/" + operatorName + "-release"
	rendered, err := helm(o.Context(), o.values, "template", operatorName, chart, "-n", operatorNamespace, "-f", "-")
	if err != nil {
		return err
	}
	install := func() error {
		_, err := run(o.Context(), rendered, "kubectl", "-n", operatorNamespace, "apply", "--server-side", "--force-conflicts", "-f", "-")
		return errors.Join(err, o.kubectl("-n", operatorNamespace, "wait", "--for=condition=Complete", job, "--timeout=2m"),
			o.kubectl("-n", operatorNamespace, "delete", job))
	}
	if _, err := helm(o.Context(), "", "uninstall", operatorName, "-n", operatorNamespace, "--wait"); err != nil {
		return err
	}
	if err := install(); err != nil {
		return err
	}
	leads(o.T)
	o.take()
	return errors.Join(install(), o.upgrade("--take-ownership"), install(), o.upgrade())
}
