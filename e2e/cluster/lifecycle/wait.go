package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/platform-operator/platform-operator/e2e/cluster/build"
	"github.com/platform-operator/platform-operator/e2e/cluster/component"
	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/control"
	"github.com/platform-operator/platform-operator/e2e/cluster/images"
	"github.com/platform-operator/platform-operator/e2e/cluster/kube"
	"github.com/platform-operator/platform-operator/e2e/cluster/load"
	"github.com/platform-operator/platform-operator/e2e/cluster/logs"
	"github.com/platform-operator/platform-operator/e2e/cluster/nodeinit"
	"github.com/platform-operator/platform-operator/e2e/cluster/probe"
	"github.com/platform-operator/platform-operator/e2e/cluster/templates"
)

func (u *upRun) waitNodes(ctx context.Context) error {
	ready := []string{"wait", "--for=condition=Ready", "--timeout=5s"}
	for n := 1; n <= u.spec.Nodes; n++ {
		ready = append(ready, "node/"+config.NodeName(n))
	}
	err := probe.WaitFor(ctx, 100*time.Millisecond, func() bool {
		if !u.allHealthy(ctx, component.Names()) {
			return false
		}
		_, err := kube.Kubectl(ctx, u.Config, nil, ready...)
		return err == nil
	})
	if err != nil {
		return u.explain(err)
	}
	return nil
}

// startDNS installs cluster DNS, and waits until each node gets an answer.
func (u *upRun) startDNS(ctx context.Context) error {
	coredns, ok := build.Find(build.ArtifactCoreDNS)
	if !ok {
		return errors.New("the build table has no CoreDNS")
	}
	image, err := images.FromBinary(coredns.Program(u.CacheDir, 0), "/coredns")
	if err != nil {
		return err
	}
	if err := load.Push(ctx, u.Config, "coredns/coredns:"+strings.TrimPrefix(build.CoreDNSVersion, "v"), image); err != nil {
		return fmt.Errorf("uploading the image of CoreDNS: %w", err)
	}
	manifest, err := templates.Render("coredns.yaml", struct{ DNS, CoreDNSVersion string }{config.DNSServiceIP, strings.TrimPrefix(build.CoreDNSVersion, "v")})
	if err != nil {
		return err
	}
	if _, err := kube.Apply(ctx, u.Config, manifest); err != nil {
		return fmt.Errorf("installing cluster DNS: %w", err)
	}
	if err := kube.RolledOut(ctx, u.Config, "kube-system", "coredns"); err != nil {
		return fmt.Errorf("%w; warnings in kube-system:\n%s", u.explain(err), kube.Warnings(context.WithoutCancel(ctx), u.Config, "kube-system"))
	}
	for n := 1; n <= u.spec.Nodes; n++ {
		client := control.NewClient(u.Config, n)
		err := probe.WaitFor(ctx, 100*time.Millisecond, func() bool {
			// Questions asked before kube-proxy wrote its rules get no answer.
			ctx, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			return client.CheckDNS(ctx) == nil
		})
		if err != nil {
			return fmt.Errorf("from %s: %w", config.NodeName(n), u.explain(err))
		}
	}
	return nil
}

// allHealthy reports whether the named components answer on all nodes.
func (u *upRun) allHealthy(ctx context.Context, names []string) bool {
	for n := 1; n <= u.spec.Nodes; n++ {
		if _, broken := u.firstBroken(ctx, n, names); broken {
			return false
		}
	}
	return true
}

// firstBroken finds the component the others are most likely waiting for.
func (u *upRun) firstBroken(ctx context.Context, node int, names []string) (string, bool) {
	states, err := control.NewClient(u.Config, node).Status(ctx)
	if err != nil {
		return nodeinit.Command, true
	}
	for _, name := range names {
		for _, st := range states {
			if st.Name == name && !st.Healthy {
				return name, true
			}
		}
	}
	return "", false
}

// explain adds the component that is not ready and the end of its log to a missed
// deadline.
func (u *upRun) explain(cause error) error {
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = fmt.Errorf("not ready within %s", u.options.Timeout)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for n := 1; n <= u.spec.Nodes; n++ {
		if name, broken := u.firstBroken(ctx, n, component.Names()); broken {
			return fmt.Errorf("%w: %s on %s does not work; the end of its log:\n%s",
				cause, name, config.NodeName(n), logs.Tail(u.LogFile(n, name), 15))
		}
	}
	return fmt.Errorf("%w: all components answer; the end of kubelet's log:\n%s",
		cause, logs.Tail(u.LogFile(u.spec.Nodes, component.Kubelet), 15))
}
