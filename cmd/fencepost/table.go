package main

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/simulate"
)

// before says what a writer of each way does before its write.
var before = map[simulate.Way]string{
	simulate.Unguarded:      "has the lock",
	simulate.Recheck:        "asks Redis once more",
	simulate.CheckThenWrite: "compares with the mark",
	simulate.Guarded:        "compares as it writes",
}

// table sets the counts of all ways side by side. Whole lines are coloured, so
// that the columns are measured without the codes.
func table(report *simulate.Report, s style) string {
	const heading, line = "  %-16s  %-22s  %12s  %8s  %7s  %12s", "  %-16s  %-22s  %12d  %8d  %7d  %12d"
	lines := []string{s.dim(fmt.Sprintf(heading, "way", "before it writes", "stale writes", "accepted", "refused", "updates lost"))}
	for _, c := range report.Runs {
		paint := s.red
		if c.StaleAccepted+c.UpdatesLost == 0 {
			paint = s.green
		}
		lines = append(lines, paint(fmt.Sprintf(line,
			c.Name, before[c.Name], c.StaleAttempted, c.StaleAccepted, c.Refused, c.UpdatesLost)))
	}
	return strings.Join(lines, "\n") + "\n"
}
