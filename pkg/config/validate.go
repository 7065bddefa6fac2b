package config

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// mostReplicas is the maximum in the schemas of the kinds.
const mostReplicas = 10000

// problems are validation errors, one per line.
type problems []error

func (f *problems) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// Validate returns all validation errors of the configuration, joined, in the
// order of the fields. Each names the field and the allowed values.
func (p Platform) Validate() error {
	var f problems
	if p.APIVersion != Version {
		f.add("apiVersion is %q, must be %q", p.APIVersion, Version)
	}
	for i, n := range p.WatchNamespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			f.add("watchNamespaces[%d] is %q, must be the name of a namespace", i, n)
		}
		if slices.Contains(p.WatchNamespaces[:i], n) {
			f.add("watchNamespaces[%d] is %q a second time; remove it", i, n)
		}
	}
	if p.Workers < 1 || p.Workers > 100 {
		f.add("workers is %d, must be between 1 and 100", p.Workers)
	}
	known := slices.Sorted(maps.Keys(features()))
	for _, gate := range slices.Sorted(maps.Keys(p.FeatureGates)) {
		if !slices.Contains(known, gate) {
			f.add("featureGates has %q, must have only %s", gate, joined(known))
		}
	}
	p.Images.validate(&f)
	if p.SharedRollouts < 0 {
		f.add("sharedRollouts is %d, must not be negative", p.SharedRollouts)
	}
	if p.MaxReplicas < 1 || p.MaxReplicas > mostReplicas {
		f.add("maxReplicas is %d, must be between 1 and %d", p.MaxReplicas, mostReplicas)
	}
	p.validateServices(&f)
	p.validateExpose(&f)
	for i, key := range p.Annotations {
		if !keyPattern.MatchString(key) {
			f.add("annotations[%d] is %q, must be a key such as example.com/key, example.com/*, or * for all", i, key)
		}
	}
	for i, class := range p.PriorityClasses {
		if !namePattern.MatchString(class) {
			f.add("priorityClasses[%d] is %q, must be the name of a priority class, or one with *", i, class)
		}
	}
	p.validatePods(&f)
	p.validateDefaults(&f)
	for _, i := range []struct{ field, image string }{
		{"webServer.exporterImage", p.WebServer.ExporterImage},
		{"memcached.image", p.Memcached.Image},
	} {
		if i.image == "" || strings.ContainsAny(i.image, " \t\r\n") {
			f.add("%s is %q, must be an image such as memcached:1.6", i.field, i.image)
		}
	}
	if i := p.Pods.JudgeImage; strings.ContainsAny(i, " \t\r\n") {
		f.add("pods.judgeImage is %q, must be the image of the operator, or empty", i)
	}
	return errors.Join(f...)
}

// place matches a registry or a part of one. A registry is recognized by its
// first component, which distinguishes it from a repository on docker.io.
var place = regexp.MustCompile(`^(localhost|[a-z0-9-]*(\.[a-z0-9-]+)+|[a-z0-9.-]+:[0-9]+)(:[0-9]+)?(/[a-z0-9._-]+)*/?$`)

func (i Images) validate(f *problems) {
	for n, a := range i.Allowed {
		switch {
		case !place.MatchString(a):
			f.add("images.allowed[%d] is %q, must be a registry or a part of one, without scheme, tag and *, such as registry.example or docker.io/library", n, a)
		case strings.HasPrefix(a, "index."+dockerHub):
			f.add("images.allowed[%d] is %q, must begin with %s: that is what images from there are called", n, a, dockerHub)
		}
	}
	if policies := []LatestPolicy{LatestAllow, LatestWarn, LatestRefuse}; !slices.Contains(policies, i.Latest) {
		f.add("images.latest is %q, must be %s", i.Latest, either(policies))
	}
	if policies := []PullPolicy{PullAny, PullAlways}; !slices.Contains(policies, i.Pull) {
		f.add("images.pull is %q, must be %s", i.Pull, either(policies))
	}
}

func (p Platform) validateServices(f *problems) {
	ports := p.NodePortRange
	if ports.From < 1 || ports.To > 65535 || ports.From > ports.To {
		f.add("nodePortRange is %d-%d, must lie within 1-65535, from first", ports.From, ports.To)
	}
	all := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}
	for i, t := range p.ServiceTypes {
		if !slices.Contains(all, t) {
			f.add("serviceTypes[%d] is %q, must be %s", i, t, either(all))
		}
	}
	if !slices.Contains(p.ServiceTypes, corev1.ServiceTypeClusterIP) {
		f.add("serviceTypes must hold ClusterIP: it opens nothing, and what does not ask for more has it")
	}
	switch t := p.WebServer.ServiceType; {
	case !slices.Contains(all, t):
		f.add("webServer.serviceType is %q, must be %s", t, either(all))
	case !slices.Contains(p.ServiceTypes, t):
		f.add("webServer.serviceType is %q, must be one of serviceTypes: %s", t, joined(p.ServiceTypes))
	}
	if n := p.WebServer.NodePort; n != 0 && !ports.Contains(n) {
		f.add("webServer.nodePort is %d, must be 0 or within nodePortRange %d-%d", n, ports.From, ports.To)
	}
}

func (p Platform) validateExpose(f *problems) {
	namespaces := func(field string, names []string) {
		for i, n := range names {
			if !namespacePattern.MatchString(n) {
				f.add("%s[%d] is %q, must be the name of a namespace, or one with *", field, i, n)
			}
		}
	}
	for i, g := range p.Gateways {
		if len(validation.IsDNS1123Label(g.Namespace)) > 0 {
			f.add("gateways[%d].namespace is %q, must be the name of a namespace", i, g.Namespace)
		}
		if len(validation.IsDNS1123Subdomain(g.Name)) > 0 {
			f.add("gateways[%d].name is %q, must be the name of a Gateway", i, g.Name)
		}
		namespaces(fmt.Sprintf("gateways[%d].from", i), g.From)
	}
	for i, h := range p.Hosts {
		if len(h.Namespaces) == 0 {
			f.add("hosts[%d].namespaces is empty, must name namespaces, or * for all", i)
		}
		namespaces(fmt.Sprintf("hosts[%d].namespaces", i), h.Namespaces)
		if len(h.Hosts) == 0 {
			f.add("hosts[%d].hosts is empty, must name hosts, or * for all", i)
		}
		for j, host := range h.Hosts {
			if name := strings.TrimPrefix(host, "*."); host != "*" && len(validation.IsDNS1123Subdomain(name)) > 0 {
				f.add("hosts[%d].hosts[%d] is %q, must be a name in lower case, such as shop.example.com, *.example.com, or * for all", i, j, host)
			}
		}
	}
}

// These patterns restrict anyMatches to "*". path.Match also supports other
// wildcards.
var (
	namespacePattern = regexp.MustCompile(`^[-a-z0-9*]{1,63}$`)
	namePattern      = regexp.MustCompile(`^[-a-z0-9.*]{1,253}$`)
	keyPattern       = regexp.MustCompile(`^(\*|([-a-z0-9.*]+/)?[-A-Za-z0-9_.*]+)$`)
)

// anyMatches reports whether one of the patterns matches the name. "*" matches
// any sequence of characters except slashes.
func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

func joined[S ~string](words []S) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}

// either returns "A, B or C".
func either[S ~string](words []S) string {
	last := len(words) - 1
	return joined(words[:last]) + " or " + string(words[last])
}
