package config

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

// LatestPolicy defines how images with the tag latest, or with neither tag nor
// digest, are treated. The running version of such an image is unknown, and a
// rollback does not restore the earlier one.
type LatestPolicy string

const (
	// LatestAllow admits the image.
	LatestAllow LatestPolicy = "Allow"
	// LatestWarn admits the image with a warning, which kubectl shows.
	LatestWarn LatestPolicy = "Warn"
	// LatestRefuse rejects the image.
	LatestRefuse LatestPolicy = "Refuse"
)

// Images restricts the images that objects may use.
type Images struct {
	// Allowed are the registries, or parts of them, whose images may be used,
	// such as registry.example or docker.io/library. Empty allows all.
	Allowed []string `json:"allowed"`
	// Latest is Allow, Warn or Refuse.
	Latest LatestPolicy `json:"latest"`
	// Pull is Any, or Always, which rejects images that may be used without being
	// pulled.
	Pull PullPolicy `json:"pull"`
}

// Allows reports whether the image is from an allowed registry or repository.
// The default registry is docker.io, and its default repository prefix is
// library. If Allowed is set, an image ID is never allowed, because it can
// refer to any image that a node has.
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

// ServiceTypeOf returns the type of the Service of a WebServer that asks for a type and
// a node port, or for neither.
func (w WebServer) ServiceTypeOf(asked corev1.ServiceType, nodePort *int32) corev1.ServiceType {
	switch {
	case asked != "":
		return asked
	case nodePort != nil:
		return corev1.ServiceTypeNodePort
	default:
		return w.ServiceType
	}
}

// SetsImage reports whether the platform configuration itself names the image. Its
// rules for images do not apply to it.
func (p Platform) SetsImage(image string) bool {
	return image == p.WebServer.ExporterImage || image != "" && image == p.Pods.JudgeImage || image == p.Memcached.Image
}

var imageID = regexp.MustCompile(`^(sha256:)?[0-9a-f]{64}$`)

// repository returns an image name without tag and digest, completed with the
// default registry as container runtimes do (distribution/reference,
// ParseDockerRef). It returns "" for an image ID.
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

// Moving reports whether the content of an image name can change: it has the
// tag latest, or neither tag nor digest.
func Moving(image string) bool {
	tag, digest := tagAndDigest(image)
	return tag == "latest" && digest == ""
}

