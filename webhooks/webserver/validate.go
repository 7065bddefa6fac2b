package webserver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	webserverv1 "github.com/platform-operator/platform-operator/apis/webserver/v1"
	"github.com/platform-operator/platform-operator/pkg/config"
	"github.com/platform-operator/platform-operator/pkg/nginxconf"
	"github.com/platform-operator/platform-operator/webhooks/validate"
)

// Validate returns the errors of a WebServer that the schema and its CEL rules
// cannot find. It is pure.
func Validate(w *webserverv1.WebServer, platform config.Platform) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if s := w.Spec.Service; s != nil && s.NodePort != nil && !platform.NodePortRange.Contains(*s.NodePort) {
		errs = append(errs, field.Invalid(spec.Child("service", "nodePort"), *s.NodePort,
			fmt.Sprintf("must be between %d and %d, the node ports of this cluster", platform.NodePortRange.From, platform.NodePortRange.To)))
	}
	if c := w.Spec.Config; c != nil {
		around := surroundings(w)
		errs = append(errs, texts(spec.Child("config", "inline"), c.Inline, nginxconf.ServerBlock(c.Inline), around.Conflicts(c.Inline))...)
		errs = append(errs, texts(spec.Child("config", "http"), c.HTTP, nginxconf.HTTPBlock(c.HTTP), around.HTTPConflicts(c.HTTP))...)
		errs = append(errs, keptRoot(w, spec.Child("config", "inline"), c.Inline)...)
		errs = append(errs, keptRoot(w, spec.Child("config", "http"), c.HTTP)...)
	}
	ports := []string{"http"}
	if w.Spec.TLS != nil {
		ports = append(ports, "https")
	}
	errs = append(errs, validate.Probes(w.Spec.Probes, ports, spec.Child("probes"))...)
	errs = append(errs, schemes(w.Spec.Probes, strconv.Itoa(int(w.HTTPPort())), w.Spec.TLS != nil, spec.Child("probes"))...)
	errs = append(errs, validate.Pod(w.Spec.Pod, spec.Child("pod"), nginxconf.CacheFolder, nginxconf.RunFolder, nginxconf.TemporaryFolder)...)
	errs = append(errs, mounts(w, spec.Child("pod", "volumeMounts"))...)
	return append(errs, validate.Size(withoutFiles(w.Spec), spec)...)
}

// texts returns the errors of a text of nginx.
func texts(at *field.Path, text string, err error, conflicts []string) field.ErrorList {
	var errs field.ErrorList
	if err != nil {
		errs = append(errs, field.Invalid(at, excerpt(text), "nginx cannot read it: "+err.Error()))
	}
	for _, conflict := range conflicts {
		errs = append(errs, field.Invalid(at, excerpt(text), conflict))
	}
	return errs
}

// keptRoot rejects a root of the server, which would replace the one of kept content.
func keptRoot(w *webserverv1.WebServer, at *field.Path, text string) field.ErrorList {
	names, _ := nginxconf.Directives(text) // the error is reported elsewhere
	if w.Spec.Content == nil || w.Spec.Content.Keep == nil || !slices.Contains(names, "root") {
		return nil
	}
	return field.ErrorList{field.Invalid(at, excerpt(text),
		"root must not be set outside of locations if content.keep is set, which selects the root of a file")}
}

// validateUpdate rejects a change of the class of a load balancer that exists because
// of the default of the platform configuration. Kubernetes would reject the Service.
// If the object sets the type before and after, the schema rejects the change.
func validateUpdate(old, w *webserverv1.WebServer, platform config.Platform) field.ErrorList {
	var before, now webserverv1.ServiceSpec
	if old.Spec.Service != nil {
		before = *old.Spec.Service
	}
	if w.Spec.Service != nil {
		now = *w.Spec.Service
	}
	var errs field.ErrorList
	balanced := func(o *webserverv1.WebServer, s webserverv1.ServiceSpec) bool {
		defaults := config.WebServer{ServiceType: o.DefaultServiceType(platform.WebServer.ServiceType)}
		return defaults.ServiceTypeOf(s.Type, s.NodePort) == corev1.ServiceTypeLoadBalancer
	}
	if (before.Type == "" || now.Type == "") && balanced(old, before) && balanced(w, now) && (before.LoadBalancerClass == "") != (now.LoadBalancerClass == "") {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "service", "loadBalancerClass"),
			"it cannot be added or removed while the type is LoadBalancer, which is the default in the platform configuration: set type to ClusterIP first"))
	}
	return errs
}

