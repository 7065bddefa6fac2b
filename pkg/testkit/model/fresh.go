package model

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// compareWithFresh deletes the object and creates it again with its final spec: its
// children must be the same as before. A difference is caused by an operation that
// should have had no lasting effect.
func (w *World) compareWithFresh(ctx context.Context) error {
	if !w.exists {
		return nil
	}
	s, err := w.look(ctx)
	if err != nil || s == nil || w.isGivenAway(s) {
		return err
	}
	e := w.expect(s.spec, s.in)
	if !e.ready || text(s.spec, "deletionPolicy") == "Orphan" || len(w.foreign) > 0 {
		return nil
	}
	was, err := w.stated(ctx)
	if err != nil {
		return err
	}
	w.logf("delete, and create again with the same spec")
	if err := deletion(metav1.DeletePropagationBackground, true)(ctx, w); err != nil || len(w.found) > 0 {
		return err
	}
	if err := w.env.Admin.DeleteAllOf(ctx, w.kind.empty(), client.InNamespace(w.ns)); err != nil {
		return fmt.Errorf("deleting what is left: %w", err)
	}
	if err := w.create(ctx); err != nil {
		return err
	}
	if err := w.settle(ctx); err != nil || len(w.found) > 0 {
		return err
	}
	if err := w.check(ctx); err != nil || len(w.found) > 0 {
		return err
	}
	is, err := w.stated(ctx)
	if err != nil {
		return err
	}
	w.checks++
	for _, path := range slices.Sorted(maps.Keys(union(was, is))) {
		if was[path] != is[path] {
			w.violate("differential", "%s is %s, and with a fresh object %s", path, was[path], is[path])
		}
	}
	return nil
}

// stated returns the specs of the children by path, without what may differ between
// two objects with the same spec.
func (w *World) stated(ctx context.Context) (map[string]string, error) {
	children, err := w.children(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, c := range children {
		kind := c.GetKind()
		ofPods := kind == "Pod" && c.GetName() == w.kind.Workload.Name
		if naming.OwnerUID(&c) == "" || kind == "ControllerRevision" || kind == "ConfigMap" || kind == "Pod" && !ofPods {
			continue
		}
		flatten(kind, c.Object["spec"], all)
	}
	s, err := w.object(ctx)
	if err != nil || s == nil {
		return all, err
	}
	anyImage := !has(s.Object, "spec", "image") // it depends on the platform and on what served before
	autoscaled := slices.ContainsFunc(children, func(c unstructured.Unstructured) bool { return c.GetKind() == "HorizontalPodAutoscaler" })
	for path := range all {
		if mayDiffer(path) || anyImage && (strings.HasSuffix(path, ".image") || strings.HasSuffix(path, ".imagePullPolicy")) || autoscaled && path == "Deployment.replicas" ||
			strings.HasPrefix(path, "Pod.") && strings.HasSuffix(path, ".imagePullPolicy") { // that of the first image is kept
			delete(all, path)
		}
	}
	return all, nil
}

// mayDiffer reports whether a field of a child may differ in a fresh object: values
// that the cluster allocates, names of revisions, and values that were set on the
// child itself and are to be kept.
func mayDiffer(path string) bool {
	for _, part := range []string{
		"clusterIP", "nodePort", "healthCheckNodePort", "ipFamil",
		"annotations", "template.metadata.creationTimestamp",
		"nodeName", "schedulingGates", "tolerations", "serviceAccount",
	} {
		if strings.Contains(path, part) {
			return true
		}
	}
	return false
}

func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			flatten(path+"."+k, e, into)
		}
	case []any:
		for i, e := range v {
			key := strconv.Itoa(i)
			if m, ok := e.(map[string]any); ok {
				if n, ok := m["name"].(string); ok {
					key = n
				}
			}
			flatten(path+"["+key+"]", e, into)
		}
	default:
		into[path] = mustJSON(v)
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}
