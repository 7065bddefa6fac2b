package demoapplication

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/webhooks/blocks"
)

// validateBlocks returns what is wrong about how the parts of a spec fit
// together.
func validateBlocks(a *demoapplicationv1.DemoApplication, spec *field.Path) field.ErrorList {
	s := &a.Spec
	var errs field.ErrorList
	tcp := slices.ContainsFunc(s.Ports, isTCP)
	if s.Autoscaling != nil && s.Replica != nil {
		errs = append(errs, field.Forbidden(spec.Child("replica"), "with autoscaling the autoscaler sets the number of pods: remove replica, or autoscaling"))
	}
	errs = append(errs, blocks.Autoscaling(s.Autoscaling, s.Resources, spec.Child("autoscaling"))...)
	if v := s.Service; v != nil && v.Type == corev1.ServiceTypeClusterIP &&
		slices.ContainsFunc(s.Ports, func(p demoapplicationv1.Port) bool { return p.NodePort != nil }) {
		errs = append(errs, field.Invalid(spec.Child("service", "type"), v.Type, "a Service of this type has no node ports: remove the nodePorts, or the type"))
	}
	if s.Expose != nil && !tcp {
		errs = append(errs, field.Forbidden(spec.Child("expose"), "it leads to the first TCP port: add one to spec.ports"))
	}
	errs = append(errs, blocks.Expose(s.Expose, a.Namespace, spec.Child("expose"))...)
	if m := s.Monitoring; m != nil && m.Enabled && !tcp {
		errs = append(errs, field.Forbidden(spec.Child("monitoring"), "metrics are scraped from a TCP port: add one to spec.ports"))
	}
	errs = append(errs, blocks.Probes(s.Probes, portNames(s.Ports), spec.Child("probes"))...)
	return append(errs, blocks.Pod(s.Pod, spec.Child("pod"))...)
}

func isTCP(p demoapplicationv1.Port) bool {
	return p.Protocol == "" || p.Protocol == corev1.ProtocolTCP
}

// portNames are the names that the container's TCP ports have: they get them by
// targetPort.
func portNames(ports []demoapplicationv1.Port) []string {
	var names []string
	for _, p := range ports {
		if t := p.TargetPort; t != nil && t.Type == intstr.String && isTCP(p) {
			names = append(names, t.StrVal)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
