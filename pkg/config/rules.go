package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

// LatestPolicy says what becomes of an image whose tag is latest, or that has
// neither tag nor digest: nobody can tell what runs, and a rollback brings back
// nothing.
type LatestPolicy string

const (
	// LatestAllow says nothing.
	LatestAllow LatestPolicy = "Allow"
	// LatestWarn admits it with a warning, which kubectl shows.
	LatestWarn LatestPolicy = "Warn"
	// LatestRefuse refuses it.
	LatestRefuse LatestPolicy = "Refuse"
)

// Images says which images objects may name.
type Images struct {
	// Allowed are the registries, or parts of them, whose images may be named,
	// such as registry.example or docker.io/library. Empty allows all.
	Allowed []string `json:"allowed"`
	// Latest is Allow, Warn or Refuse.
	Latest LatestPolicy `json:"latest"`
}

// Allows tells whether the image comes from an allowed place. What names no
// registry comes from docker.io, and what names no folder there from library.
// What is the ID of an image, and so may be any that a node has, comes from
// nowhere.
func (i Images) Allows(image string) bool {
	if len(i.Allowed) == 0 {
		return true
	}
	full := repository(image)
	return slices.ContainsFunc(i.Allowed, func(allowed string) bool {
		allowed = strings.TrimSuffix(allowed, "/")
		return full == allowed || strings.HasPrefix(full, allowed+"/")
	})
}

var imageID = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// repository is an image without tag and digest, and with what it leaves out,
// as container runtimes read it (distribution/reference, ParseDockerRef). Of
// the ID of an image it is "".
func repository(image string) string {
	if imageID.MatchString(image) {
		return ""
	}
	image, _, _ = strings.Cut(image, "@")
	if slash, colon := strings.LastIndex(image, "/"), strings.LastIndex(image, ":"); colon > slash {
		image = image[:colon]
	}
	registry, rest, several := strings.Cut(image, "/")
	if !several || !strings.ContainsAny(registry, ".:") && registry != "localhost" && registry == strings.ToLower(registry) {
		registry, rest = dockerHub, image
	}
	if registry == "index."+dockerHub {
		registry = dockerHub
	}
	if registry == dockerHub && !strings.Contains(rest, "/") {
		rest = "library/" + rest
	}
	return registry + "/" + rest
}

const dockerHub = "docker.io"

// Moving tells whether an image is whatever its registry calls latest.
func Moving(image string) bool {
	if strings.Contains(image, "@") || imageID.MatchString(image) {
		return false
	}
	tag := ""
	if slash, colon := strings.LastIndex(image, "/"), strings.LastIndex(image, ":"); colon > slash {
		tag = image[colon+1:]
	}
	return tag == "" || tag == "latest"
}

// SameImage reports whether a and b name the same tag or the same digest of the
// same repository, as container runtimes read them: a runtime that was asked
// for nginx reports docker.io/library/nginx:latest. It is false if one of them
// has a digest and the other has none, and if one is the ID of an image.
func SameImage(a, b string) bool {
	if full := repository(a); full == "" || full != repository(b) {
		return false
	}
	tagA, digestA := tagAndDigest(a)
	tagB, digestB := tagAndDigest(b)
	if digestA != "" && digestB != "" {
		return digestA == digestB
	}
	return tagA == tagB && digestA == digestB
}

// tagAndDigest returns both as they are written, and "latest" for neither.
func tagAndDigest(image string) (tag, digest string) {
	image, digest, _ = strings.Cut(image, "@")
	if slash, colon := strings.LastIndex(image, "/"), strings.LastIndex(image, ":"); colon > slash {
		tag = image[colon+1:]
	}
	if tag == "" && digest == "" {
		tag = "latest"
	}
	return tag, digest
}

// Gateway is a Gateway that objects of other namespaces may lead to.
type Gateway struct {
	// Namespace and Name are the Gateway's.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// From are the namespaces whose objects may lead to it: names, which may
	// hold "*" for any characters. Empty means all.
	From []string `json:"from"`
}

// AllowsGateway tells whether objects of namespace from may lead to the Gateway.
func (p Platform) AllowsGateway(from, namespace, name string) bool {
	return namespace == "" || namespace == from || slices.ContainsFunc(p.Gateways, func(g Gateway) bool {
		return g.Namespace == namespace && g.Name == name && (len(g.From) == 0 || anyMatches(g.From, from))
	})
}

// NoServiceAccounts is what is said of an object that names a ServiceAccount
// where ServiceAccounts is false.
const NoServiceAccounts = "the platform configuration lets no object name a service account (serviceAccounts is false); remove serviceAccountName"

