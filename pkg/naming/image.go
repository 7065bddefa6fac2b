package naming

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Image returns what is wrong with a required image as Kubernetes sees it: it
// only refuses an empty one and white space around it.
func Image(path *field.Path, image string) field.ErrorList {
	switch {
	case image == "":
		return field.ErrorList{field.Required(path, "the image to run, such as nginx:1.27.4")}
	case strings.TrimSpace(image) != image:
		return field.ErrorList{field.Invalid(path, image, "must have no white space around it")}
	}
	return nil
}
