package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// runOptions are the less usual settings of run.
type runOptions struct {
	dir   string
	env   []string // nil inherits
	stdin io.Reader
}

// run executes a program and returns its standard output. On failure the
// error carries the end of what the program said.
func run(ctx context.Context, o runOptions, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = o.dir, o.env, o.stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", fmt.Errorf("running %s: %w", name, ctx.Err())
		}
		said := strings.TrimSpace(stderr.String())
		if said == "" {
			said = strings.TrimSpace(stdout.String())
		}
		return "", fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, lastLines(said, 15))
	}
	return stdout.String(), nil
}

// lastLines returns the end of a text, indented.
func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
