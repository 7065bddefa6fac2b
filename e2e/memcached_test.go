//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMemcached_Tutorial follows the tutorial of the legacy operator: three nodes become
// four, and each responds with the memory that it was given.
func TestMemcached_Tutorial(t *testing.T) {
	t.Parallel()
	const name = "example-memcached"
	raw, err := os.ReadFile("../config/samples/memcached.yaml")
	if err != nil {
		t.Fatal(err)
	}
	ns := namespace(t)
	in := func(args ...string) []string { return append([]string{"-n", ns}, args...) }
	applySized := func(size int) {
		t.Helper()
		yaml := strings.Replace(string(raw), "size: 3", fmt.Sprintf("size: %d", size), 1)
		if _, err := run(t.Context(), yaml, "kubectl", in("apply", "-f", "-")...); err != nil {
			t.Fatal(err)
		}
	}

	applySized(3)
	nodesAre(t, ns, name, 3)
	awaitReady(t, ns, "memcached/"+name)
	if got := kubectl(t, in("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas} {.spec.template.spec.containers[*].name}")...); got != "3 memcached" {
		t.Errorf("Deployment: %q", got)
	}
	if got := kubectl(t, in("get", "memcached", name, "-o", "jsonpath={.status.phase} {.status.reason} {.status.memory.size}")...); got != "Running Serving 64Mi" {
		t.Errorf("status: %q", got)
	}

	t.Run("every node answers and has the memory it was given", func(t *testing.T) {
		ips := strings.Fields(kubectl(t, in("get", "pods", "-l", "app=memcached,memcached_cr="+name, "-o", "jsonpath={.items[*].status.podIP}")...))
		if len(ips) != 3 {
			t.Errorf("%d addresses, want 3", len(ips))
		}
		for _, ip := range ips {
			memcachedHas(t, ip, "STAT limit_maxbytes 67108864")
		}
	})

	t.Run("the Service names every node", func(t *testing.T) {
		if got := kubectl(t, in("get", "service", name, "-o", "jsonpath={.spec.clusterIP}")...); got != "None" {
			t.Errorf("the Service has the address %s", got)
		}
		eventually(t, "three addresses", func() error {
			out, err := run(t.Context(), "", "kubectl", in("get", "endpointslices", "-l", "kubernetes.io/service-name="+name, "-o", "jsonpath={.items[*].endpoints[*].addresses[*]}")...)
			if n := len(strings.Fields(out)); err == nil && n != 3 {
				err = fmt.Errorf("there are %d", n)
			}
			return err
		})
	})

	t.Run("size changed from 3 to 4", func(t *testing.T) {
		before := nodesOf(t, ns, name)
		applySized(4)
		nodesAre(t, ns, name, 4)
		after := nodesOf(t, ns, name)
		for _, n := range before {
			if !slices.Contains(after, n) {
				t.Errorf("node %s was replaced", n)
			}
		}
		eventuallyPrints(t, "4", in("get", "deployment", name, "-o", "jsonpath={.status.readyReplicas}")...)
	})

	t.Run("kubectl scale and the short name work", func(t *testing.T) {
		kubectl(t, in("scale", "mc", name, "--replicas=2")...)
		nodesAre(t, ns, name, 2)
	})

	t.Run("deletion cleans up", func(t *testing.T) {
		kubectl(t, in("delete", "memcached", name)...)
		eventuallyPrints(t, "", in("get", "deployments,services,pods", "-o", "name")...)
		eventually(t, "the log line of the legacy operator", func() error {
			logs, err := run(t.Context(), "", "kubectl", "-n", operatorNamespace, "logs", "-l", "app.kubernetes.io/name="+operatorName, "--tail=-1")
			if err != nil {
				return err
			}
			for line := range strings.Lines(logs) {
				if strings.Contains(line, `"controller_memcached"`) && strings.Contains(line, ns+"/"+name) &&
					strings.Contains(line, "Memcached resource not found. Ignoring since object must be deleted") {
					return nil
				}
			}
			return fmt.Errorf("no line of logger controller_memcached about %s/%s", ns, name)
		})
	})
}

// nodesOf returns the nodes in the status.
func nodesOf(t *testing.T, ns, name string) []string {
	t.Helper()
	return strings.Fields(kubectl(t, "-n", ns, "get", "memcached", name, "-o", `jsonpath={range .status.nodes[*]}{@}{"\n"}{end}`))
}

// nodesAre waits until the status lists that many nodes, sorted, and until these
// are exactly the pods of the object.
func nodesAre(t *testing.T, ns, name string, want int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d nodes of %s", want, name), func() error {
		nodes, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "memcached", name, "-o", `jsonpath={range .status.nodes[*]}{@}{"\n"}{end}`)
		if err != nil {
			return err
		}
		pods, err := run(t.Context(), "", "kubectl", "-n", ns, "get", "pods", "-l", "app=memcached,memcached_cr="+name, "-o", `jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}`)
		if err != nil {
			return err
		}
		is, has := strings.Fields(nodes), strings.Fields(pods)
		slices.Sort(has)
		if len(is) != want || !slices.Equal(is, has) {
			return fmt.Errorf("the status lists %v, there are %v", is, has)
		}
		return nil
	})
}

// memcachedHas waits until the statistics of a memcached contain a line.
func memcachedHas(t *testing.T, ip, line string) {
	t.Helper()
	eventually(t, ip+" to say "+line, func() error {
		got, err := stats(t.Context(), ip)
		if err == nil && !slices.Contains(got, line) {
			err = fmt.Errorf("it says %v", got)
		}
		return err
	})
}

// stats returns the statistics of a memcached.
func stats(ctx context.Context, ip string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(ip, "11211"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return nil, err
	}
	if _, err := fmt.Fprint(conn, "stats\r\n"); err != nil {
		return nil, err
	}
	var lines []string
	for s := bufio.NewScanner(conn); s.Scan(); {
		if s.Text() == "END" {
			return lines, nil
		}
		lines = append(lines, s.Text())
	}
	return lines, fmt.Errorf("%s hung up after %d lines", ip, len(lines))
}
