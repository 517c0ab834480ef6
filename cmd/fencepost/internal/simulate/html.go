package simulate

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

// page has the verdict and the table, draws [Unguarded] beside [Guarded], and below them the
// two ways that check before the write.
func page(report *Report) (timeline.Page, error) {
	heading, text := verdict(report)
	p := timeline.Page{Title: "Verdict: " + heading, Table: figures(report), Command: "fencepost simulate --html FILE"}
	p.Lead = fmt.Sprintf("%s\n%sRounds of each way: %d. The pictures show the first.", text, intro(report), report.Rounds)
	for _, way := range []Way{Unguarded, Guarded, Recheck, CheckThenWrite} {
		chart, err := chartOf(report, way)
		if err != nil {
			return p, err
		}
		p.Charts = append(p.Charts, chart)
	}
	return p, nil
}

var headings = map[Way]string{
	Unguarded:      "Unguarded: has the lock, and writes",
	Guarded:        "Guarded: compares with the mark as it writes",
	Recheck:        "Recheck: checks the lease, then writes",
	CheckThenWrite: "Check-then-write: compares with the mark, then writes",
}

// chartOf returns the first round of a way, with the rules that its history breaks.
func chartOf(report *Report, way Way) (timeline.Chart, error) {
	count := report.Of(way)
	broken, err := history.Check(count.first.history)
	if err != nil {
		return timeline.Chart{}, err
	}
	for i := range broken {
		broken[i].Why = lossText(count.first, broken[i])
	}
	return timeline.Chart{Title: headings[way], History: count.first.history, Violations: broken}, nil
}

// lossText describes which acknowledged write the stale write has replaced.
func lossText(e example, v history.Violation) string {
	if v.Rule.ID != "order" {
		return v.Why
	}
	return fmt.Sprintf("A's write, with the older token and with what it read before the pause, replaces B's, which was acknowledged. Lost: %s.",
		strings.Join(e.lost, ", "))
}
