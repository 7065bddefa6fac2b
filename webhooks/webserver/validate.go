package webserver

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/webhooks/blocks"
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
	if c := w.Spec.Config; c != nil && !strings.Contains(c.Inline, "_by_lua_block") {
		if _, err := webserverv1.Directives(c.Inline); err != nil {
			errs = append(errs, field.Invalid(spec.Child("config", "inline"), excerpt(c.Inline), "nginx cannot read it: "+err.Error()))
		}
	}
	if c := w.Spec.Content; c != nil && c.Image != nil {
		errs = append(errs, naming.Image(spec.Child("content", "image", "reference"), c.Image.Reference)...)
	}
	if w.Spec.Autoscaling != nil && w.Spec.Replicas != nil {
		errs = append(errs, field.Forbidden(spec.Child("replicas"), "with autoscaling the autoscaler sets the number of pods: remove replicas, or autoscaling"))
	}
	errs = append(errs, blocks.Autoscaling(w.Spec.Autoscaling, w.Spec.Resources, spec.Child("autoscaling"))...)
	errs = append(errs, blocks.Expose(w.Spec.Expose, w.Namespace, spec.Child("expose"))...)
	ports := []string{"http"}
	if w.Spec.TLS != nil {
		ports = append(ports, "https")
	}
	errs = append(errs, blocks.Probes(w.Spec.Probes, ports, spec.Child("probes"))...)
	errs = append(errs, blocks.Pod(w.Spec.Pod, spec.Child("pod"))...)
	return append(errs, validateMounts(w, spec.Child("pod", "volumeMounts"))...)
}

// validateMounts refuses what would be mounted over what the operator mounts.
func validateMounts(w *webserverv1.WebServer, at *field.Path) field.ErrorList {
	if w.Spec.Pod == nil {
		return nil
	}
	monitored := w.Spec.Monitoring != nil && w.Spec.Monitoring.Enabled
	var errs field.ErrorList
	for _, place := range []struct {
		taken      bool
		path, what string
	}{
		{w.Spec.Config != nil || w.Spec.Content != nil || w.Spec.TLS != nil || monitored, "/etc/nginx/conf.d", "the operator's configuration where config, content, tls or monitoring is set"},
		{w.Spec.Content != nil, "/usr/share/nginx/html", "spec.content"},
		{w.Spec.TLS != nil, "/etc/nginx/tls", "the certificate"},
	} {
		for i, m := range w.Spec.Pod.VolumeMounts {
			if place.taken && blocks.Within(m.MountPath, place.path) {
				errs = append(errs, field.Forbidden(at.Index(i).Child("mountPath"), fmt.Sprintf("%s holds %s; take another path", place.path, place.what)))
			}
		}
	}
	return errs
}

// excerpt is as much of a text as a person wants to see again.
func excerpt(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
