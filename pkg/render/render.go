// Package render prints the children that the operator would create for an
// object. It calls the same pure functions as the operator, and needs no
// cluster.
package render

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/converge"
	"github.com/platform-operator/platform-operator/pkg/manifest"
)

// Complete adds to an object in JSON what admission would add. Nil adds nothing.
type Complete func([]byte) ([]byte, error)

// Objects reads objects from r and writes the children of each object to
// w. name is the name of the source in errors.
func Objects(r io.Reader, name string, w io.Writer, scheme *runtime.Scheme, kinds []converge.AnyKind, complete Complete) error {
	found := false
	return read(r, name, scheme, kinds, complete, func(k converge.AnyKind, obj converge.Object, gvk schema.GroupVersionKind) error {
		rendered, err := render(k, obj, gvk)
		if err != nil {
			return err
		}
		for _, out := range rendered {
			if found {
				fmt.Fprintln(w, "---")
			}
			found = true
			if _, err := w.Write(out); err != nil {
				return fmt.Errorf("writing: %w", err)
			}
		}
		return nil
	})
}

// Read returns the objects in r.
func Read(r io.Reader, name string, scheme *runtime.Scheme, kinds []converge.AnyKind, complete Complete) ([]converge.Object, error) {
	var all []converge.Object
	err := read(r, name, scheme, kinds, complete, func(_ converge.AnyKind, obj converge.Object, _ schema.GroupVersionKind) error {
		all = append(all, obj)
		return nil
	})
	return all, err
}

// read calls f for each object in r. Objects of other kinds are skipped, because
// manifests are usually mixed.
func read(r io.Reader, name string, scheme *runtime.Scheme, kinds []converge.AnyKind, complete Complete, f func(converge.AnyKind, converge.Object, schema.GroupVersionKind) error) error {
	// Strict decoding returns an error that names a misspelled field.
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	found := false
	err := manifest.Read(r, name, func(o manifest.Object) error {
		err := o.Err
		if err == nil && inOwnGroup(o, scheme, kinds) {
			found = true
			doc := []byte(o.JSON)
			if complete != nil {
				doc, err = complete(doc)
			}
			if err == nil {
				err = one(doc, strict, scheme, kinds, f)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", o.At, err)
		}
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%s contains no object of a kind that this operator manages", name)
	}
	return err
}

// inOwnGroup reports whether an object is in a group of the operator, or lacks the type that
// would say so. A misspelled kind must not be skipped.
func inOwnGroup(o manifest.Object, scheme *runtime.Scheme, kinds []converge.AnyKind) bool {
	return o.Kind == "" || o.APIVersion == "" || slices.ContainsFunc(kinds, func(k converge.AnyKind) bool {
		own, err := apiutil.GVKForObject(k.New(), scheme)
		return err == nil && own.Group == o.GroupVersionKind().Group
	})
}

func one(doc []byte, strict runtime.Decoder, scheme *runtime.Scheme, kinds []converge.AnyKind, f func(converge.AnyKind, converge.Object, schema.GroupVersionKind) error) error {
	obj, _, err := strict.Decode(doc, nil, nil)
	if err != nil {
		return err
	}
	gvk, err := apiutil.GVKForObject(obj, scheme)
	if err != nil {
		return err
	}
	for _, k := range kinds {
		stored := k.New()
		own, err := apiutil.GVKForObject(stored, scheme)
		if err != nil || own.GroupKind() != gvk.GroupKind() {
			continue
		}
		if own == gvk {
			stored = obj.(converge.Object)
		} else if err := json.Unmarshal(doc, stored); err != nil { // all versions of a kind have the same schema
			return fmt.Errorf("reading %s as %s: %w", gvk.Version, own.Version, err)
		}
		if stored.GetName() == "" {
			return fmt.Errorf("%s has no metadata.name, on which the names of its children depend", gvk.Kind)
		}
		return f(k, stored, own)
	}
	return fmt.Errorf("%s is not a kind that this operator manages", gvk.Kind)
}

// render returns the children of an object as YAML documents.
func render(k converge.AnyKind, obj converge.Object, gvk schema.GroupVersionKind) ([][]byte, error) {
	if obj.GetNamespace() == "" {
		obj.SetNamespace(metav1.NamespaceDefault)
	}
	model, err := k.Offline(context.Background(), obj, nil)
	if err != nil {
		return nil, err
	}
	plan, err := model.Plan()
	if err != nil {
		return nil, err
	}
	var docs [][]byte
	for _, in := range plan.Apply {
		raw, err := in.Object(obj, metav1.GroupVersionKind(gvk))
		if err != nil {
			return nil, err
		}
		doc, err := sigsyaml.JSONToYAML(raw)
		if err != nil {
			return nil, fmt.Errorf("printing %s: %w", in, err)
		}
		docs = append(docs, doc)
	}
	return docs, nil
}
