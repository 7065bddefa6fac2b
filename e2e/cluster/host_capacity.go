package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machine is what all nodes share.
type machine struct {
	cpus      int
	memoryKiB int
}

func thisMachine() (machine, error) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return machine{}, fmt.Errorf("reading the machine's memory size: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				return machine{}, fmt.Errorf("reading the machine's memory size: %w", err)
			}
			return machine{cpus: runtime.NumCPU(), memoryKiB: kib}, nil
		}
	}
	return machine{}, errors.New("reading the machine's memory size: no MemTotal in /proc/meminfo")
}
