// Command kubectl is Kubernetes' own. It is not a part of hyperkube: tests start it
// thousands of times, and a start of hyperkube initializes the packages of every component,
// which takes as much processor time again as kubectl itself.
package main

//nolint:depguard // Kubernetes is imported here so that nothing else has to.
import (
	"os"

	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand())) }
