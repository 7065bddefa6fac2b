package operator

import "time"

// ProbeOften makes namespaces that are left out be tried again at once.
func ProbeOften() { probeEvery = 100 * time.Millisecond }
