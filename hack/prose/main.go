// Command prose measures the vocabulary of comments and documentation, and
// reports expressions that docs/style.md replaces by the terms of the field.
//
//	go run ./hack/prose            # print a table of frequencies
//	go run ./hack/prose -lint      # fail if a file uses an expression to avoid
//	go run ./hack/prose -lint pkg  # the same for these folders
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	root := flag.String("root", ".", "root folder of the repository")
	check := flag.Bool("lint", false, "report expressions to avoid instead of measuring; folders can be named as arguments")
	flag.Parse()
	if err := run(os.Stdout, *root, *check, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(w io.Writer, root string, check bool, folders []string) error {
	if !check {
		return measure(w, root)
	}
	excluded := pending
	if len(folders) > 0 {
		excluded = nil
	} else {
		folders = []string{"."}
	}
	findings, err := lint(root, folders, excluded)
	if err != nil {
		return err
	}
	for _, f := range findings {
		fmt.Fprintln(w, f)
	}
	if len(findings) > 0 {
		return fmt.Errorf("%d expressions to reword: see docs/style.md", len(findings))
	}
	return nil
}
