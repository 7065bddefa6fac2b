package caches

import (
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/platform-operator/platform-operator/apis/common"
	"github.com/platform-operator/platform-operator/pkg/apply/compare"
	"github.com/platform-operator/platform-operator/pkg/naming"
)

// trimmer reduces objects before they are stored in a cache to what is compared
// or reported, because all objects of all namespaces are held there.
type trimmer struct{ names interner }

// trim is a cache.TransformFunc. It may run several times over the same object.
func (t *trimmer) trim(in any) (any, error) {
	o, ok := in.(metav1.Object)
	if !ok {
		return in, nil
	}
	trimManagedFields(o)
	dropUnownedData(o)
	if pod, ok := in.(*corev1.Pod); ok && !belongsToUs(pod) {
		trimPod(pod)
	}
	if a := o.GetAnnotations(); a[corev1.LastAppliedConfigAnnotation] != "" {
		// The status and the finalizer are written as patches that contain only
		// their differences, so the annotation remains in the API server.
		delete(a, corev1.LastAppliedConfigAnnotation)
	}
	if !isPacked(in) {
		t.names.shareIn(o)
	}
	return in, nil
}

// trimManagedFields reduces managed fields, whose field sets are most of the size of an
// object. Of the operator's own kinds nothing is compared.
func trimManagedFields(o metav1.Object) {
	if _, own := o.(interface{ GetStatus() *common.Status }); own {
		o.SetManagedFields(nil)
		return
	}
	compare.ReduceManagedFields(o)
}

// dropUnownedData removes the content of ConfigMaps and ControllerRevisions that
// belong to no object of the operator. Everyone who can create them can set the
// label that the caches select by.
func dropUnownedData(o metav1.Object) {
	if belongsToUs(o) {
		return
	}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		o.Data, o.BinaryData = nil, nil
	case *appsv1.ControllerRevision:
		o.Data = runtime.RawExtension{}
	}
}

// belongsToUs reports whether an object is, or was, a child of one of the
// operator's objects, rather than of a ReplicaSet or a Job, for example.
func belongsToUs(o metav1.Object) bool {
	c := metav1.GetControllerOf(o)
	return c != nil && !strings.HasPrefix(c.APIVersion, "apps/") && !strings.HasPrefix(c.APIVersion, "batch/") || o.GetAnnotations()[naming.AnnotationOwner] != ""
}

// trimPod keeps of a pod, which a ReplicaSet created, its identity and what
// rollouts and the status depend on: the template, a request to evict it, the node, the
// conditions, and the state of the containers.
func trimPod(p *corev1.Pod) {
	all := p.Annotations
	p.Annotations, p.ManagedFields, p.GenerateName = nil, nil, ""
	for _, k := range []string{naming.AnnotationTemplate, naming.AnnotationContents, naming.AnnotationEvictionRequested} {
		if v, ok := all[k]; ok {
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, k, v)
		}
	}
	p.Spec = corev1.PodSpec{NodeName: p.Spec.NodeName}
	s := p.Status
	p.Status = corev1.PodStatus{
		Phase: s.Phase, Conditions: s.Conditions,
		InitContainerStatuses: trimContainers(s.InitContainerStatuses), ContainerStatuses: trimContainers(s.ContainerStatuses),
	}
	// Without the conditions that no decision depends on, and in a slice without
	// spare capacity.
	p.Status.Conditions = slices.Clone(slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodInitialized || c.Type == corev1.ContainersReady
	}))
}

func trimContainers(all []corev1.ContainerStatus) []corev1.ContainerStatus {
	for i, s := range all {
		all[i] = corev1.ContainerStatus{
			Name: s.Name, Image: s.Image, ImageID: s.ImageID, Ready: s.Ready, RestartCount: s.RestartCount,
			State: s.State, LastTerminationState: s.LastTerminationState,
		}
		for _, t := range []*corev1.ContainerStateTerminated{all[i].State.Terminated, all[i].LastTerminationState.Terminated} {
			if t != nil {
				t.ContainerID = ""
			}
		}
	}
	return all
}

// mostNames is the number of strings that an interner shares. The labels,
// annotations, kinds and managers of the children of four kinds are about a hundred;
// the rest is for names of namespaces.
const mostNames = 4096

// interner shares equal strings in the metadata of objects. Each decoded object
// has its own copy of every key of its labels, for example.
type interner struct {
	mu     sync.RWMutex
	shared map[string]string
}

// of returns a string equal to s, which is the same memory for each call until
// the interner is full.
func (i *interner) of(s string) string {
	i.mu.RLock()
	shared, ok := i.shared[s]
	i.mu.RUnlock()
	if ok {
		return shared
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.shared == nil {
		i.shared = map[string]string{}
	}
	if len(i.shared) < mostNames {
		i.shared[s] = s
	}
	return s
}

// shareIn shares the strings of an object's metadata that many objects have.
func (i *interner) shareIn(o metav1.Object) {
	o.SetNamespace(i.of(o.GetNamespace()))
	o.SetLabels(i.inMap(o.GetLabels()))
	o.SetAnnotations(i.inMap(o.GetAnnotations()))
	owners := o.GetOwnerReferences()
	for n := range owners {
		r := &owners[n]
		r.APIVersion, r.Kind = i.of(r.APIVersion), i.of(r.Kind)
	}
	o.SetOwnerReferences(owners)
	entries := o.GetManagedFields()
	for n := range entries {
		e := &entries[n]
		e.Manager, e.Operation = i.of(e.Manager), metav1.ManagedFieldsOperationType(i.of(string(e.Operation)))
		e.Subresource = i.of(e.Subresource)
	}
	o.SetManagedFields(entries)
}

// inMap shares the keys of a map, and the values of those that have few: of the
// labels that Kubernetes recommends, only the instance is that of one object.
func (i *interner) inMap(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	shared := make(map[string]string, len(m))
	for k, v := range m {
		if strings.HasPrefix(k, "app.kubernetes.io/") && k != "app.kubernetes.io/instance" {
			v = i.of(v)
		}
		shared[i.of(k)] = v
	}
	return shared
}
