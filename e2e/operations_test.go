//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/platform-operator/platform-operator/e2e/benchmark"
)

const operationsPage = "../docs/contributing/incidents.md"

// apiServerPause is how long the API server does not answer.
const apiServerPause = time.Minute

// operation is something that is done to the operator or to its cluster.
type operation struct {
	name string
	do   func(*operations) error
	// most is the goal for the seconds in which requests are refused.
	most time.Duration
}

// operations runs them.
type operations struct {
	*testing.T
	values string // of the release
	reader reader

	mu      sync.Mutex
	refused time.Duration // because of a webhook
	cause   string
}

var operationsTried = []operation{
	{"API server away, two replicas", (*operations).pauseAPIServer, 0},
	{"API server away, one replica", func(o *operations) error {
		return errors.Join(o.upgrade("replicas=1"), o.pauseAPIServer(), o.upgrade())
	}, 10 * time.Second},
	{"CRD of another kind deleted, and both replicas restarted", func(o *operations) error {
		return errors.Join(o.kubectl("delete", "crd", "memcacheds.cache.example.com"), o.restart(),
			o.kubectl("apply", "--server-side", "--force-conflicts", "-f", "../config/crd/bases/cache.example.com_memcacheds.yaml"))
	}, 0},
	{"rendered installation applied", (*operations).applyRendered, 0},
	{"production values, and back", func(o *operations) error {
		production, err := helm(o.Context(), o.values, o.arguments("-f", "../charts/platform-operator/values-production.yaml",
			"--set", "webhooks.certManager.enabled=false,metrics.serviceMonitor.enabled=false,metrics.prometheusRule.enabled=false")...)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, production)
		}
		return errors.Join(err, o.upgrade())
	}, 0},
	{"upgrade to an image that does not exist, and rollback", func(o *operations) error {
		_, err := helm(o.Context(), o.values, o.arguments("--set", "image.tag=missing,image.digest=", "--timeout", "30s")...)
		if err == nil {
			return errors.New("the upgrade to a missing image succeeded")
		}
		return o.upgrade()
	}, 0},
	{"node of a replica drained", func(o *operations) error {
		const node = "node2"
		return errors.Join(o.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=app.kubernetes.io/name=platform-operator", "--timeout=2m"),
			o.kubectl("uncordon", node), o.restart())
	}, 0},
	{"uninstallation, chart first", func(o *operations) error {
		_, err := helm(o.Context(), "", "uninstall", operatorName, "-n", operatorNamespace, "--wait")
		return errors.Join(err, o.unblocked(), o.upgrade())
	}, 40 * time.Second},
	{"uninstallation, namespace first", func(o *operations) error {
		return errors.Join(o.kubectl("delete", "namespace", operatorNamespace), o.unblocked(), o.upgrade("--create-namespace"))
	}, 40 * time.Second},
	{"uninstallation, CRDs first", func(o *operations) error {
		err := o.kubectl("delete", "crd", "webservers.my.domain", "demoapplications.paas.cmft.com", "memcacheds.cache.example.com", "immortalcontainers.immortalcontainer.flugel.it")
		_, uninstall := helm(o.Context(), "", "uninstall", operatorName, "-n", operatorNamespace, "--wait")
		return errors.Join(err, uninstall, o.upgrade())
	}, 40 * time.Second},
}

// TestCampaignOperations measures for how long requests are refused because a webhook does
// not answer, and writes the table of operationsPage.
func TestCampaignOperations(t *testing.T) {
	campaign(t, "campaign-operations")
	values, err := helm(t.Context(), "", "get", "values", operatorName, "-n", operatorNamespace, "-o", "yaml")
	if err != nil {
		t.Fatal(err)
	}
	o := &operations{T: t, values: values, reader: newReader(t)}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go o.probe(ctx)
	var table strings.Builder
	fmt.Fprintf(&table, "`make campaign-operations`, %s\n\n| operation | without admission | goal |\n|---|---:|---:|\n", machine(t))
	for _, op := range operationsTried {
		o.take()
		err := op.do(o)
		leads(t)
		time.Sleep(2 * time.Second) // a refused request may still wait
		refused, cause := o.take()
		t.Logf("%s: %s %s", op.name, refused.Round(100*time.Millisecond), cause)
		if err != nil {
			t.Errorf("%s: %v", op.name, err)
			continue
		}
		if refused > op.most {
			t.Errorf("%s: requests were refused for %s, the goal is %s: %s", op.name, refused, op.most, cause)
		}
		fmt.Fprintf(&table, "| %s | %.1f s | %.0f s |\n", op.name, refused.Seconds(), op.most.Seconds())
	}
	if err := benchmark.WriteSection(operationsPage, "# Incidents", "<!-- operations: written by make campaign-operations; changes by hand are overwritten -->", "<!-- operations: end -->", table.String()); err != nil {
		t.Error(err)
	}
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

// arguments returns those of helm upgrade, which reads the values of the release.
func (o *operations) arguments(more ...string) []string {
	return append([]string{
		"upgrade", "--install", operatorName, "../charts/platform-operator", "-n", operatorNamespace,
		"--force-conflicts", "--wait", "--hide-notes", "-f", "-",
	}, more...)
}

// upgrade installs the values of the release again, with changes.
func (o *operations) upgrade(set ...string) error {
	var more []string
	for _, s := range set {
		if !strings.HasPrefix(s, "--") {
			more = append(more, "--set")
		}
		more = append(more, s)
	}
	_, err := helm(o.Context(), o.values, o.arguments(more...)...)
	return err
}

// restart replaces the replicas one after the other.
func (o *operations) restart() error {
	return errors.Join(o.kubectl("-n", operatorNamespace, "rollout", "restart", "deployment/"+operatorName),
		o.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/"+operatorName, "--timeout="+patience.String()))
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
	rendered, err := helm(o.Context(), o.values, "template", operatorName, "../charts/platform-operator", "-n", operatorNamespace, "-f", "-")
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

// pauseAPIServer stops the process of the API server for a while.
func (o *operations) pauseAPIServer() error {
	out, err := run(o.Context(), "", "../bin/cluster", "status")
	if err != nil {
		return err
	}
	_, after, _ := strings.Cut(out, " kube-apiserver ")
	var pid int
	if _, err := fmt.Sscan(after, &pid); err != nil {
		return fmt.Errorf("finding the API server in %s: %w", out, err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stopping the API server: %w", err)
	}
	time.Sleep(apiServerPause)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		return fmt.Errorf("continuing the API server: %w", err)
	}
	return nil
}
