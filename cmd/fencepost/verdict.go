package main

import (
	"fmt"

	"github.com/fencepost/fencepost/internal/simulate"
)

// verdict says in words what the figures come to.
func verdict(report *simulate.Report, s style) string {
	heading, text := judge(report)
	paint := s.green
	if !report.Fenced() || !report.Corrupted() {
		paint = s.red
	}
	return s.bold("Verdict: ") + paint(heading) + "\n" + fill(text, 2) + "\n"
}

func judge(report *simulate.Report) (heading, text string) {
	without, with := report.Of(simulate.Unguarded), report.Of(simulate.Guarded)
	recheck, check := report.Of(simulate.Recheck), report.Of(simulate.CheckThenWrite)
	switch {
	case !report.Fenced():
		return "the fence does NOT hold.", fmt.Sprintf("Guarded, %d of %d stale writes were accepted and %s lost.",
			with.StaleAccepted, with.StaleAttempted, updates(with.UpdatesLost))
	case !report.Corrupted():
		return "nothing is shown.", "Without a guard no update was lost, so the rest says nothing about the guard."
	}
	return "the fence holds.", fmt.Sprintf("With the lock alone, %s lost, each one acknowledged to its writer. "+
		"Looking once more before the write does not help, since the pause fits in between: "+
		"%d lost after asking Redis, %d after comparing with the mark. "+
		"Guarded, %d of %d stale writes were refused and %s lost: the comparison is part of the write.",
		updates(without.UpdatesLost), recheck.UpdatesLost, check.UpdatesLost,
		with.Refused, with.StaleAttempted, updates(with.UpdatesLost))
}

func updates(n int) string {
	switch n {
	case 0:
		return "no update was"
	case 1:
		return "1 update was"
	}
	return fmt.Sprintf("%d updates were", n)
}
