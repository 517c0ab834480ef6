package process

import (
	"fmt"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// Count is what was counted in some rounds.
type Count struct {
	Rounds    int
	Attempted int // writes of A with an older token that began after B's was acknowledged, or were refused on the way to it
	Accepted  int // of these
	Refused   int // of these
	Early     int // units of A that were accepted otherwise: before B's, or with a newer token
	Lost      int // acknowledged units, of either, that the resource does not remember
	Blocked   int // rounds in which B was not through before A went on
	Took      time.Duration

	// Steps are those of an A whom nobody disturbs.
	Steps []string
	// History is what everybody did, and Broken are the rules that were broken,
	// with the shortest history that breaks each.
	History history.History
	Broken  []history.Violation
}

// String returns a line of a table.
func (c Count) String() string {
	return fmt.Sprintf("%5d rounds, %5d stale writes attempted, %5d accepted, %5d refused, %4d early, %4d updates lost, %3d blocked, %6.1f s",
		c.Rounds, c.Attempted, c.Accepted, c.Refused, c.Early, c.Lost, c.Blocked, c.Took.Seconds())
}

// add counts a round by the two answers, and by how many units more the
// resource remembers. That of a killed A is Unknown.
func (c *Count) add(a, b event, more int) {
	c.Rounds++
	acknowledged := 0
	for _, e := range []event{a, b} {
		if e.Outcome == history.Accepted {
			acknowledged++
		}
	}
	c.Lost += max(0, acknowledged-more)
	older := a.Number > 0 && a.Number < b.Number
	late := older && (a.Wrote.After(b.At) || a.Outcome == history.Refused)
	switch {
	case late && a.Outcome == history.Accepted:
		c.Attempted++
		c.Accepted++
	case late && a.Outcome == history.Refused:
		c.Attempted++
		c.Refused++
	case late:
		c.Attempted++
	case a.Outcome == history.Accepted:
		c.Early++
	}
}
