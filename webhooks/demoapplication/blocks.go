package demoapplication

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
	demoapplicationv1 "github.com/platform-operator/platform-operator/apis/demoapplication/v1"
)

// validateBlocks returns what is wrong about how the parts of a spec fit
// together.
func validateBlocks(a *demoapplicationv1.DemoApplication, spec *field.Path) field.ErrorList {
	s := &a.Spec
	var errs field.ErrorList
	tcp := slices.ContainsFunc(s.Ports, isTCP)
	if s.Autoscaling != nil {
		if s.Replica != nil {
			errs = append(errs, field.Forbidden(spec.Child("replica"), "with autoscaling the autoscaler sets the number of pods: remove replica, or autoscaling"))
		}
		at := spec.Child("autoscaling")
		errs = append(errs, requested(s.Resources, corev1.ResourceCPU, s.Autoscaling.TargetCPUUtilizationPercentage, at.Child("targetCPUUtilizationPercentage"))...)
		errs = append(errs, requested(s.Resources, corev1.ResourceMemory, s.Autoscaling.TargetMemoryUtilizationPercentage, at.Child("targetMemoryUtilizationPercentage"))...)
	}
	if v := s.Service; v != nil && v.Type == corev1.ServiceTypeClusterIP &&
		slices.ContainsFunc(s.Ports, func(p demoapplicationv1.Port) bool { return p.NodePort != nil }) {
		errs = append(errs, field.Invalid(spec.Child("service", "type"), v.Type, "a Service of this type has no node ports: remove the nodePorts, or the type"))
	}
	if e := s.Expose; e != nil {
		if !tcp {
			errs = append(errs, field.Forbidden(spec.Child("expose"), "it leads to the first TCP port: add one to spec.ports"))
		}
		if g := e.Gateway; g != nil && g.ParentRef.Namespace != "" && g.ParentRef.Namespace != a.Namespace {
			errs = append(errs, field.Forbidden(spec.Child("expose", "gateway", "parentRef", "namespace"), fmt.Sprintf(
				"the Gateway must be in this namespace, %q: the platform configuration allows no other", a.Namespace)))
		}
	}
	if m := s.Monitoring; m != nil && m.Enabled && !tcp {
		errs = append(errs, field.Forbidden(spec.Child("monitoring"), "metrics are scraped from a TCP port: add one to spec.ports"))
	}
	errs = append(errs, validateProbes(s, spec.Child("probes"))...)
	if s.Pod != nil {
		errs = append(errs, validateVolumes(s.Pod, spec.Child("pod"))...)
	}
	return errs
}

func isTCP(p demoapplicationv1.Port) bool {
	return p.Protocol == "" || p.Protocol == corev1.ProtocolTCP
}

// requested refuses a target that is in percent of nothing.
func requested(r *common.Resources, name corev1.ResourceName, target *int32, at *field.Path) field.ErrorList {
	if target == nil {
		return nil
	}
	if r != nil {
		q, ok := r.Requests[name]
		if !ok {
			q = r.Limits[name] // which is then requested too
		}
		if q.Sign() > 0 {
			return nil
		}
	}
	return field.ErrorList{field.Invalid(at, *target, fmt.Sprintf("it is in percent of what the pods request: set spec.resources.requests.%s to more than 0", name))}
}

// validateProbes refuses the names of ports that the container does not have:
// such a probe fails for ever.
func validateProbes(s *demoapplicationv1.DemoApplicationSpec, at *field.Path) field.ErrorList {
	if s.Probes == nil {
		return nil
	}
	names := map[string]bool{}
	for _, p := range s.Ports {
		if t := p.TargetPort; t != nil && t.Type == intstr.String && isTCP(p) {
			names[t.StrVal] = true
		}
	}
	var errs field.ErrorList
	known := func(at *field.Path, port intstr.IntOrString) {
		if port.Type != intstr.String || names[port.StrVal] {
			return
		}
		what := "the container has no TCP port of that name: one gets its name by targetPort in spec.ports; or use a number"
		if len(names) > 0 {
			what += "; there are " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
		}
		errs = append(errs, field.Invalid(at, port.StrVal, what))
	}
	for _, p := range []struct {
		name  string
		probe *common.Probe
	}{{"startup", s.Probes.Startup}, {"readiness", s.Probes.Readiness}, {"liveness", s.Probes.Liveness}} {
		if p.probe == nil {
			continue
		}
		if get := p.probe.HTTPGet; get != nil {
			known(at.Child(p.name, "httpGet", "port"), get.Port)
		}
		if tcp := p.probe.TCPSocket; tcp != nil {
			known(at.Child(p.name, "tcpSocket", "port"), tcp.Port)
		}
	}
	return errs
}

func validateVolumes(p *common.Pod, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	volumes := map[string]bool{}
	for i, v := range p.Volumes {
		errs = append(errs, unique(at.Child("volumes").Index(i).Child("name"), volumes, v.Name)...)
		if v.Projected != nil {
			errs = append(errs, validateProjected(v.Projected, at.Child("volumes").Index(i).Child("projected", "sources"))...)
		}
	}
	places := map[string]bool{}
	for i, m := range p.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		if !volumes[m.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, "must be the name of one of spec.pod.volumes"))
		}
		// Kubernetes would take /data and /data/ for two.
		errs = append(errs, unique(at.Child("mountPath"), places, path.Clean(m.MountPath))...)
	}
	return errs
}

// validateProjected refuses two files of one path, as Kubernetes does.
func validateProjected(v *common.ProjectedVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	files := map[string]bool{}
	keys := func(at *field.Path, items []common.KeyToPath) {
		for i, k := range items {
			errs = append(errs, unique(at.Child("items").Index(i).Child("path"), files, path.Clean(k.Path))...)
		}
	}
	for i, s := range v.Sources {
		at := at.Index(i)
		if s.ConfigMap != nil {
			keys(at.Child("configMap"), s.ConfigMap.Items)
		}
		if s.Secret != nil {
			keys(at.Child("secret"), s.Secret.Items)
		}
		if s.DownwardAPI != nil {
			for j, f := range s.DownwardAPI.Items {
				errs = append(errs, unique(at.Child("downwardAPI", "items").Index(j).Child("path"), files, path.Clean(f.Path))...)
			}
		}
	}
	return errs
}
