package caches

import "time"

// ProbeOften makes skipped namespaces be checked again immediately.
func ProbeOften() { probeEvery = 100 * time.Millisecond }
