package resources

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// Service returns the intent of a Service whose type, selector and ports are set,
// with the user's settings. It omits those that do not apply to the type, because
// the API server would reject them: the type may be that of the platform
// configuration.
func Service(service *corev1ac.ServiceApplyConfiguration, o common.ServiceOptions) apply.Intent {
	service.WithAnnotations(config.Texts(o.Annotations))
	spec := service.Spec
	spec.WithSessionAffinity(cmp.Or(o.SessionAffinity, corev1.ServiceAffinityNone))
	kind := ptr.Deref(spec.Type, corev1.ServiceTypeClusterIP)
	if kind == corev1.ServiceTypeNodePort || kind == corev1.ServiceTypeLoadBalancer {
		spec.WithExternalTrafficPolicy(cmp.Or(o.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster))
	}
	if kind == corev1.ServiceTypeLoadBalancer && o.LoadBalancerClass != "" {
		spec.WithLoadBalancerClass(o.LoadBalancerClass)
	}
	in := apply.New(service, func() *corev1.Service { return &corev1.Service{} })
	in.Exclusive = []string{
		"spec.ports",
		"spec.selector", // an additional label would exclude all pods
		// With these, requests would be sent to pods that are not ready, or dropped on
		// nodes without a pod.
		"spec.publishNotReadyAddresses", "spec.internalTrafficPolicy",
	}
	if kind != corev1.ServiceTypeLoadBalancer {
		in.Exclusive = append(in.Exclusive, "spec.loadBalancerSourceRanges") // the type would be refused
	}
	return in
}

// URL returns the URL of a port of a Service, without the port if it is the scheme's.
func URL(scheme, host string, port int32) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]" // IPv6
	}
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return scheme + "://" + host
	}
	return fmt.Sprintf("%s://%s:%d", scheme, host, port)
}
