package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// CustomizeService does what the user said to a Service whose type is set. What
// the type has no use for is left out, because the API server would refuse it:
// the type may come from the platform configuration, not from the user.
func CustomizeService(service *corev1ac.ServiceApplyConfiguration, o common.ServiceOptions) {
	service.WithAnnotations(texts(o.Annotations))
	spec := service.Spec
	spec.WithSessionAffinity(corev1.ServiceAffinityNone)
	if o.SessionAffinity != "" {
		spec.WithSessionAffinity(o.SessionAffinity)
	}
	kind := or(spec.Type, corev1.ServiceTypeClusterIP)
	if kind == corev1.ServiceTypeNodePort || kind == corev1.ServiceTypeLoadBalancer {
		spec.WithExternalTrafficPolicy(corev1.ServiceExternalTrafficPolicyCluster)
		if o.ExternalTrafficPolicy != "" {
			spec.WithExternalTrafficPolicy(o.ExternalTrafficPolicy)
		}
	}
	if kind == corev1.ServiceTypeLoadBalancer && o.LoadBalancerClass != "" {
		spec.WithLoadBalancerClass(o.LoadBalancerClass)
	}
}
