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

// match checks each of the values of a field.
func (f *problems) match(field string, values []string, pattern *regexp.Regexp, must string) {
	for i, v := range values {
		if !pattern.MatchString(v) {
			f.add("%s[%d] is %q, must be %s", field, i, v, must)
		}
	}
}

func between[N int | int32 | int64](f *problems, field string, n, least, most N) {
	if n < least || n > most {
		f.add("%s is %d, must be between %d and %d", field, n, least, most)
	}
}

func oneOf[S ~string](f *problems, field string, value S, allowed ...S) {
	if !slices.Contains(allowed, value) {
		last := len(allowed) - 1
		f.add("%s is %q, must be %s or %s", field, value, Joined(allowed[:last]), allowed[last])
	}
}

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
	between(&f, "workers", p.Workers, 1, 100)
	known := slices.Sorted(maps.Keys(features()))
	for _, gate := range slices.Sorted(maps.Keys(p.FeatureGates)) {
		if !slices.Contains(known, gate) {
			f.add("featureGates has %q, must have only %s", gate, Joined(known))
		}
	}
	p.Images.validate(&f)
	if p.SharedRollouts < 0 {
		f.add("sharedRollouts is %d, must not be negative", p.SharedRollouts)
	}
	between(&f, "maxReplicas", p.MaxReplicas, 1, mostReplicas)
	p.validateServices(&f)
	p.validateExpose(&f)
	f.match("annotations", p.Annotations, keyPattern, aKey)
	f.match("priorityClasses", p.PriorityClasses, namePattern, "the name of a priority class, or one with *")
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
	oneOf(f, "images.latest", i.Latest, LatestAllow, LatestWarn, LatestRefuse)
	oneOf(f, "images.pull", i.Pull, PullAny, PullAlways)
}

func (p Platform) validateServices(f *problems) {
	ports := p.NodePortRange
	if ports.From < 1 || ports.To > 65535 || ports.From > ports.To {
		f.add("nodePortRange is %d-%d, must lie within 1-65535, from first", ports.From, ports.To)
	}
	all := []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}
	for i, t := range p.ServiceTypes {
		oneOf(f, fmt.Sprintf("serviceTypes[%d]", i), t, all...)
	}
	if !slices.Contains(p.ServiceTypes, corev1.ServiceTypeClusterIP) {
		f.add("serviceTypes must hold ClusterIP: it opens nothing, and what does not ask for more has it")
	}
	t := p.WebServer.ServiceType
	oneOf(f, "webServer.serviceType", t, all...)
	if slices.Contains(all, t) && !slices.Contains(p.ServiceTypes, t) {
		f.add("webServer.serviceType is %q, must be one of serviceTypes: %s", t, Joined(p.ServiceTypes))
	}
	if n := p.WebServer.NodePort; n != 0 && !ports.Contains(n) {
		f.add("webServer.nodePort is %d, must be 0 or within nodePortRange %d-%d", n, ports.From, ports.To)
	}
}

func (p Platform) validateExpose(f *problems) {
	for i, g := range p.Gateways {
		if len(validation.IsDNS1123Label(g.Namespace)) > 0 {
			f.add("gateways[%d].namespace is %q, must be the name of a namespace", i, g.Namespace)
		}
		if len(validation.IsDNS1123Subdomain(g.Name)) > 0 {
			f.add("gateways[%d].name is %q, must be the name of a Gateway", i, g.Name)
		}
		f.match(fmt.Sprintf("gateways[%d].from", i), g.From, namespacePattern, aNamespace)
	}
	for i, h := range p.Hosts {
		if len(h.Namespaces) == 0 {
			f.add("hosts[%d].namespaces is empty, must name namespaces, or * for all", i)
		}
		f.match(fmt.Sprintf("hosts[%d].namespaces", i), h.Namespaces, namespacePattern, aNamespace)
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

// What values that do not match must be.
const (
	aKey       = "a key such as example.com/key, example.com/*, or * for all"
	aNamespace = "the name of a namespace, or one with *"
)

// anyMatches reports whether one of the patterns matches the name. "*" matches
// any sequence of characters except slashes.
func anyMatches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, err := path.Match(p, name)
		return ok && err == nil
	})
}

// Joined returns "A, B, C".
func Joined[S ~string](words []S) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = string(w)
	}
	return strings.Join(all, ", ")
}