// RefusesExpose returns what of an object's way in from outside is not allowed
// in its namespace, each fault with its field and what would be right.
func (p Platform) RefusesExpose(namespace string, e *common.Expose, at *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if e.Gateway != nil {
		g := e.Gateway.ParentRef
		if !p.AllowsGateway(namespace, g.Namespace, g.Name) {
			errs = append(errs, field.Forbidden(at.Child("gateway", "parentRef"), fmt.Sprintf(
				"the platform configuration does not let namespace %q use Gateway %s/%s: take one of the namespace's own%s",
				namespace, g.Namespace, g.Name, listed(", or ", p.gatewaysOf(namespace)))))
		}
	}
	for i, h := range e.Hosts {
		if !p.AllowsHost(namespace, h) {
			errs = append(errs, field.Forbidden(at.Child("hosts").Index(i), fmt.Sprintf(
				"the platform configuration does not let namespace %q claim %q: it may claim %s",
				namespace, h, cmp.Or(listed("", p.hostsOf(namespace)), "none"))))
		}
	}
	return errs
}

// gatewaysOf are the Gateways of other namespaces that objects of the namespace
// may lead to.
func (p Platform) gatewaysOf(namespace string) []string {
	var all []string
	for _, g := range p.Gateways {
		if g.Namespace != namespace && p.AllowsGateway(namespace, g.Namespace, g.Name) {
			all = append(all, g.Namespace+"/"+g.Name)
		}
	}
	return all
}

// hostsOf are the hosts that objects of the namespace may claim.
func (p Platform) hostsOf(namespace string) []string {
	var all []string
	for _, h := range p.Hosts {
		if anyMatches(h.Namespaces, namespace) {
			all = append(all, h.Hosts...)
		}
	}
	return all
}

// listed is as many of some names as a person reads in one sentence.
func listed(before string, names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > most {
		names = append(names[:most:most], fmt.Sprintf("%d more", len(names)-most))
	}
	return before + strings.Join(names, ", ")
}

// Hosts lets namespaces claim hosts.
type Hosts struct {
	// Namespaces are names, which may hold "*" for any characters.
	Namespaces []string `json:"namespaces"`
	// Hosts are names. "*.example.com" is every name below example.com, the
	// wildcard itself included but not example.com; "*" is every name.
	Hosts []string `json:"hosts"`
}

// AllowsHost tells whether objects of the namespace may claim the host.
func (p Platform) AllowsHost(namespace, host string) bool {
	return len(p.Hosts) == 0 || slices.ContainsFunc(p.Hosts, func(h Hosts) bool {
		return anyMatches(h.Namespaces, namespace) && slices.ContainsFunc(h.Hosts, func(allowed string) bool {
			below, wild := strings.CutPrefix(allowed, "*.")
			return allowed == "*" || allowed == host || wild && strings.HasSuffix(host, "."+below)
		})
	})
}

// AllowsAnnotation tells whether a Service or an Ingress may have an annotation
// with that key.
func (p Platform) AllowsAnnotation(key string) bool {
	return slices.Contains(p.Annotations, "*") || anyMatches(p.Annotations, key)
}

// AllowsPriorityClass tells whether pods may have the priority class.
func (p Platform) AllowsPriorityClass(name string) bool { return anyMatches(p.PriorityClasses, name) }

// Feature is the name of a feature gate.
type Feature string

// ReadYourWrites makes reads from the caches wait for the operator's own
// writes, which saves a third of all passes. On unless switched off; it is an
// experimental part of controller-runtime, so there is a way back.
const ReadYourWrites Feature = "ReadYourWrites"

const (
	// GatewayAPI lets objects be exposed by HTTPRoutes, in a cluster that knows
	// them. Switched off, the installation does not grant the right to them.
	GatewayAPI Feature = "GatewayAPI"
	// PodMonitors lets objects be scraped through PodMonitors, in a cluster that
	// knows them. Switched off, the installation does not grant the right to them.
	PodMonitors Feature = "PodMonitors"
)

// features are the gates there are, and what they are unless they are set.
func features() map[Feature]bool {
	return map[Feature]bool{ReadYourWrites: true, GatewayAPI: true, PodMonitors: true}
}

// Changed are the gates that are not as they are unless they are set, as
// "ReadYourWrites=false", sorted.
func (p Platform) Changed() []string {
	var all []string
	for f, usual := range features() {
		if on := p.Enabled(f); on != usual {
			all = append(all, fmt.Sprintf("%s=%t", f, on))
		}
	}
	slices.Sort(all)
	return all
}

// Enabled tells whether the feature is on.
func (p Platform) Enabled(f Feature) bool {
	if on, set := p.FeatureGates[f]; set {
		return on
	}
	return features()[f]
}
