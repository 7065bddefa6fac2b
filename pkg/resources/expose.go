package resources

import (
	networkingv1 "k8s.io/api/networking/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1ac "sigs.k8s.io/gateway-api/applyconfiguration/apis/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
	"github.com/platform-operator/platform-operator/pkg/config"
)

// Ingress returns the intent of an Ingress that routes requests from the hosts
// to a port of the Service. It refers to the port by name if there is one: the Service and the
// Ingress are written one after the other, and between the two, ingress controllers find no
// port by a number that changes.
func Ingress(name, namespace string, labels map[string]string, service string, port int32, portName string, spec *common.Expose) apply.Intent {
	to := networkingv1ac.ServiceBackendPort().WithNumber(port)
	if portName != "" {
		to = networkingv1ac.ServiceBackendPort().WithName(portName)
	}
	ingress := networkingv1ac.IngressSpec()
	for _, host := range spec.Hosts {
		ingress.WithRules(networkingv1ac.IngressRule().WithHost(host).
			WithHTTP(networkingv1ac.HTTPIngressRuleValue().
				WithPaths(networkingv1ac.HTTPIngressPath().
					WithPath(exposedPath(spec)).
					WithPathType(networkingv1.PathTypePrefix).
					WithBackend(networkingv1ac.IngressBackend().
						WithService(networkingv1ac.IngressServiceBackend().WithName(service).
							WithPort(to))))))
	}
	ac := networkingv1ac.Ingress(name, namespace).WithLabels(labels).WithSpec(ingress)
	if o := spec.Ingress; o != nil {
		ac.WithAnnotations(config.Texts(o.Annotations))
		if o.IngressClassName != "" {
			ingress.WithIngressClassName(o.IngressClassName)
		}
		if o.TLS != nil {
			ingress.WithTLS(networkingv1ac.IngressTLS().WithHosts(spec.Hosts...).WithSecretName(o.TLS.SecretRef.Name))
		}
	}
	return apply.New(ac, func() *networkingv1.Ingress { return &networkingv1.Ingress{} })
}

// HTTPRoute returns the intent of a route of the Gateway API that routes
// requests from the hosts, through the Gateway in the spec, to a port of the
// Service. The caller checks whether the object may use the Gateway.
func HTTPRoute(name, namespace string, labels map[string]string, service string, port int32, spec *common.Expose) apply.Intent {
	route := gatewayv1ac.HTTPRouteSpec()
	if spec.Gateway != nil {
		gateway := spec.Gateway.ParentRef
		parent := gatewayv1ac.ParentReference().
			WithGroup(gatewayv1.GroupName).WithKind("Gateway").WithName(gatewayv1.ObjectName(gateway.Name))
		if gateway.Namespace != "" {
			parent.WithNamespace(gatewayv1.Namespace(gateway.Namespace))
		}
		if gateway.SectionName != "" {
			parent.WithSectionName(gatewayv1.SectionName(gateway.SectionName))
		}
		route.WithParentRefs(parent)
	}
	for _, host := range spec.Hosts {
		route.WithHostnames(gatewayv1.Hostname(host))
	}
	route.WithRules(gatewayv1ac.HTTPRouteRule().
		WithMatches(gatewayv1ac.HTTPRouteMatch().
			WithPath(gatewayv1ac.HTTPPathMatch().WithType(gatewayv1.PathMatchPathPrefix).WithValue(exposedPath(spec)))).
		WithBackendRefs(gatewayv1ac.HTTPBackendRef().
			WithGroup("").WithKind("Service").WithName(gatewayv1.ObjectName(service)).WithPort(port).WithWeight(1)))
	return apply.New(gatewayv1ac.HTTPRoute(name, namespace).WithLabels(labels).WithSpec(route),
		func() *gatewayv1.HTTPRoute { return &gatewayv1.HTTPRoute{} })
}

func exposedPath(spec *common.Expose) string {
	if spec.Path == "" {
		return "/"
	}
	return spec.Path
}
