package demoapplication

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/blocks"
)

// Validate returns what is wrong with a DemoApplication beyond what schema and
// CEL rules refuse, each fault with its field and what would be right. It is
// pure.
func Validate(a *demoapplicationv1.DemoApplication, platform config.Platform) field.ErrorList {
	spec := field.NewPath("spec")
	errs := blocks.Size(a.Spec, spec)
	for i, p := range a.Spec.Ports {
		if p.NodePort != nil && !platform.NodePortRange.Contains(*p.NodePort) {
			errs = append(errs, field.Invalid(spec.Child("ports").Index(i).Child("nodePort"), *p.NodePort,
				fmt.Sprintf("must be between %d and %d, the node ports of this cluster", platform.NodePortRange.From, platform.NodePortRange.To)))
		}
	}
	errs = append(errs, blocks.Probes(a.Spec.Probes, portNames(a.Spec.Ports), spec.Child("probes"))...)
	return append(errs, blocks.Pod(a.Spec.Pod, spec.Child("pod"))...)
}

// portNames are the names that the container's TCP ports have: they get them by
// targetPort.
func portNames(ports []demoapplicationv1.Port) []string {
	var names []string
	for _, p := range ports {
		if t := p.TargetPort; t != nil && t.Type == intstr.String && (p.Protocol == "" || p.Protocol == corev1.ProtocolTCP) {
			names = append(names, t.StrVal)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
