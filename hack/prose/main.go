// Command prose reports expressions in comments and documentation that
// docs/style.md replaces by the terms of the field, and fails if there are any.
//
//	go run ./hack/prose     # the whole repository
//	go run ./hack/prose pkg # these folders
package main

import (
	"fmt"
	"os"
)

func main() {
	folders := os.Args[1:]
	if len(folders) == 0 {
		folders = []string{"."}
	}
	findings, err := lint(folders)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, f := range findings {
		fmt.Println(f)
	}
	if len(findings) > 0 {
		fmt.Fprintf(os.Stderr, "%d expressions to reword: see docs/style.md\n", len(findings))
		os.Exit(1)
	}
}
