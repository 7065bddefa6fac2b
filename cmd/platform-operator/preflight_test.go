package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/platform-operator/platform-operator/pkg/cli"
)

func TestExitCode(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want int
	}{
		"none":                  {nil, 0},
		"any":                   {errors.New("x"), 1},
		"pods would restart":    {cli.Exit{Code: 1}, 1},
		"unknown result":        {cli.Unclear(errors.New("x")), 2},
		"in another":            {fmt.Errorf("y: %w", cli.Unclear(errors.New("x"))), 2},
		"unclear about nothing": {cli.Unclear(nil), 0},
	} {
		if got := cli.ExitCode(tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// Exit code 1 means that pods would restart, so errors must have another one.
func TestPreflight_ErrorsHaveTheirOwnExitCode(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, args := range map[string][]string{
		"flag":       {"preflight", "--nothing"},
		"argument":   {"preflight", "web"},
		"output":     {"preflight", "-o", "yaml"},
		"config":     {"preflight", "--config", "/nowhere"},
		"no cluster": {"preflight"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := execute(t, "", args...); cli.ExitCode(err) != 2 || err.Error() == "" {
				t.Errorf("exit code %d: %v", cli.ExitCode(err), err)
			}
		})
	}
}
