package rollout

import (
	"fmt"
	"slices"

	"github.com/platform-operator/platform-operator/pkg/fault"
	"github.com/platform-operator/platform-operator/pkg/revision"
)

// mostDifferences is the maximum number of differences that the status lists, and mostPath
// the length of the path in each.
const (
	mostDifferences = 16
	mostPath        = 200
)

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
		all = append(all, fault.Clip(d.Path, mostPath)+" would "+verb)
	}
	slices.Sort(all)
	if len(all) > mostDifferences {
		more := len(all) - mostDifferences + 1
		all = append(all[:mostDifferences-1], fmt.Sprintf("and %d more", more))
	}
	return all
}
