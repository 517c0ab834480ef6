package simulate

import (
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/timeline"
)

// page draws [Unguarded] beside [Guarded], and below them the two ways that check before the
// write.
func (c *Cmd) page(report *Report) (timeline.Page, error) {
	p := timeline.Page{Title: "One lock, two writers, and a pause", Lead: intro(report), Again: c.commandLine()}
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
	Unguarded:      "Unguarded: having the lock is taken for permission",
	Guarded:        "Guarded: the same moment, and the late write is refused",
	Recheck:        "Checking the lease in Redis before the write",
	CheckThenWrite: "Comparing with the mark before the write",
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
	return timeline.Chart{
		Title: headings[way], History: count.first.history, Violations: broken,
		Lead: fmt.Sprintf("Rounds: %d. Stale writes: %d, of which accepted: %d, refused: %d. Updates lost: %d. This is the first round.",
			report.Rounds, count.StaleAttempted, count.StaleAccepted, count.Refused, count.UpdatesLost),
	}, nil
}

// lossText describes which acknowledged write the stale write has replaced.
func lossText(e example, v history.Violation) string {
	if v.Rule.ID != "order" {
		return v.Why
	}
	return fmt.Sprintf("A's write, with the older token and with what it read before the pause, replaces B's, which was acknowledged. Lost: %s.",
		strings.Join(e.lost, ", "))
}

// commandLine returns the command that draws the page again, without the servers' URLs,
// which may have passwords.
func (c *Cmd) commandLine() string {
	command := fmt.Sprintf("fencepost simulate --rounds %d --ttl %s", c.Rounds, c.TTL)
	if c.Redis != "" {
		command += " --redis URL"
	}
	if c.Postgres != "" {
		command += " --postgres URL"
	}
	return command + " --html FILE"
}
