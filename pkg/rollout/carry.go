package rollout

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/configsource"
	"github.com/platform-operator/platform-operator/pkg/hash"
	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/podstate"
	"github.com/platform-operator/platform-operator/pkg/resources"
)

// Carried is a volume of which pods also mount other versions: those of earlier
// revisions, because clients may still use them, and the next one before any pod
// uses it as its own. A template asks for that by naming.AnnotationKeep. The other
// versions are added to the template of the Deployment and are no part of a revision:
// which ones there are is read from the Deployment.
type Carried struct {
	// Volume is the name of the volume. Those of the other versions begin with it.
	Volume string
	// Folder is where the other versions are mounted: next, 1 for the last earlier
	// one, and so on.
	Folder string
}

// Versions returns the names of the folders of the other versions, those that are
// preferred first.
func (c Carried) Versions(keep int) []string {
	all := []string{nextVersion}
	for i := range keep {
		all = append(all, earlierVersion(i))
	}
	return all
}

// Names returns the names of the volumes of the other versions.
func (c Carried) Names(keep int) []string {
	all := c.Versions(keep)
	for i, v := range all {
		all[i] = c.name(v)
	}
	return all
}

// mostKept is more than a kind allows.
const mostKept = 16

const nextVersion = "next"

func earlierVersion(i int) string { return strconv.Itoa(i + 1) }

func (c Carried) name(version string) string { return c.Volume + "-" + version }

// version is one version of the volume.
type version struct {
	image     *corev1ac.ImageVolumeSourceApplyConfiguration
	configMap string
}

// id identifies the version. It is "" if there is none.
func (v version) id() string {
	switch {
	case v.image != nil && v.image.Reference != nil:
		return hash.Bytes("image", []byte(*v.image.Reference))
	case v.configMap != "":
		return hash.Bytes("ConfigMap", []byte(v.configMap))
	}
	return ""
}

// volume returns the volume with a name. A snapshot of an earlier revision that no
// longer exists does not keep pods from starting.
func (v version) volume(name string, optional bool) *corev1ac.VolumeApplyConfiguration {
	if v.image != nil {
		return corev1ac.Volume().WithName(name).WithImage(v.image)
	}
	return corev1ac.Volume().WithName(name).WithConfigMap(corev1ac.ConfigMapVolumeSource().
		WithName(v.configMap).WithDefaultMode(0o444).WithOptional(optional))
}

// versions are the versions of the volume that a template mounts.
type versions struct {
	own, next version
	earlier   []version // the last one first
}

// mounts reports whether a version is the own version or an earlier one.
func (v versions) mounts(other version) bool {
	return other.id() == v.own.id() || slices.ContainsFunc(v.earlier, func(e version) bool { return e.id() == other.id() })
}

// keeps returns how many earlier versions the pods of a template mount, or 0 if they
// mount no other versions.
func keeps(t *corev1ac.PodTemplateSpecApplyConfiguration) int {
	if t == nil || t.ObjectMetaApplyConfiguration == nil {
		return 0
	}
	n, err := strconv.Atoi(t.Annotations[naming.AnnotationKeep])
	if err != nil {
		return 0
	}
	return max(0, min(n, mostKept)) // a stored template may contain any number
}

// versionsIn returns the versions that a template mounts. Of other versions it returns only
// what the operator adds, because other clients can change a Deployment.
func (c Carried) versionsIn(t *corev1ac.PodTemplateSpecApplyConfiguration, object string) versions {
	named := map[string]version{}
	if t != nil && t.Spec != nil {
		for _, v := range t.Spec.Volumes {
			switch {
			case v.Name == nil:
			case v.Image != nil:
				named[*v.Name] = version{image: v.Image}
			case v.ConfigMap != nil && v.ConfigMap.Name != nil && configsource.IsSnapshotName(object, *v.ConfigMap.Name):
				named[*v.Name] = version{configMap: *v.ConfigMap.Name}
			}
		}
	}
	all := versions{own: named[c.Volume]}
	if keeps(t) == 0 {
		return all
	}
	all.next = named[c.name(nextVersion)]
	for i := range keeps(t) {
		if v := named[c.name(earlierVersion(i))]; v.id() != "" {
			all.earlier = append(all.earlier, v)
		}
	}
	return all
}

// before returns the earlier versions of a template whose own version is own, if it
// replaces one with the versions v.
func (v versions) before(own version, limit int) []version {
	all := slices.Clone(v.earlier)
	if v.own.id() != "" {
		all = append([]version{v.own}, all...)
	}
	all = slices.DeleteFunc(all, func(e version) bool { return e.id() == own.id() })
	return all[:min(len(all), limit)]
}

