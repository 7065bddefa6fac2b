// Command cluster runs a real Kubernetes on one Linux machine, without a
// container engine: control plane, kubelets, containers, network, DNS and
// registry, built from Go modules and Debian packages, in namespaces of their
// own that no packet can leave. README.md has a map of its packages.
package main

import (
	"os"

	"github.com/platform-operator/platform-operator/e2e/cluster/command"
)

func main() { os.Exit(command.Main()) }
