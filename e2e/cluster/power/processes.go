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

// MachinePIDs maps the process numbers inside a node to those of the machine.
func MachinePIDs(c config.Config, node int) (map[int]int, error) {
	inits, err := InitPIDs(c, node)
	if err != nil || len(inits) == 0 {
		return nil, err
	}
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", inits[0]))
	if err != nil {
		return nil, fmt.Errorf("reading the process namespace of %s: %w", config.NodeName(node), err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("listing processes: %w", err)
	}
	pids := map[int]int{}
	for _, e := range entries {
		outer, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if ns, err := os.Readlink(filepath.Join("/proc", e.Name(), "ns/pid")); err != nil || ns != namespace {
			continue
		}
		status, err := os.ReadFile(filepath.Join("/proc", e.Name(), "status"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(status)) {
			if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
				fields := strings.Fields(rest)
				if inner, err := strconv.Atoi(fields[len(fields)-1]); err == nil {
					pids[inner] = outer
				}
			}
		}
	}
	return pids, nil
}