// with returns a template with other versions of the volume.
func (c Carried) with(t *corev1ac.PodTemplateSpecApplyConfiguration, object string, next version, earlier []version) (*corev1ac.PodTemplateSpecApplyConfiguration, error) {
	own := c.versionsIn(t, object).own
	out := &corev1ac.PodTemplateSpecApplyConfiguration{}
	raw, err := json.Marshal(t)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return nil, fmt.Errorf("copying the pod template: %w", err)
	}
	others := c.Names(keeps(t))
	out.Spec.Volumes = slices.DeleteFunc(out.Spec.Volumes, func(v corev1ac.VolumeApplyConfiguration) bool { return slices.Contains(others, *v.Name) })
	ids := []string{own.id()}
	var mounts []*corev1ac.VolumeMountApplyConfiguration
	add := func(v version, as string, optional bool) {
		if v.id() == "" {
			return
		}
		ids = append(ids, v.id())
		out.Spec.WithVolumes(v.volume(c.name(as), optional))
		mounts = append(mounts, corev1ac.VolumeMount().WithName(c.name(as)).WithMountPath(c.Folder+"/"+as).WithReadOnly(true))
	}
	add(next, nextVersion, false)
	for i, v := range earlier {
		add(v, earlierVersion(i), true)
	}
	for _, containers := range [][]corev1ac.ContainerApplyConfiguration{out.Spec.InitContainers, out.Spec.Containers} {
		for i := range containers {
			all := slices.DeleteFunc(containers[i].VolumeMounts, func(m corev1ac.VolumeMountApplyConfiguration) bool { return slices.Contains(others, *m.Name) })
			containers[i].VolumeMounts = all
			if slices.ContainsFunc(all, func(m corev1ac.VolumeMountApplyConfiguration) bool { return *m.Name == c.Volume }) {
				containers[i].WithVolumeMounts(mounts...)
			}
		}
	}
	return out.WithAnnotations(map[string]string{naming.AnnotationContents: strings.Join(ids, " ")}), nil
}

// carry adds the other versions of the carried volume to the template. If not all pods
// mount the version of the revision that should serve, the revision that serves gets
// that version first, so that clients find it wherever their next request arrives.
func (d *Decision) carry(history []Revision, seen Observed) error {
	c, live, limit := d.question.Carried, seen.Deployment, keeps(d.Template)
	if c == nil || limit == 0 {
		return nil
	}
	var has versions
	var err error
	name := d.question.Name
	own := c.versionsIn(d.Template, name).own
	if live != nil {
		lived := templateOf(live)
		has = c.versionsIn(lived, name)
		if d.stays() && lived.Annotations[naming.AnnotationTemplate] == d.Serving.hash {
			d.Template, err = c.with(d.Template, name, has.next, has.earlier)
			return err
		}
		if keeps(lived) > 0 && own.id() != has.own.id() && !d.reached(own, has, seen) {
			if base, ok := d.base(has, history, seen); ok {
				return d.prepare(base, own, has)
			}
		}
	}
	d.continues = has.next.id() != "" && own.id() == has.next.id()
	d.Template, err = c.with(d.Template, name, version{}, has.before(own, limit))
	return err
}

// stays reports whether the Deployment stays as it is if the revision that should serve is
// the one that it has.
func (d *Decision) stays() bool {
	if d.memory.failed.is(d.Desired) {
		return d.onFailure() == common.OnFailureHalt
	}
	return d.unasked
}

// reached reports whether all pods mount a version. While pods are replaced, others
// without it may be created.
func (d *Decision) reached(v version, has versions, seen Observed) bool {
	switch live := seen.Deployment; {
	case !allMount(v, seen.Pods):
		return false
	case v.id() == has.next.id():
		return resources.Complete(live)
	default:
		return has.mounts(v) || live.Status.Replicas == 0
	}
}

// allMount reports whether all pods that requests can arrive at mount a version.
func allMount(v version, pods []corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(p corev1.Pod) bool {
		if p.Annotations[naming.AnnotationTemplate] == "" || podstate.HasEnded(&p) || p.DeletionTimestamp != nil && !podstate.Ready(&p) {
			return false
		}
		return !slices.Contains(strings.Fields(p.Annotations[naming.AnnotationContents]), v.id())
	})
}

// base returns the revision that serves until all pods mount the next version: the one
// that serves now or, if its rollout is not complete, the last healthy one.
func (d *Decision) base(has versions, history []Revision, seen Observed) (Revision, bool) {
	usable := func(r Revision) bool {
		t, err := r.Template()
		return err == nil && keeps(t) > 0
	}
	serving, ok := servedBy(seen.Deployment, history, d.memory.current)
	if ok && usable(serving) && (has.next.id() != "" || resources.Complete(seen.Deployment) || d.memory.healthy.is(serving)) {
		return serving, true
	}
	healthy, ok := d.memory.healthy.in(history)
	if !ok || !usable(healthy) {
		return Revision{}, false
	}
	t, _ := healthy.Template() // usable has read it
	return healthy, allMount(d.question.Carried.versionsIn(t, d.question.Name).own, seen.Pods)
}

// prepare makes a revision serve that mounts the version of the desired one too.
func (d *Decision) prepare(base Revision, next version, has versions) error {
	c, name := d.question.Carried, d.question.Name
	t, err := base.Template()
	if err != nil {
		return err
	}
	t, err = c.with(t, name, next, has.before(c.versionsIn(t, name).own, keeps(t)))
	if err != nil {
		return err
	}
	d.next, d.Serving, d.Template, d.preparing = d.Serving.Number, base, t, true
	return nil
}

// prepared returns the pods that were created from the decided template, while the pods of
// the same revision are replaced.
func (d *Decision) prepared(pods []corev1.Pod) []corev1.Pod {
	if !d.preparing {
		return pods
	}
	return slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool { return !d.mountsSame(p.Annotations) })
}

// startsPreparing reports whether the decision replaces the pods of a Deployment by those
// that mount the next version.
func (d *Decision) startsPreparing(live *appsv1.Deployment) bool {
	return d.preparing && !d.mountsSame(live.Spec.Template.Annotations)
}

func (d *Decision) mountsSame(annotations map[string]string) bool {
	return annotations[naming.AnnotationContents] == d.Template.Annotations[naming.AnnotationContents]
}
