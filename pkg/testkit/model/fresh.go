package model

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/platform-operator/platform-operator/pkg/naming"
)

// compareWithFresh deletes the object and creates it again with its final spec: its
// children must be the same as before. A difference is caused by an operation that
// should have had no lasting effect.
func (w *World) compareWithFresh(ctx context.Context) error {
	s, err := w.look(ctx)
	if err != nil || s == nil || !w.expect(s.spec, s.in).ready {
		return err
	}
	was, err := w.stated(ctx, s.spec)
	if err != nil {
		return err
	}
	w.logf("delete, and create again with the same spec")
	for _, do := range []func(context.Context) error{
		func(ctx context.Context) error { return w.remove(ctx, true) }, w.create, w.settle, w.check,
	} {
		if err := do(ctx); err != nil || len(w.found) > 0 {
			return err
		}
	}
	is, err := w.stated(ctx, s.spec)
	if err != nil {
		return err
	}
	w.checks++
	if diff := cmp.Diff(is, was); diff != "" {
		w.violate("differential", "the children differ from those of a fresh object (-fresh +now):\n%s", diff)
	}
	return nil
}

// stated returns the specs of the children by path, without what may differ between
// two objects with the same spec.
func (w *World) stated(ctx context.Context, spec map[string]any) (map[string]string, error) {
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
	for path := range all {
		// The default image depends on the platform and on what served before, and a pod keeps the
		// policy of its first one.
		ofImage := strings.HasSuffix(path, ".image") || strings.HasSuffix(path, ".imagePullPolicy")
		if mayDiffer(path) || ofImage && (!has(spec, "image") || strings.HasPrefix(path, "Pod.") && !strings.HasSuffix(path, ".image")) ||
			has(spec, "autoscaling") && path == "Deployment.replicas" {
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
			if m, ok := e.(map[string]any); ok && text(m, "name") != "" {
				key = text(m, "name")
			}
			flatten(path+"["+key+"]", e, into)
		}
	default:
		into[path] = fmt.Sprint(v)
	}
}
