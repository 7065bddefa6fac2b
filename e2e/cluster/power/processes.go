package power

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/platform-operator/platform-operator/e2e/cluster/config"
	"github.com/platform-operator/platform-operator/e2e/cluster/nodeinit"
)

// InitPIDs finds a node's first process by its command line. There is no
// pid file that could be stale or missing.
func InitPIDs(c config.Config, node int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	want := []byte(strings.Join([]string{c.OwnBinary(), nodeinit.Command, c.StateDir, config.NodeName(node)}, "\x00") + "\x00")
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// A process that ended meanwhile is not the one we look for.
		cmdline, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil && bytes.Equal(cmdline, want) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// processEnded reports whether a process has ended or is a zombie. The first
// process of a pid namespace turns into one only after all others ended.
func processEnded(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	// "pid (name) state ...": the name may contain anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	return len(fields) == 0 || fields[0] == "Z" || fields[0] == "X"
}