// DefaultPull returns the pull policy that Kubernetes sets for an image. Children state
// it, because the API server sets it only if the field has never had a value: a live
// object keeps the default for its first image.
func DefaultPull(image string) corev1.PullPolicy {
	if tag, _ := tagAndDigest(image); tag == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// SameImage reports whether a and b name the same tag or the same digest of the
// same repository, as container runtimes interpret them: a runtime that was
// given nginx reports docker.io/library/nginx:latest. It returns false if only
// one of them has a digest, or if one is an image ID.
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

// tagAndDigest returns the tag and the digest as written. The tag is "latest"
// if there is neither, like for Kubernetes (pkg/util/parsers, ParseImageName), unless
// the image is given by its ID.
func tagAndDigest(image string) (tag, digest string) {
	image, digest, _ = strings.Cut(image, "@")
	if slash, colon := strings.LastIndex(image, "/"), strings.LastIndex(image, ":"); colon > slash {
		tag = image[colon+1:]
	}
	if tag == "" && digest == "" && !imageID.MatchString(image) {
		tag = "latest"
	}
	return tag, digest
}

// Gateway is a Gateway that objects of other namespaces may refer to.
type Gateway struct {
	// Namespace and Name identify the Gateway.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// From are the names of the namespaces whose objects may refer to it. "*"
	// matches any sequence of characters. Empty means all namespaces.
	From []string `json:"from"`
}

// AllowsGateway reports whether objects in namespace from may refer to the
// Gateway.
func (p Platform) AllowsGateway(from, namespace, name string) bool {
	return namespace == "" || namespace == from || slices.ContainsFunc(p.Gateways, func(g Gateway) bool {
		return g.Namespace == namespace && g.Name == name && (len(g.From) == 0 || anyMatches(g.From, from))
	})
}

// NoServiceAccounts is the validation message for an object that sets a
// ServiceAccount although ServiceAccounts is false.
const NoServiceAccounts = "the platform configuration lets no object name a service account (serviceAccounts is false); remove serviceAccountName"

// RefusesExpose returns a validation error for each Gateway and host in e that
// an object in the namespace may not use, with the allowed values.
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

// gatewaysOf returns the Gateways of other namespaces that objects in the
// namespace may refer to.
func (p Platform) gatewaysOf(namespace string) []string {
	var all []string
	for _, g := range p.Gateways {
		if g.Namespace != namespace && p.AllowsGateway(namespace, g.Namespace, g.Name) {
			all = append(all, g.Namespace+"/"+g.Name)
		}
	}
	return all
}

// hostsOf returns the hosts that objects in the namespace may claim.
func (p Platform) hostsOf(namespace string) []string {
	var all []string
	for _, h := range p.Hosts {
		if anyMatches(h.Namespaces, namespace) {
			all = append(all, h.Hosts...)
		}
	}
	return all
}

// listed returns before and the sorted names, abbreviated to fit in a sentence,
// or "" if there are no names.
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

// Hosts allows namespaces to claim hosts.
type Hosts struct {
	// Namespaces are names. "*" matches any sequence of characters.
	Namespaces []string `json:"namespaces"`
	// Hosts are names. "*.example.com" allows every name below example.com,
	// including the wildcard itself but not example.com. "*" allows every name.
	Hosts []string `json:"hosts"`
}

// AllowsHost reports whether objects in the namespace may claim the host.
func (p Platform) AllowsHost(namespace, host string) bool {
	return len(p.Hosts) == 0 || slices.ContainsFunc(p.Hosts, func(h Hosts) bool {
		return anyMatches(h.Namespaces, namespace) && slices.ContainsFunc(h.Hosts, func(allowed string) bool {
			below, wild := strings.CutPrefix(allowed, "*.")
			return allowed == "*" || allowed == host || wild && strings.HasSuffix(host, "."+below)
		})
	})
}

// AllowsAnnotation reports whether a Service or an Ingress may have an
// annotation with that key.
func (p Platform) AllowsAnnotation(key string) bool {
	return matchesKey(p.Annotations, key)
}

// Manages reports whether the operator manages objects of the kind.
func (p Platform) Manages(kind string) bool {
	return len(p.Kinds) == 0 || slices.Contains(p.Kinds, kind)
}

// Feature is the name of a feature gate.
type Feature string

// ReadYourWrites makes reads from the caches wait for the operator's own
// writes, which saves a third of all reconciles. It is enabled by default. It
// can be disabled because it is an experimental feature of controller-runtime.
const ReadYourWrites Feature = "ReadYourWrites"

const (
	// GatewayAPI allows objects to be exposed by HTTPRoutes, if the cluster
	// serves them. If it is disabled, the installation does not grant permissions
	// for them.
	GatewayAPI Feature = "GatewayAPI"
	// PodMonitors allows objects to be scraped through PodMonitors, if the
	// cluster serves them. If it is disabled, the installation does not grant
	// permissions for them.
	PodMonitors Feature = "PodMonitors"
)

// features returns the known feature gates and their defaults.
func features() map[Feature]bool {
	return map[Feature]bool{ReadYourWrites: true, GatewayAPI: true, PodMonitors: true}
}

// Changed returns the feature gates that differ from their defaults, as
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

// Enabled reports whether the feature is enabled.
func (p Platform) Enabled(f Feature) bool {
	if on, set := p.FeatureGates[f]; set {
		return on
	}
	return features()[f]
}
