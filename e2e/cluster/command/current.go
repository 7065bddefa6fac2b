package command

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// With CLUSTER=current the tests run against whatever cluster the user's
// kubeconfig points at. Nothing here starts, stops or breaks that cluster.

func useCurrentCluster(getenv func(string) string) bool { return getenv("CLUSTER") == "current" }

// currentContext reads the name of the kubeconfig's current context. It is a
// label for a message, which is why no YAML parser is brought in for it.
func currentContext(getenv func(string) string) string {
	paths := filepath.SplitList(getenv("KUBECONFIG"))
	if len(paths) == 0 {
		paths = []string{filepath.Join(getenv("HOME"), ".kube", "config")}
	}
	pattern := regexp.MustCompile(`(?m)^\s*"?current-context"?\s*:\s*"?([^"\s,]+)`)
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if m := pattern.FindSubmatch(raw); m != nil {
			return string(m[1])
		}
	}
	return "(none)"
}

// refuseOnCurrent is the error of a command that would harm the user's cluster.
func refuseOnCurrent(command string) error {
	return fmt.Errorf("cluster %s works on the cluster made by `cluster up` only, not with CLUSTER=current", command)
}
