package resources

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply"
)

// NetworkPolicy returns the intent of the preset Isolated for the selected pods
// with the given ports.
//
// Isolated allows connections to pods only to one of the ports, and only from
// the peers in spec.From or, if that is empty, from the pods of the same
// namespace. Without ports, no connections are allowed. Connections from the
// pods are not restricted, and those of the kubelet on the same node are always
// allowed, so probes work. All peers outside the namespace must be listed: an
// ingress controller or Gateway, clients of a node port or load balancer,
// Prometheus, the pods of another namespace.
func NetworkPolicy(name, namespace string, labels, selector map[string]string, ports []corev1ac.ContainerPortApplyConfiguration, spec *common.NetworkPolicy) apply.Intent {
	if len(ports) == 0 {
		return networkPolicy(name, namespace, labels, selector)
	}
	rule := from(spec)
	for _, p := range ports {
		rule.WithPorts(networkingv1ac.NetworkPolicyPort().
			WithProtocol(*p.Protocol).WithPort(intstr.FromInt32(*p.ContainerPort)))
	}
	return networkPolicy(name, namespace, labels, selector, rule)
}

// NetworkPolicyOfAnyPort is NetworkPolicy for pods whose ports are not known:
// the allowed peers may connect to every port.
func NetworkPolicyOfAnyPort(name, namespace string, labels, selector map[string]string, spec *common.NetworkPolicy) apply.Intent {
	return networkPolicy(name, namespace, labels, selector, from(spec))
}

// from returns the rule that allows the peers in spec.From.
func from(spec *common.NetworkPolicy) *networkingv1ac.NetworkPolicyIngressRuleApplyConfiguration {
	rule := networkingv1ac.NetworkPolicyIngressRule().
		WithFrom(each[networkingv1ac.NetworkPolicyPeerApplyConfiguration](spec.From)...)
	if len(spec.From) == 0 {
		rule.WithFrom(networkingv1ac.NetworkPolicyPeer().WithPodSelector(metav1ac.LabelSelector()))
	}
	return rule
}

func networkPolicy(name, namespace string, labels, selector map[string]string, rules ...*networkingv1ac.NetworkPolicyIngressRuleApplyConfiguration) apply.Intent {
	policy := networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(selector)).
		WithPolicyTypes(networkingv1.PolicyTypeIngress).
		WithIngress(rules...)
	in := apply.New(networkingv1ac.NetworkPolicy(name, namespace).WithLabels(labels).WithSpec(policy),
		func() *networkingv1.NetworkPolicy { return &networkingv1.NetworkPolicy{} })
	// An additional rule would allow more peers, and an additional label in the
	// selector would exclude the pods.
	in.Exclusive = []string{"spec.ingress", "spec.podSelector.matchLabels", "spec.podSelector.matchExpressions"}
	return in
}
