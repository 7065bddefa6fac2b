package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// Capacity is what all nodes share.
type Capacity struct {
	CPUs      int
	MemoryKiB int
}

// ReadCapacity returns the capacity of this machine.
func ReadCapacity() (Capacity, error) {
	raw, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return Capacity{}, fmt.Errorf("reading the machine's memory size: %w", err)
	}
	for line := range strings.Lines(string(raw)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "MemTotal:" {
			kib, err := strconv.Atoi(fields[1])
			if err != nil {
				return Capacity{}, fmt.Errorf("reading the machine's memory size: %w", err)
			}
			return Capacity{CPUs: runtime.NumCPU(), MemoryKiB: kib}, nil
		}
	}
	return Capacity{}, errors.New("reading the machine's memory size: no MemTotal in /proc/meminfo")
}
