// Command kubevalidate reports what Kubernetes says about objects, without a
// cluster: its own decoding, defaulting and validation, and nothing that depends
// on other objects, such as quotas, ports in use or priority classes.
//
// It reads questions from its input, one JSON document each, and answers each
// with a line: {"error": "..."}, which is empty if Kubernetes would create the
// object, or update the one in old to it.
//
// It is a module of its own, with the versions of cluster/hyperkube, so that
// the two share compiled packages.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// question asks for an object to be created, or updated if old is set.
type question struct {
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new"`
}

type answer struct {
	Error string `json:"error"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubevalidate:", err)
		os.Exit(1)
	}
}

func serve(r io.Reader, w io.Writer) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	for {
		var q question
		if err := in.Decode(&q); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading a question: %w", err)
		}
		var a answer
		if err := judge(q); err != nil {
			a.Error = err.Error()
		}
		if err := out.Encode(a); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}
