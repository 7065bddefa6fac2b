// Package manifest reads objects from files, in every form that kubectl apply accepts.
package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Object is an object of a file. Its type may be incomplete.
type Object struct {
	metav1.TypeMeta
	// At is the source and the number of the document.
	At string
	// JSON is the object as JSON.
	JSON json.RawMessage
	// Err is the reason why the document could not be parsed. JSON is then empty.
	Err error
}

// Read calls f for each object of a source: of YAML documents, of JSON values that follow
// each other, and of lists. Documents without content are skipped. name is the name of
// the source.
func Read(r io.Reader, name string, f func(Object) error) error {
	docs := yaml.NewYAMLReader(bufio.NewReader(r))
	for n := 1; ; n++ {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		at := fmt.Sprintf("%s, document %d", name, n)
		values, err := parse(doc)
		if err != nil {
			if err := f(Object{At: at, Err: err}); err != nil {
				return err
			}
		}
		for _, v := range values {
			if err := flatten(Object{At: at, JSON: v}, f); err != nil {
				return err
			}
		}
	}
}

// parse returns the values of a document. Several are possible only in JSON.
func parse(doc []byte) ([]json.RawMessage, error) {
	if values, err := stream(doc); err == nil {
		return values, nil
	}
	raw, err := sigsyaml.YAMLToJSONStrict(doc)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what is wrong with the document
	}
	return []json.RawMessage{bytes.TrimSpace(raw)}, nil
}

// stream returns the values of a document of JSON.
func stream(doc []byte) (all []json.RawMessage, err error) {
	for d := json.NewDecoder(bytes.NewReader(doc)); ; {
		var raw json.RawMessage
		switch err := d.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("decoding: %w", err)
		}
		all = append(all, raw)
	}
}

// flatten calls f for an object or, if it is a list, for its items. Items without a type
// have that of the list, as for kubectl.
func flatten(o Object, f func(Object) error) error {
	if string(o.JSON) == "null" {
		return nil
	}
	var list struct {
		metav1.TypeMeta
		Items []json.RawMessage `json:"items"`
	}
	_ = json.Unmarshal(o.JSON, &list) // what is not an object has no type, which f reports
	kind, isList := strings.CutSuffix(list.Kind, "List")
	if !isList || list.Items == nil {
		o.TypeMeta = list.TypeMeta
		return f(o)
	}
	for _, raw := range list.Items {
		var item map[string]any
		if kind != "" && json.Unmarshal(raw, &item) == nil && item["kind"] == nil && item["apiVersion"] == nil {
			item["kind"], item["apiVersion"] = kind, list.APIVersion
			raw, _ = json.Marshal(item) // it was JSON before
		}
		if err := flatten(Object{At: o.At, JSON: raw}, f); err != nil {
			return err
		}
	}
	return nil
}
