package webserver

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// maxName is what "<name>-service" leaves of the 63 characters of a Service's name.
const maxName = 63 - len("-service")

// Validate returns everything that is wrong with a WebServer, each fault with
// its field and what would be right. It is pure.
func Validate(w *webserverv1.WebServer, platform config.Platform) field.ErrorList {
	var errs field.ErrorList
	name := field.NewPath("metadata", "name")
	if len(w.Name) > maxName {
		errs = append(errs, field.TooLong(name, "", maxName))
	}
	for _, fault := range naming.DNS1035(w.Name) {
		if len(w.Name) <= maxName {
			errs = append(errs, field.Invalid(name, w.Name, fault))
		}
	}
	spec := field.NewPath("spec")
	errs = append(errs, naming.Image(spec.Child("image"), w.Spec.Image)...)
	if r := w.Spec.Replicas; r != nil && *r < 0 {
		errs = append(errs, field.Invalid(spec.Child("replicas"), *r, "must be 0 or more"))
	}
	if s := w.Spec.Service; s != nil && s.NodePort != nil && !platform.NodePortRange.Contains(*s.NodePort) {
		errs = append(errs, field.Invalid(spec.Child("service", "nodePort"), *s.NodePort,
			fmt.Sprintf("must be between %d and %d, the node ports of this cluster", platform.NodePortRange.From, platform.NodePortRange.To)))
	}
	return errs
}
