// Package blocks says what is refused of the parts of a spec that several kinds
// share, beyond what schema and CEL rules refuse.
package blocks

import (
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

// Autoscaling refuses targets that are in percent of nothing.
func Autoscaling(a *common.Autoscaling, r *common.Resources, at *field.Path) field.ErrorList {
	if a == nil {
		return nil
	}
	return append(
		requested(r, corev1.ResourceCPU, a.TargetCPUUtilizationPercentage, at.Child("targetCPUUtilizationPercentage")),
		requested(r, corev1.ResourceMemory, a.TargetMemoryUtilizationPercentage, at.Child("targetMemoryUtilizationPercentage"))...)
}

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

// Expose refuses a Gateway of another namespace than the object's.
func Expose(e *common.Expose, namespace string, at *field.Path) field.ErrorList {
	if e == nil || e.Gateway == nil || e.Gateway.ParentRef.Namespace == "" || e.Gateway.ParentRef.Namespace == namespace {
		return nil
	}
	return field.ErrorList{field.Forbidden(at.Child("gateway", "parentRef", "namespace"), fmt.Sprintf(
		"the Gateway must be in this namespace, %q: the platform configuration allows no other", namespace))}
}

// Probes refuses names of ports that are none of the container's TCP ports:
// such a probe fails for ever.
func Probes(p *common.Probes, ports []string, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	known := func(at *field.Path, port intstr.IntOrString) {
		if port.Type == intstr.String && !slices.Contains(ports, port.StrVal) {
			what := "the container has no TCP port of that name; use a number"
			if len(ports) > 0 {
				what += ", or one of " + strings.Join(ports, ", ")
			}
			errs = append(errs, field.Invalid(at, port.StrVal, what))
		}
	}
	for _, one := range []struct {
		name  string
		probe *common.Probe
	}{{"startup", p.Startup}, {"readiness", p.Readiness}, {"liveness", p.Liveness}} {
		if one.probe == nil {
			continue
		}
		if get := one.probe.HTTPGet; get != nil {
			known(at.Child(one.name, "httpGet", "port"), get.Port)
		}
		if tcp := one.probe.TCPSocket; tcp != nil {
			known(at.Child(one.name, "tcpSocket", "port"), tcp.Port)
		}
	}
	return errs
}

// Pod refuses mounts of no volume, and two files or mounts of one place.
func Pod(p *common.Pod, at *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	volumes := seen{}
	for i, v := range p.Volumes {
		at := at.Child("volumes").Index(i)
		errs = append(errs, volumes.once(at.Child("name"), v.Name)...)
		if v.Projected != nil {
			errs = append(errs, projected(v.Projected, at.Child("projected", "sources"))...)
		}
	}
	places := seen{}
	for i, m := range p.VolumeMounts {
		at := at.Child("volumeMounts").Index(i)
		if !volumes[m.Name] {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, "must be the name of one of spec.pod.volumes"))
		}
		// Kubernetes would take /data and /data/ for two.
		errs = append(errs, places.once(at.Child("mountPath"), path.Clean(m.MountPath))...)
	}
	return errs
}

// projected refuses two files of one path, as Kubernetes does.
func projected(v *common.ProjectedVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	files := seen{}
	keys := func(at *field.Path, items []common.KeyToPath) {
		for i, k := range items {
			errs = append(errs, files.once(at.Child("items").Index(i).Child("path"), path.Clean(k.Path))...)
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
				errs = append(errs, files.once(at.Child("downwardAPI", "items").Index(j).Child("path"), path.Clean(f.Path))...)
			}
		}
	}
	return errs
}

type seen map[string]bool

func (s seen) once(at *field.Path, value string) field.ErrorList {
	if s[value] {
		return field.ErrorList{field.Duplicate(at, value)}
	}
	s[value] = true
	return nil
}

// Within tells whether a path is at, above or below a place.
func Within(mountPath, place string) bool {
	p := path.Clean(mountPath)
	return p == place || p == "/" || strings.HasPrefix(place, p+"/") || strings.HasPrefix(p, place+"/")
}
