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

// NetworkPolicy is the intent of the preset Isolated for the pods of that
// selector, whose ports are given.
//
// Isolated means: a connection to a pod is let in only to one of the ports,
// and only from whom spec.From names; where it names nobody, from any pod of
// the same namespace. Without ports nothing is let in. What the pods connect
// to is not restricted, and the node's own kubelet always gets in, so probes
// work. Whatever comes from outside of the namespace has to be named: an
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

// NetworkPolicyOfAnyPort is that of pods of which nobody says the ports:
// whoever may connect may connect to all that they listen on.
func NetworkPolicyOfAnyPort(name, namespace string, labels, selector map[string]string, spec *common.NetworkPolicy) apply.Intent {
	return networkPolicy(name, namespace, labels, selector, from(spec))
}

// from is the rule that lets in whom spec.From names.
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
	// A rule more lets somebody in, a label more in the selector leaves the
	// pods out.
	in.Exclusive = []string{"spec.ingress", "spec.podSelector.matchLabels", "spec.podSelector.matchExpressions"}
	return in
}
