package doctor

import "time"

// Prove runs over connections with a known result.
var Prove = prove

// JudgeClock returns the verdict for a range of differences, because a test cannot set clocks.
func JudgeClock(least, most time.Duration) Verdict {
	a, _ := judgeClock(least, most)
	return a.verdict
}
