package demoapplication

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// maxName is the most characters that the name of a Service may have.
const maxName = 63

// Validate returns everything that is wrong with a DemoApplication, each fault
// with its field and what would be right. It is pure.
func Validate(a *demoapplicationv1.DemoApplication, platform config.Platform) field.ErrorList {
	var errs field.ErrorList
	name := field.NewPath("metadata", "name")
	if len(a.Name) > maxName {
		errs = append(errs, field.TooLong(name, "", maxName))
	} else {
		for _, fault := range naming.DNS1035(a.Name) {
			errs = append(errs, field.Invalid(name, a.Name, fault))
		}
	}
	spec := field.NewPath("spec")
	errs = append(errs, naming.Image(spec.Child("image"), a.Spec.Image)...)
	if r := a.Spec.Replica; r != nil && *r < 0 {
		errs = append(errs, field.Invalid(spec.Child("replica"), *r, "must be 0 or more"))
	}
	if a.Spec.Replicas != nil {
		errs = append(errs, field.Forbidden(spec.Child("replicas"), "this kind's field is called replica: use spec.replica"))
	}
	errs = append(errs, validatePorts(a.Spec.Ports, spec.Child("ports"), platform)...)
	return append(errs, validateBlocks(a, spec)...)
}

func validatePorts(ports []demoapplicationv1.Port, path *field.Path, platform config.Platform) field.ErrorList {
	var errs field.ErrorList
	names, listed, targets, onNodes := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		protocol := p.Protocol
		if protocol == "" {
			protocol = corev1.ProtocolTCP
		}
		errs = append(errs, between(at.Child("port"), p.Port, 1, 65535, "the ports there are")...)
		errs = append(errs, unique(at.Child("port"), listed, fmt.Sprintf("%d/%s", p.Port, protocol))...)
		if p.Name == "" {
			if len(ports) > 1 {
				errs = append(errs, field.Required(at.Child("name"), "each of several ports must have a name"))
			}
		} else {
			errs = append(errs, invalid(at.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
			errs = append(errs, unique(at.Child("name"), names, p.Name)...)
		}
		if t := p.TargetPort; t != nil && t.Type == intstr.String {
			errs = append(errs, invalid(at.Child("targetPort"), t.StrVal, validation.IsValidPortName(t.StrVal))...)
			errs = append(errs, unique(at.Child("targetPort"), targets, t.StrVal)...)
		} else if t != nil {
			errs = append(errs, between(at.Child("targetPort"), t.IntVal, 0, 65535, "or a name")...)
		}
		if p.NodePort != nil {
			r := platform.NodePortRange
			errs = append(errs, between(at.Child("nodePort"), *p.NodePort, r.From, r.To, "the node ports of this cluster")...)
			errs = append(errs, unique(at.Child("nodePort"), onNodes, fmt.Sprintf("%d/%s", *p.NodePort, protocol))...)
		}
	}
	return errs
}

func between(path *field.Path, v, from, to int32, what string) field.ErrorList {
	if from <= v && v <= to {
		return nil
	}
	return field.ErrorList{field.Invalid(path, v, fmt.Sprintf("must be between %d and %d, %s", from, to, what))}
}

// unique refuses what seen has, and adds it.
func unique(path *field.Path, seen map[string]bool, v string) field.ErrorList {
	if seen[v] {
		return field.ErrorList{field.Duplicate(path, v)}
	}
	seen[v] = true
	return nil
}

func invalid(path *field.Path, v string, faults []string) field.ErrorList {
	var errs field.ErrorList
	for _, f := range faults {
		errs = append(errs, field.Invalid(path, v, f))
	}
	return errs
}
