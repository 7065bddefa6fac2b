package controllers

import (
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/resources/monitoring"
)

// Without returns the API groups that the platform's feature gates disable. The
// chart omits the permissions for them because of the same gates.
func Without(platform config.Platform) []string {
	var groups []string
	if !platform.Enabled(config.GatewayAPI) {
		groups = append(groups, gatewayv1.GroupName)
	}
	if !platform.Enabled(config.PodMonitors) {
		groups = append(groups, monitoring.GroupVersion.Group)
	}
	return groups
}
