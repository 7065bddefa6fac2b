// Command coredns is CoreDNS with the plugins that templates/coredns.yaml
// configures. With all of its plugins, which include the clients of several
// clouds, compiling it takes longer than compiling containerd.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
)

func main() {
	// In the order in which they handle a request.
	dnsserver.Directives = []string{"ready", "health", "errors", "kubernetes"}
	coremain.Run()
}
