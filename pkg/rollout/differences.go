package rollout

import (
	"fmt"
	"slices"

	"github.com/platform-operator/platform-operator/pkg/revision"
)

// mostDifferences is the maximum number of differences that the status lists.
const mostDifferences = 16

// differences describes the differences of pod templates for the status.
func differences(from, to any) []string {
	var all []string
	for _, d := range revision.Differences(from, to) {
		verb := "change"
		switch {
		case d.From == nil:
			verb = "be added"
		case d.To == nil:
			verb = "be removed"
		}
		all = append(all, short(d.Path)+" would "+verb)
	}
	slices.Sort(all)
	if len(all) > mostDifferences {
		more := len(all) - mostDifferences + 1
		all = append(all[:mostDifferences-1], fmt.Sprintf("and %d more", more))
	}
	return all
}

// short limits a path to the length that the status may contain.
func short(path string) string {
	const most = 200
	if len(path) > most {
		return path[:most] + "…"
	}
	return path
}
