// Package kube reads and applies objects, by kubectl in the cluster's network.
package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/enter"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
)

// Kubectl runs kubectl.
func Kubectl(ctx context.Context, c config.Config, stdin []byte, args ...string) (string, error) {
	args = append([]string{
		"--net=" + c.NodeNetnsFile(config.ControlNode), "--", filepath.Join(c.BinDir(), "kubectl"),
	}, args...)
	return host.Run(ctx, host.Options{Env: enter.Env(c, os.Environ()), Stdin: bytes.NewReader(stdin)}, "nsenter", args...)
}

// Warnings returns why pods of a namespace do not run, for error messages.
func Warnings(ctx context.Context, c config.Config, namespace string) string {
	said, err := Kubectl(ctx, c, nil, "get", "events", "--namespace", namespace, "--field-selector=type=Warning")
	if err != nil {
		said = "(cannot read events: " + err.Error() + ")"
	}
	return host.LastLines(said, 10)
}

// RolledOut waits until the pods of a Deployment are ready, and there are no older ones.
func RolledOut(ctx context.Context, c config.Config, namespace, name string) error {
	_, err := Kubectl(ctx, c, nil, "rollout", "status", "--namespace", namespace, "deployment/"+name)
	return err
}

// Apply creates or updates objects of any kind, and returns their names.
func Apply(ctx context.Context, c config.Config, manifest []byte) (string, error) {
	return Kubectl(ctx, c, manifest, "apply", "--server-side", "--force-conflicts", "--field-manager=cluster", "-o", "name", "-f", "-")
}

// Get reads an object or a list by its path.
func Get(ctx context.Context, c config.Config, path string, into any) error {
	said, err := Kubectl(ctx, c, nil, "get", "--raw", path)
	if err != nil {
		return err
	}
	return json.Unmarshal([]byte(said), into)
}
