package validate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/platform-operator/platform-operator/apis/common"
)

// volumes rejects volumes that the kubelet cannot create, and two files with one
// path, of which Kubernetes would use one.
func volumes(p *common.Pod, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range p.Volumes {
		at := at.Child("volumes").Index(i)
		var f files
		switch {
		case v.Projected != nil:
			errs = append(errs, projected(v.Projected, at.Child("projected", "sources"))...)
			continue
		case v.ConfigMap != nil && !set(v.ConfigMap.Optional):
			f.keys(v.ConfigMap.Items, at.Child("configMap", "items"))
		case v.Secret != nil && !set(v.Secret.Optional):
			f.keys(v.Secret.Items, at.Child("secret", "items"))
		case v.DownwardAPI != nil:
			f.fields(v.DownwardAPI.Items, at.Child("downwardAPI", "items"))
		}
		errs = append(errs, f.twice()...)
		errs = append(errs, f.folders()...)
	}
	return errs
}

func projected(v *common.ProjectedVolume, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var certain files // a key of an optional object may not exist
	once := seen{}
	for i, s := range v.Sources {
		at := at.Index(i)
		var f files
		optional := false
		switch {
		case s.ConfigMap != nil:
			f.keys(s.ConfigMap.Items, at.Child("configMap", "items"))
			optional = set(s.ConfigMap.Optional)
		case s.Secret != nil:
			f.keys(s.Secret.Items, at.Child("secret", "items"))
			optional = set(s.Secret.Optional)
		case s.DownwardAPI != nil:
			f.fields(s.DownwardAPI.Items, at.Child("downwardAPI", "items"))
		}
		for _, one := range f {
			errs = append(errs, once.once(one.at, one.path)...) // as Kubernetes does
		}
		if !optional {
			certain = append(certain, f...)
		}
	}
	return append(errs, certain.folders()...)
}

// files are the files of a volume.
type files []file

type file struct {
	at     *field.Path
	path   string
	source string // what the file contains
}

func (f *files) keys(items []common.KeyToPath, at *field.Path) {
	for i, k := range items {
		*f = append(*f, file{at.Index(i).Child("path"), path.Clean(k.Path), k.Key})
	}
}

func (f *files) fields(items []common.DownwardAPIFile, at *field.Path) {
	for i, d := range items {
		source := ""
		if r := d.FieldRef; r != nil {
			source = r.FieldPath
		} else if r := d.ResourceFieldRef; r != nil {
			source = fmt.Sprint(r.Resource, " ", r.Divisor)
		}
		*f = append(*f, file{at.Index(i).Child("path"), path.Clean(d.Path), source})
	}
}

// twice rejects a path of two files with different contents.
func (f files) twice() field.ErrorList {
	var errs field.ErrorList
	sources := map[string]string{}
	for _, one := range f {
		if first, found := sources[one.path]; !found {
			sources[one.path] = one.source
		} else if first != one.source {
			errs = append(errs, field.Duplicate(one.at, one.path))
		}
	}
	return errs
}

// folders rejects a path below that of a file.
func (f files) folders() field.ErrorList {
	var errs field.ErrorList
	paths := map[string]bool{}
	for _, one := range f {
		paths[one.path] = true
	}
	for _, one := range f {
		for folder := path.Dir(one.path); folder != "." && folder != "/"; folder = path.Dir(folder) {
			if paths[folder] {
				errs = append(errs, field.Invalid(one.at, one.path, fmt.Sprintf("%q is a file of this volume and cannot be a folder: use another path", folder)))
				break
			}
		}
	}
	return errs
}

// Contents returns the paths of all files of a volume that is read-only in any
// case, and whether they are known.
func Contents(v common.Volume) (paths []string, known bool) {
	var f files
	all := func(items []common.KeyToPath, optional *bool) bool {
		f.keys(items, nil)
		return len(items) > 0 && !set(optional)
	}
	switch {
	case v.ConfigMap != nil:
		known = all(v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		known = all(v.Secret.Items, v.Secret.Optional)
	case v.DownwardAPI != nil:
		f.fields(v.DownwardAPI.Items, nil)
		known = true
	case v.Projected != nil:
		known = true
		for _, s := range v.Projected.Sources {
			switch {
			case s.ConfigMap != nil:
				known = all(s.ConfigMap.Items, s.ConfigMap.Optional) && known
			case s.Secret != nil:
				known = all(s.Secret.Items, s.Secret.Optional) && known
			case s.DownwardAPI != nil:
				f.fields(s.DownwardAPI.Items, nil)
			}
		}
	}
	for _, one := range f {
		paths = append(paths, one.path)
	}
	return paths, known
}

// runtimeFiles are the files that the kubelet and the container runtime mount.
var runtimeFiles = []string{"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}

// mounts rejects read-only mounts below which another one is not possible,
// because the file or folder that it is mounted over cannot be created. For
// mounts below volumes with files of the API, the kubelet creates folders. own
// are the paths that the operator mounts.
func mounts(p *common.Pod, own []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, m := range p.VolumeMounts {
		v, found := Volume(p, m.Name)
		if !found || m.SubPath != "" {
			continue
		}
		paths, known := Contents(v)
		inside := slices.DeleteFunc(slices.Clone(runtimeFiles), func(file string) bool { return mounted(p, file) })
		if v.EmptyDir != nil && m.ReadOnly && mountedOnce(p, m.Name) {
			known = true
			inside = append(inside, own...)
			for _, other := range p.VolumeMounts {
				inside = append(inside, other.MountPath)
			}
		}
		if !known {
			continue
		}
		for _, other := range inside {
			below, ok := strings.CutPrefix(other, m.MountPath+"/")
			if ok && !slices.Contains(paths, below) {
				errs = append(errs, field.Invalid(at.Child("volumeMounts").Index(i).Child("mountPath"), m.MountPath, fmt.Sprintf(
					"%s is mounted below this path, and cannot be created in a read-only volume: use another mountPath, or a volume that is writable", other)))
				break
			}
		}
	}
	return errs
}

// Volume returns the volume with that name.
func Volume(p *common.Pod, name string) (common.Volume, bool) {
	i := slices.IndexFunc(p.Volumes, func(v common.Volume) bool { return v.Name == name })
	if i < 0 {
		return common.Volume{}, false
	}
	return p.Volumes[i], true
}

// mounted reports whether the user mounts a volume at that path.
func mounted(p *common.Pod, at string) bool {
	return slices.ContainsFunc(p.VolumeMounts, func(m common.VolumeMount) bool { return m.MountPath == at })
}

// mountedOnce reports whether nothing is created in an emptyDir by another mount.
func mountedOnce(p *common.Pod, name string) bool {
	n := 0
	for _, m := range p.AllVolumeMounts() {
		if m.Name == name {
			n++
		}
	}
	return n == 1
}

func set(b *bool) bool { return b != nil && *b }
