// Package render prints the children that the operator would create for an
// object. It calls the same pure functions as the operator, and needs no
// cluster.
package render

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/platform-operator/platform-operator/pkg/converge"
)

// Objects reads YAML documents from r and writes the children of each object to
// w. name is the name of the source in errors.
func Objects(r io.Reader, name string, w io.Writer, scheme *runtime.Scheme, kinds []converge.AnyKind) error {
	found := false
	return read(r, name, scheme, kinds, func(k converge.AnyKind, obj converge.Object, gvk schema.GroupVersionKind) error {
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

// Read returns the objects in the YAML documents of r.
func Read(r io.Reader, name string, scheme *runtime.Scheme, kinds []converge.AnyKind) ([]converge.Object, error) {
	var all []converge.Object
	err := read(r, name, scheme, kinds, func(_ converge.AnyKind, obj converge.Object, _ schema.GroupVersionKind) error {
		all = append(all, obj)
		return nil
	})
	return all, err
}

// read calls f for each object in r.
func read(r io.Reader, name string, scheme *runtime.Scheme, kinds []converge.AnyKind, f func(converge.AnyKind, converge.Object, schema.GroupVersionKind) error) error {
	docs := yaml.NewYAMLReader(bufio.NewReader(r))
	// Strict decoding returns an error that names a misspelled field.
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	found := false
	for i := 1; ; i++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		// As for kubectl, a document that consists only of comments or separators
		// is null.
		if raw, err := yaml.ToJSON(doc); err == nil && string(bytes.TrimSpace(raw)) == "null" {
			continue
		}
		found = true
		if err := one(doc, strict, scheme, kinds, f); err != nil {
			return fmt.Errorf("%s, document %d: %w", name, i, err)
		}
	}
	if !found {
		return fmt.Errorf("%s holds no object to render", name)
	}
	return nil
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
		} else {
			// All versions of a kind have the same schema, so another version is
			// decoded as the stored version.
			raw, err := json.Marshal(obj)
			if err == nil {
				err = json.Unmarshal(raw, stored)
			}
			if err != nil {
				return fmt.Errorf("reading %s as %s: %w", gvk.Version, own.Version, err)
			}
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
