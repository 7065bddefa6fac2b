package demoapplication

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// Validate returns the errors of a DemoApplication that the schema and its CEL
// rules cannot find. It is pure.
func Validate(a *demoapplicationv1.DemoApplication, platform config.Platform) field.ErrorList {
	spec := field.NewPath("spec")
	errs := validate.Size(a.Spec, spec)
	for i, p := range a.Spec.Ports {
		if p.NodePort != nil && !platform.NodePortRange.Contains(*p.NodePort) {
			errs = append(errs, field.Invalid(spec.Child("ports").Index(i).Child("nodePort"), *p.NodePort,
				fmt.Sprintf("must be between %d and %d, the node ports of this cluster", platform.NodePortRange.From, platform.NodePortRange.To)))
		}
	}
	errs = append(errs, judged(a, spec)...)
	errs = append(errs, validate.Probes(a.Spec.Probes, portNames(a.Spec.Ports), spec.Child("probes"))...)
	return append(errs, validate.Pod(a.Spec.Pod, spec.Child("pod"))...)
}

// judged returns the errors of an application whose requests are counted.
func judged(a *demoapplicationv1.DemoApplication, spec *field.Path) field.ErrorList {
	r := a.Spec.Rollout
	if !r.Shared().Judged() {
		return nil
	}
	var errs field.ErrorList
	if a.Name == "judge" {
		errs = append(errs, field.Forbidden(spec.Child("rollout", "canary", "maxErrorRatio"),
			"the container that counts requests has the name of the object: use another metadata.name, or remove maxErrorRatio"))
	}
	tcp := slices.ContainsFunc(a.Spec.Ports, func(p demoapplicationv1.Port) bool { return p.Protocol == "" || p.Protocol == corev1.ProtocolTCP })
	if !tcp && (r.RequestCounter == nil || r.RequestCounter.Port == nil) {
		errs = append(errs, field.Required(spec.Child("rollout", "requestCounter", "port"), "set the port of the metrics, or add a TCP port to ports"))
	}
	return errs
}

// portNames returns the names of the container's TCP ports, which targetPort
// defines.
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
