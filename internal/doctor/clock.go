package doctor

import (
	"context"
	"fmt"
	"time"
)

const (
	looks = 8 // at a server's clock
	apart = time.Second
	far   = time.Minute
)

// clockWhy is the same for all servers.
const clockWhy = "Numbers start at the server's clock: after a failover to a server that is behind, or a move to one, new tokens are refused until it has caught up."

// offset is by how much a server's clock is ahead of ours: at least, at most.
type offset struct{ least, most time.Duration }

// measure looks at the server's clock several times. It was read between the
// question and the answer; each look narrows what the difference can be.
func measure(ctx context.Context, read func(ctx context.Context) (time.Time, error)) (offset, error) {
	var o offset
	for i := range looks {
		before := time.Now()
		there, err := read(ctx)
		after := time.Now()
		if err != nil {
			return o, err
		}
		o = o.narrowed(offset{there.Sub(after.Round(0)), there.Sub(before.Round(0))}, i == 0)
	}
	return o, nil
}

// narrowed keeps both where they contradict each other: a clock was set
// meanwhile, and nothing narrower is known.
func (o offset) narrowed(by offset, first bool) offset {
	if first {
		return by
	}
	both := offset{max(o.least, by.least), min(o.most, by.most)}
	if both.least > both.most {
		return offset{min(o.least, by.least), max(o.most, by.most)}
	}
	return both
}

// away is how far the clocks are apart at least.
func (o offset) away() time.Duration { return max(o.least, -o.most, 0) }

func (o offset) judge() (answer, error) {
	evidence := fmt.Sprintf("ahead of this machine's by %s to %s, in %d round trips", short(o.least), short(o.most), looks)
	const fix = "synchronise the clocks (chrony, NTP) of the servers and of this machine, which may be the wrong one"
	switch {
	case o.away() > far:
		return fail(evidence, fix)
	case o.away() > apart:
		return warn(evidence, fix)
	case o.most-o.least > 2*apart:
		return unknown(evidence+": too slow to tell", "ask from a machine nearer to the server")
	}
	return pass("%s", evidence)
}

func short(d time.Duration) time.Duration {
	if d.Abs() > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
