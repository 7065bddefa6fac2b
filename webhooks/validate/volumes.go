package validate

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/platform-operator/platform-operator/apis/common"
)

// volumes rejects volumes that the kubelet cannot create, and two files with one
// path, of which Kubernetes would use one.
func volumes(p *common.Pod, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, v := range p.Volumes {
		var certain files // a key of an optional object may not exist
		once := seen{}
		for _, s := range sources(v, at.Child("volumes").Index(i)) {
			if v.Projected != nil {
				for _, one := range s.files {
					errs = append(errs, once.once(one.at, one.path)...) // as Kubernetes does
				}
			}
			if !s.optional {
				certain = append(certain, s.files...)
			}
		}
		if v.Projected == nil {
			errs = append(errs, certain.twice()...)
		}
		errs = append(errs, certain.folders()...)
	}
	return errs
}

// source is an object of the API with files of a volume.
type source struct {
	files files
	// optional: the object or a key may not exist. all: no other files are known.
	optional, all bool
}

// sources returns the sources of a volume; none if it has other files than the API's.
func sources(v common.Volume, at *field.Path) []source {
	switch {
	case v.ConfigMap != nil:
		return []source{keys(v.ConfigMap.Items, v.ConfigMap.Optional, at.Child("configMap", "items"))}
	case v.Secret != nil:
		return []source{keys(v.Secret.Items, v.Secret.Optional, at.Child("secret", "items"))}
	case v.DownwardAPI != nil:
		return []source{fields(v.DownwardAPI.Items, at.Child("downwardAPI", "items"))}
	case v.Projected == nil:
		return nil
	}
	var all []source
	for i, s := range v.Projected.Sources {
		at := at.Child("projected", "sources").Index(i)
		switch {
		case s.ConfigMap != nil:
			all = append(all, keys(s.ConfigMap.Items, s.ConfigMap.Optional, at.Child("configMap", "items")))
		case s.Secret != nil:
			all = append(all, keys(s.Secret.Items, s.Secret.Optional, at.Child("secret", "items")))
		case s.DownwardAPI != nil:
			all = append(all, fields(s.DownwardAPI.Items, at.Child("downwardAPI", "items")))
		}
	}
	return all
}

// files are the files of a volume.
type files []file

type file struct {
	at     *field.Path
	path   string
	source string // what the file contains
}

func keys(items []common.KeyToPath, optional *bool, at *field.Path) source {
	s := source{optional: ptr.Deref(optional, false)}
	for i, k := range items {
		s.files = append(s.files, file{at.Index(i).Child("path"), path.Clean(k.Path), k.Key})
	}
	s.all = len(items) > 0 && !s.optional
	return s
}

func fields(items []common.DownwardAPIFile, at *field.Path) source {
	s := source{all: true}
	for i, d := range items {
		content := ""
		if r := d.FieldRef; r != nil {
			content = r.FieldPath
		} else if r := d.ResourceFieldRef; r != nil {
			content = fmt.Sprint(r.Resource, " ", r.Divisor)
		}
		s.files = append(s.files, file{at.Index(i).Child("path"), path.Clean(d.Path), content})
	}
	return s
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
	all := sources(v, nil)
	known = len(all) > 0 || v.Projected != nil
	for _, s := range all {
		known = known && s.all
		for _, one := range s.files {
			paths = append(paths, one.path)
		}
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
