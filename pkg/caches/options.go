package caches

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
	"github.com/platform-operator/platform-operator/pkg/telemetry"
)

// Options returns the options of New, which limit the memory of the caches: of child
// types they contain only objects with the label of children, and of each object only
// what is compared or reported. kinds are empty objects of the operator's own kinds, by
// default of all in the scheme; watch are the namespaces, by default all.
func Options(scheme *runtime.Scheme, kinds []telemetry.Object, watch []string) cache.Options {
	byObject := map[client.Object]cache.ByObject{}
	if len(kinds) == 0 {
		kinds = ownKinds(scheme)
	}
	for _, k := range kinds {
		byObject[k] = cache.ByObject{Label: labels.Everything()}
	}
	for _, p := range packedTypes() {
		// A packed object is decoded for each reader, so that no copy is needed.
		options := cache.ByObject{UnsafeDisableDeepCopy: new(!mayBeLarge(reflect.TypeOf(p)))}
		if slices.ContainsFunc(unownedTypes(), func(u client.Object) bool { return reflect.TypeOf(u) == reflect.TypeOf(p) }) {
			options.Label = labels.Everything()
		}
		byObject[p] = options
	}
	var namespaces map[string]cache.Config
	if len(watch) > 0 {
		namespaces = map[string]cache.Config{}
		for _, n := range watch {
			namespaces[n] = cache.Config{}
		}
	}
	return cache.Options{
		ByObject:             byObject,
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{naming.LabelManagedBy: naming.ManagedBy}),
		DefaultNamespaces:    namespaces,
		DefaultTransform:     new(trimmer).trim,
		// A read of a kind without an informer is a bug, and would start a
		// watch of the whole cluster.
		ReaderFailOnMissingInformer: true,
	}
}

// ownKinds returns empty objects of the operator's own kinds. The caches
// contain all objects of these, and otherwise only those with the label of
// children. A selector for each child type is not possible, because a cluster
// may not serve all of them.
func ownKinds(scheme *runtime.Scheme) []telemetry.Object {
	var all []telemetry.Object
	for gvk := range scheme.AllKnownTypes() {
		empty, err := scheme.New(gvk)
		if err != nil {
			continue
		}
		if k, ok := empty.(telemetry.Object); ok {
			all = append(all, k)
		}
	}
	return all
}
