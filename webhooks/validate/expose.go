package validate

import "github.com/platform-operator/platform-operator/apis/common"

// WarnExpose warns about a change of the type that leaves nothing behind for the clients
// whose DNS records lead to the earlier Ingress or Gateway.
func WarnExpose(old, now *common.Expose) []string {
	if old == nil || now == nil {
		return nil
	}
	switch {
	case old.Type == common.ExposeIngress && now.Type == common.ExposeGateway && now.Ingress == nil:
		return []string{"spec.expose.type: the Ingress is deleted once the Gateway has accepted the hosts, and clients whose DNS records still lead to it get errors: keep spec.expose.ingress until the records have changed ({} if it was not set)"}
	case old.Type == common.ExposeGateway && now.Type == common.ExposeIngress && now.Gateway == nil:
		return []string{"spec.expose.type: the HTTPRoute is deleted, and clients whose DNS records still lead to the Gateway get errors: keep spec.expose.gateway until the records have changed"}
	}
	return nil
}
