// Package validate contains what the admission of all kinds shares: how a kind is
// declared, and the validation of the parts of a spec that several kinds have, as
// far as the schema and its CEL rules cannot validate them.
package validate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Probes rejects port names that no TCP port of the container has, because such
// a probe would always fail.
func Probes(p *common.Probes, ports []string, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	known := func(at *field.Path, port intstr.IntOrString) {
		if port.Type == intstr.String && !slices.Contains(ports, port.StrVal) {
			what := "the container has no TCP port of that name: use a number"
			if len(ports) > 0 {
				what += ", or one of " + strings.Join(ports, ", ")
			}
			errs = append(errs, field.Invalid(at, port.StrVal, what))
		}
	}
	for _, one := range []struct {
		name  string
		probe *common.Probe
	}{{"startup", p.Startup}, {"readiness", p.Readiness}, {"liveness", p.Liveness}} {
		if one.probe == nil {
			continue
		}
		if get := one.probe.HTTPGet; get != nil {
			known(at.Child(one.name, "httpGet", "port"), get.Port)
		}
		if tcp := one.probe.TCPSocket; tcp != nil {
			known(at.Child(one.name, "tcpSocket", "port"), tcp.Port)
		}
	}
	return errs
}

// Pod rejects settings of pods that contradict each other, so that no pod could be
// scheduled or start. own are the paths that the operator mounts in the container.
func Pod(p *common.Pod, at *field.Path, own ...string) field.ErrorList {
	if p == nil {
		return nil
	}
	errs := selectors(p, at)
	for i, c := range p.InitContainers {
		errs = append(errs, Probes(c.Probes, nil, at.Child("initContainers").Index(i).Child("probes"))...) // they have no ports
	}
	errs = append(errs, volumes(p, at)...)
	return append(errs, mounts(p, own, at)...)
}

type seen map[string]bool

func (s seen) once(at *field.Path, value string) field.ErrorList {
	if s[value] {
		return field.ErrorList{field.Duplicate(at, value)}
	}
	s[value] = true
	return nil
}
