// Package logs quotes the logs of components.
package logs

import (
	"os"

	"github.com/platform-operator/platform-operator/e2e/cluster/host"
)

// Tail returns the end of a log file, indented.
func Tail(path string, lines int) string {
	log, err := os.ReadFile(path)
	switch {
	case err != nil:
		return "    (no log: " + err.Error() + ")"
	case len(log) == 0:
		return "    (the log is empty)"
	}
	return host.LastLines(string(log), lines)
}
