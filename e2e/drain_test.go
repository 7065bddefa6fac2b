//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/platform-operator/platform-operator/e2e/load"
)

const (
	// slack is how much longer than the start of a pod the drain of its node may take.
	slack = 10 * time.Second
	// evictionWait is how long an eviction waits for another pod at most.
	evictionWait = 10 * time.Minute
)

// drainStage is a DemoApplication with one pod, which starts slowly.
type drainStage struct {
	blockStage
	starts time.Duration
}

func newDrainStage(t *testing.T, starts time.Duration) drainStage {
	t.Helper()
	s := drainStage{newBlockStage(t), starts}
	s.apply(app(fmt.Sprintf("  probes: {readiness: {tcpSocket: {port: 80}, periodSeconds: 1, initialDelaySeconds: %d}}\n", int(starts.Seconds()))))
	s.ready()
	return s
}

// node returns the node of the only pod.
func (s drainStage) node() string {
	s.Helper()
	return s.kubectl("get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}")
}

// cordon cordons a node until the test ends.
func (s drainStage) cordon(node string) {
	s.Helper()
	s.Cleanup(func() { s.uncordon(node) })
	kubectl(s.T, "cordon", node)
}

func (s drainStage) uncordon(node string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := run(ctx, "", "kubectl", "uncordon", node); err != nil {
		s.Error(err)
	}
}

// drain drains a node under load, and returns how long its eviction of the pod took, and the
// result of the load.
func (s drainStage) drain(node string) (time.Duration, load.Result) {
	s.Helper()
	l, err := load.Start(s.Context(), load.Config{
		URL:  "http://" + s.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}") + "/",
		Rate: 50, Least: 250, Most: 50 * int((2 * evictionWait).Seconds()), Limit: 30 * time.Second,
	})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { s.uncordon(node) })
	began := time.Now()
	out, err := run(s.Context(), "", "kubectl", "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force",
		"--pod-selector=app=web,app.kubernetes.io/managed-by=platform-operator", "--timeout="+(evictionWait+2*time.Minute).String())
	took := time.Since(began)
	l.End()
	if err != nil {
		s.Errorf("%v\n%s", err, out)
	}
	result := l.Wait()
	s.Logf("%s: drained in %s, start %s, requests %d, failed %s", node, took.Round(time.Second), s.starts, result.Requests, result.Classes())
	return took, result
}

// settled waits until there is only one pod, which serves.
func (s drainStage) settled() {
	s.Helper()
	eventually(s.T, "one pod", func() error {
		out, err := run(s.Context(), "", "kubectl", "-n", s.ns, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].metadata.name}")
		if n := len(strings.Fields(out)); err == nil && n != 1 {
			err = fmt.Errorf("there are %d pods: %s", n, out)
		}
		return err
	})
	s.ready()
}

// TestDrain_ReplacesTheOnlyPodFirst checks that the drain of a node loses no request of an
// object with one pod, and takes little longer than that pod needs to start.
func TestDrain_ReplacesTheOnlyPodFirst(t *testing.T) {
	campaign(t, "campaign-operator")
	for _, starts := range []time.Duration{time.Second, 20 * time.Second, time.Minute} {
		t.Run(starts.String(), func(t *testing.T) {
			s := newDrainStage(t, starts)
			for range 2 {
				node := s.node()
				took, result := s.drain(node)
				if result.Failed() > 0 {
					t.Errorf("requests failed: %s", result)
				}
				if took > starts+slack {
					t.Errorf("the drain took %s", took)
				}
				s.settled()
				if got := s.node(); got == node {
					t.Errorf("the pod is still on %s", node)
				}
				s.uncordon(node)
			}
			if got := s.kubectl("get", "demoapp", "web", "-o", "jsonpath={.status.lastActions}"); got != "" {
				t.Errorf("actions: %s", got)
			}
		})
	}
}

// TestDrain_EndsWithoutRoom checks that a drain ends although the pod cannot run elsewhere,
// and that the status says so.
func TestDrain_EndsWithoutRoom(t *testing.T) {
	campaign(t, "campaign-operator")
	s := newDrainStage(t, time.Second)
	node := s.node()
	for other := range strings.FieldsSeq(kubectl(t, "get", "nodes", "-o", "jsonpath={.items[*].metadata.name}")) {
		if other != node {
			s.cordon(other)
		}
	}
	took, _ := s.drain(node)
	if took < evictionWait || took > evictionWait+30*time.Second {
		t.Errorf("the drain took %s", took)
	}
	eventually(t, "the action", func() error {
		got := s.kubectl("get", "demoapp", "web", "-o", "jsonpath={.status.lastActions[0].type} {.status.lastActions[0].message}")
		if !strings.HasPrefix(got, "AllowEviction A pod may be evicted without a replacement") {
			return errors.New("got " + got)
		}
		return nil
	})
	s.uncordon(node)
	s.ready()
}
