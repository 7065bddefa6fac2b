// Package logs prints and quotes the logs of components.
package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/host"
)

// Print prints a component's log, also that of a cluster that is down.
func Print(c config.Config, node int, component string, follow bool, out io.Writer) error {
	path := c.LogFile(node, component)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		logs, _ := filepath.Glob(c.LogFile(node, "*"))
		var names []string
		for _, l := range logs {
			names = append(names, strings.TrimSuffix(filepath.Base(l), ".log"))
		}
		if len(names) == 0 {
			return fmt.Errorf("%s has written no logs", config.NodeName(node))
		}
		return fmt.Errorf("no log of %q on %s; there is: %s", component, config.NodeName(node), strings.Join(names, ", "))
	}
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if follow {
		tail, err := exec.LookPath("tail")
		if err != nil {
			return fmt.Errorf("following a log: %w", err)
		}
		return syscall.Exec(tail, []string{"tail", "-n", "+1", "-F", path}, os.Environ())
	}
	if _, err := io.Copy(out, f); err != nil {
		return fmt.Errorf("printing the log: %w", err)
	}
	return nil
}

// Tail returns the end of a log file, indented.
func Tail(path string, lines int) string {
	f, err := os.Open(path)
	if err != nil {
		return "    (no log: " + err.Error() + ")"
	}
	defer func() { _ = f.Close() }()
	const enough = 64 << 10
	if info, err := f.Stat(); err == nil && info.Size() > enough {
		_, _ = f.Seek(-enough, 2)
	}
	var b bytes.Buffer
	_, _ = b.ReadFrom(f)
	if b.Len() == 0 {
		return "    (the log is empty)"
	}
	return host.LastLines(b.String(), lines)
}
