package validate

import (
	"strings"
	"testing"

	"github.com/platform-operator/platform-operator/apis/common"
)

func TestWarnExpose(t *testing.T) {
	gateway, ingress := &common.ExposeGatewayOptions{}, &common.ExposeIngressOptions{}
	for name, tc := range map[string]struct {
		old, now *common.Expose
		keep     string
	}{
		"exposed":              {nil, &common.Expose{Type: common.ExposeIngress}, ""},
		"no longer":            {&common.Expose{Type: common.ExposeIngress}, nil, ""},
		"as before":            {&common.Expose{Type: common.ExposeIngress}, &common.Expose{Type: common.ExposeIngress}, ""},
		"to a Gateway":         {&common.Expose{Type: common.ExposeIngress}, &common.Expose{Type: common.ExposeGateway, Gateway: gateway}, "keep spec.expose.ingress"},
		"to a Gateway as well": {&common.Expose{Type: common.ExposeIngress}, &common.Expose{Type: common.ExposeGateway, Gateway: gateway, Ingress: ingress}, ""},
		"to an Ingress":        {&common.Expose{Type: common.ExposeGateway, Gateway: gateway}, &common.Expose{Type: common.ExposeIngress}, "keep spec.expose.gateway"},
		"to an Ingress, too":   {&common.Expose{Type: common.ExposeGateway, Gateway: gateway}, &common.Expose{Type: common.ExposeIngress, Gateway: gateway}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(WarnExpose(tc.old, tc.now), "; ")
			if (got == "") != (tc.keep == "") || !strings.Contains(got, tc.keep) {
				t.Errorf("got %q, want it to contain %q", got, tc.keep)
			}
		})
	}
}
