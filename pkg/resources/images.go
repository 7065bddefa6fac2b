package resources

import (
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// PullPolicy returns the pull policy of an image: the given one or, if that is
// empty, the default of Kubernetes for the image. The default is applied
// because the API server sets it only if the field has never had a value: a
// live object keeps the default for its first image.
func PullPolicy(given corev1.PullPolicy, image string) corev1.PullPolicy {
	switch {
	case given != "":
		return given
	case tag(image) == "latest":
		return corev1.PullAlways
	default:
		return corev1.PullIfNotPresent
	}
}

var bareID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// tag returns the tag of an image as Kubernetes parses it
// (k8s.io/kubernetes/pkg/util/parsers, ParseImageName): "latest" if it has
// neither a tag nor a digest.
func tag(image string) string {
	image, _, pinned := strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') {
		return image[colon+1:]
	}
	if pinned || bareID.MatchString(image) {
		return ""
	}
	return "latest"
}
