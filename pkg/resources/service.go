package resources

import (
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
)

// CustomizeService applies the user's settings to a Service whose type is set.
// It omits those that do not apply to the type, because the API server would
// reject them: the type may be that of the platform configuration.
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
