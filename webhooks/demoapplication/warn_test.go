package demoapplication

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
)

func TestWarnUpdate_PortName(t *testing.T) {
	type ports = []demoapplicationv1.Port
	for name, tc := range map[string]struct {
		old, ports ports
		want       []string
	}{
		"as before":      {ports{{Name: "http", Port: 80}}, ports{{Name: "http", Port: 80}}, nil},
		"another port":   {ports{{Name: "http", Port: 80}}, ports{{Name: "web", Port: 81}}, nil},
		"other protocol": {ports{{Name: "dns", Port: 53}}, ports{{Name: "dns", Port: 53}, {Name: "dns-udp", Port: 53, Protocol: corev1.ProtocolUDP}}, nil},
		"a second port": {ports{{Port: 80}}, ports{{Name: "admin", Port: 9000}, {Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}, []string{
			`spec.ports[1].name: while the name of a port changes from "" to "http", new connections are refused for one to two seconds`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			of := func(p ports) *demoapplicationv1.DemoApplication {
				return &demoapplicationv1.DemoApplication{Spec: demoapplicationv1.DemoApplicationSpec{Ports: p}}
			}
			if diff := cmp.Diff(tc.want, Kind().WarnUpdate(of(tc.old), of(tc.ports))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
