package demoapplication

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// warnUpdate warns about ports that get another name: until the endpoints have it too, the
// proxies of the cluster refuse connections. It warns about hosts that lose an Ingress or a
// Gateway, too.
func warnUpdate(old, a *demoapplicationv1.DemoApplication) (warnings []string) {
	for i, p := range a.Spec.Ports {
		for _, was := range old.Spec.Ports {
			same := was.Port == p.Port && cmp.Or(was.Protocol, corev1.ProtocolTCP) == cmp.Or(p.Protocol, corev1.ProtocolTCP)
			if same && was.Name != p.Name {
				warnings = append(warnings, fmt.Sprintf("spec.ports[%d].name: while the name of a port changes from %q to %q, new connections are refused for one to two seconds", i, was.Name, p.Name))
			}
		}
	}
	return append(warnings, validate.WarnExpose(old.Spec.Expose, a.Spec.Expose)...)
}
