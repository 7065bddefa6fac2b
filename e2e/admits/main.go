// Command admits says what Kubernetes says about objects, without a cluster:
// its own decoding, defaulting and validation, and nothing that depends on what
// else there is, such as quotas, ports that are taken or priority classes.
//
// It reads questions from its input, one JSON document each, and answers each
// with a line: {"error": "..."}, which is empty where Kubernetes would create
// the object, or make it of the one in old.
//
// It is a module of its own, with the versions of cluster/hyperkube, so that
// what is compiled for the one is compiled for the other.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// question asks for an object to be created, or updated where there is an old one.
type question struct {
	Old json.RawMessage `json:"old,omitempty"`
	New json.RawMessage `json:"new"`
}

type answer struct {
	Error string `json:"error"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "admits:", err)
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