// surroundings returns what the configuration is combined with.
func surroundings(w *webserverv1.WebServer) nginxconf.Surroundings {
	return nginxconf.Surroundings{
		Port:       int(w.HTTPPort()),
		TLS:        w.Spec.TLS != nil,
		HTTP3:      w.Spec.TLS != nil && w.Spec.TLS.HTTP3,
		Monitoring: w.Spec.Monitoring != nil && w.Spec.Monitoring.Enabled,
		Judged:     w.Spec.Rollout.Judged(),
		Known:      official(w),
	}
}

// official reports whether nginx runs with the nginx.conf of the official image.
func official(w *webserverv1.WebServer) bool {
	replaced := w.Spec.Pod != nil && slices.ContainsFunc(w.Spec.Pod.VolumeMounts, func(m common.VolumeMount) bool {
		return slices.Contains([]string{"/etc", "/etc/nginx", "/etc/nginx/nginx.conf"}, m.MountPath)
	})
	return nginxconf.IsOfficialImage(w.Spec.Image) && !replaced
}

// mounts rejects volumes with which the official image does not start.
func mounts(w *webserverv1.WebServer, at *field.Path) field.ErrorList {
	p := w.Spec.Pod
	if p == nil || !nginxconf.IsOfficialImage(w.Spec.Image) {
		return nil
	}
	var errs field.ErrorList
	for i, m := range p.VolumeMounts {
		v, found := validate.Volume(p, m.Name)
		if !found {
			continue
		}
		at := at.Index(i).Child("mountPath")
		fromAPI := v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil
		// A claim or an image may contain the folders of the cache.
		empty := fromAPI || v.EmptyDir != nil && m.ReadOnly
		readOnly := empty || m.ReadOnly || v.Image != nil || v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ReadOnly
		if official(w) && (m.MountPath == nginxconf.RunFolder && readOnly || m.MountPath == nginxconf.CacheFolder && empty) {
			errs = append(errs, field.Invalid(at, m.MountPath, "nginx writes to this folder when it starts, and the volume is read-only: use another mountPath"))
		}
		paths, known := validate.Contents(v)
		if known && m.SubPath == "" && hidesConfiguration(p, m.MountPath, paths) {
			errs = append(errs, field.Invalid(at, m.MountPath, "the volume replaces nginx.conf of the image and does not contain it: use another mountPath, such as /etc/nginx/snippets"))
		}
	}
	return errs
}

// hidesConfiguration reports whether nginx.conf does not exist if a volume with
// these files is mounted at a path.
func hidesConfiguration(p *common.Pod, mountPath string, paths []string) bool {
	const configuration = "/etc/nginx/nginx.conf"
	file, below := strings.CutPrefix(configuration, mountPath+"/")
	return below && !slices.Contains(paths, file) && !slices.ContainsFunc(p.VolumeMounts, func(m common.VolumeMount) bool {
		return len(m.MountPath) > len(mountPath) && (m.MountPath == configuration || strings.HasPrefix(configuration, m.MountPath+"/"))
	})
}

// schemes rejects HTTPS probes of the HTTP port and the reverse, which always fail.
func schemes(p *common.Probes, number string, tls bool, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	for _, one := range []struct {
		name  string
		probe *common.Probe
	}{{"startup", p.Startup}, {"readiness", p.Readiness}, {"liveness", p.Liveness}} {
		if one.probe == nil || one.probe.HTTPGet == nil {
			continue
		}
		get := one.probe.HTTPGet
		https := get.Scheme == corev1.URISchemeHTTPS
		port := get.Port.String()
		if https && (port == "http" || port == number) || !https && tls && (port == "https" || port == "443") {
			errs = append(errs, field.Invalid(at.Child(one.name, "httpGet", "scheme"), cmp.Or(string(get.Scheme), "HTTP"),
				"port "+port+" has the other scheme: use HTTP for port http, and HTTPS for port https"))
		}
	}
	return errs
}

// withoutFiles returns a spec without the content of files, which the schema
// limits. It is stored in a ConfigMap of its own.
func withoutFiles(s webserverv1.WebServerSpec) webserverv1.WebServerSpec {
	if s.Content != nil && s.Content.Files != nil {
		content := *s.Content
		content.Files = nil
		s.Content = &content
	}
	return s
}

// excerpt shortens a text for a message.
func excerpt(text string) string {
	const most = 60
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
