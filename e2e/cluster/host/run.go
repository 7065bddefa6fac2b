package host

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Options are the less usual settings of Run.
type Options struct {
	Dir   string
	Env   []string // nil inherits
	Stdin io.Reader
}

// Run executes a program and returns its standard output. On failure the
// error contains the end of the output of the program.
func Run(ctx context.Context, o Options, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = o.Dir, o.Env, o.Stdin
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
		return "", fmt.Errorf("running %s %s: %w\n%s", name, strings.Join(args, " "), err, LastLines(said, 15))
	}
	return stdout.String(), nil
}

// LastLines returns the end of a text, indented.
func LastLines(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return "    " + strings.Join(lines, "\n    ")
}
