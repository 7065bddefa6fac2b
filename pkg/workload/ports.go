package workload

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/pkg/rollout"
)

type containerPort = corev1ac.ContainerPortApplyConfiguration

// Ports are the container ports of the templates that pods of an object have or are
// about to get. What routes to pods follows these instead of the spec, so that clients
// reach the pods of each revision: during a rollout, after a rollback, and while a
// revision is pinned. The zero value knows nothing about the pods.
type Ports struct {
	of       [][]containerPort // of each template
	reached  int               // the index of that whose pods clients reach now
	complete bool              // there are no pods of other templates
}

func portsOf(in rollout.InUse) Ports {
	p := Ports{reached: in.Reached, complete: in.Complete}
	for _, t := range in.Templates {
		var ports []containerPort
		if t.Spec != nil {
			for _, c := range slices.Concat(t.Spec.Containers, t.Spec.InitContainers) {
				ports = append(ports, c.Ports...)
			}
		}
		p.of = append(p.of, ports)
	}
	return p
}

// Target returns the target port of a Service for a container port of the spec, which is
// one of those asked for. It is the name, which each pod resolves to its own number, unless
// only the number reaches all pods: an earlier version of the operator named no ports, and
// users may change the name. If they change the port of the Service too, the ports that
// clients reach have neither, and are those that are asked for now in the same order.
func (p Ports) Target(want containerPort, asked []*containerPort) intstr.IntOrString {
	number := intstr.FromInt32(*want.ContainerPort)
	if want.Name == nil {
		return number
	}
	named := func(c containerPort) bool { return c.Name != nil && *c.Name == *want.Name }
	same := func(c containerPort) bool {
		return *c.ContainerPort == *want.ContainerPort && *c.Protocol == *want.Protocol
	}
	switch {
	case p.complete && p.all(named):
		return intstr.FromString(*want.Name)
	case p.all(same):
		return number
	case p.successor(want, asked) != nil:
		return intstr.FromInt32(*p.successor(want, asked).ContainerPort)
	case p.complete && p.all(func(c containerPort) bool { return c.Name != nil }):
		return intstr.FromString(*want.Name)
	}
	unnamed := func(c containerPort) bool { return c.Name == nil && *c.Protocol == *want.Protocol }
	for _, is := range []func(containerPort) bool{named, same, unnamed} {
		if i := slices.IndexFunc(p.of[p.reached], is); i >= 0 {
			return intstr.FromInt32(*p.of[p.reached][i].ContainerPort)
		}
	}
	return number
}

// Number returns the target port of a Service for a port that has the same name in all
// templates: its number, unless pods have others.
func (p Ports) Number(name string, number int32) intstr.IntOrString {
	if p.all(func(c containerPort) bool { return *c.ContainerPort == number }) {
		return intstr.FromInt32(number)
	}
	return intstr.FromString(name)
}

// successor returns the port that clients reach now and that a port which is asked for
// replaces, or nil.
func (p Ports) successor(want containerPort, asked []*containerPort) *containerPort {
	is := func(a, b *containerPort) bool {
		return a.Name == nil || b.Name == nil || *a.Name == *b.Name || *a.ContainerPort == *b.ContainerPort && *a.Protocol == *b.Protocol
	}
	without := func(ports, others []*containerPort) []*containerPort {
		return slices.DeleteFunc(slices.Clone(ports), func(a *containerPort) bool {
			return *a.Protocol != *want.Protocol || slices.ContainsFunc(others, func(b *containerPort) bool { return is(a, b) })
		})
	}
	var reached []*containerPort
	for i := range p.of[p.reached] {
		reached = append(reached, &p.of[p.reached][i])
	}
	fresh, gone := without(asked, reached), without(reached, asked)
	i := slices.IndexFunc(fresh, func(a *containerPort) bool { return is(a, &want) })
	if i < 0 || len(fresh) != len(gone) {
		return nil
	}
	return gone[i]
}

// all reports whether every template has such a port.
func (p Ports) all(is func(containerPort) bool) bool {
	return !slices.ContainsFunc(p.of, func(ports []containerPort) bool { return !slices.ContainsFunc(ports, is) })
}

// Has reports whether the pods that clients reach have a port, or asked if no template
// was decided.
func (p Ports) Has(name string, asked bool) bool {
	if len(p.of) == 0 {
		return asked
	}
	return slices.ContainsFunc(p.of[p.reached], func(c containerPort) bool { return c.Name != nil && *c.Name == name })
}

// scraped returns the names of a port in the pods of all templates: Prometheus selects
// the ports of pods by name only.
func (p Ports) scraped(name string, asked []*containerPort) []string {
	named := func(c containerPort) bool { return c.Name != nil && *c.Name == name }
	var names []string
	for _, ports := range p.of {
		i := slices.IndexFunc(ports, named)
		if i < 0 { // it had another name
			i = slices.IndexFunc(ports, func(c containerPort) bool {
				return c.Name != nil && slices.ContainsFunc(asked, func(a *containerPort) bool {
					return named(*a) && *a.ContainerPort == *c.ContainerPort && *a.Protocol == *c.Protocol
				})
			})
		}
		if i >= 0 && !slices.Contains(names, *ports[i].Name) {
			names = append(names, *ports[i].Name)
		}
	}
	if len(names) == 0 {
		return []string{name}
	}
	return names
}

// open returns the ports of all pods, which a NetworkPolicy opens, and asked if there
// are pods whose ports are not known.
func (p Ports) open(asked []*containerPort) []containerPort {
	all := slices.Concat(p.of...)
	if len(p.of) == 0 || !p.complete {
		for _, a := range asked {
			all = append(all, *a)
		}
	}
	var open []containerPort
	for _, c := range all {
		same := func(o containerPort) bool { return *o.ContainerPort == *c.ContainerPort && *o.Protocol == *c.Protocol }
		if !slices.ContainsFunc(open, same) {
			open = append(open, c)
		}
	}
	return open
}
