package doctor

import (
	"context"
	"fmt"
	"time"
)

const (
	reads = 8 // of a server's clock
	apart = time.Second
	far   = time.Minute
)

// clockWhy is the same for all servers.
const clockWhy = "Numbers start at the server's clock: after a failover to a server that is behind, or a move to one, new tokens are refused until it has caught up."

// offset is the range of how far a server's clock is ahead of this machine's.
type offset struct{ least, most time.Duration }

// measure reads the server's clock several times. The server reads it between the request
// and the answer, so each round trip narrows the range.
func measure(ctx context.Context, read func(ctx context.Context) (time.Time, error)) (offset, error) {
	var o offset
	for i := range reads {
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

// narrowed returns the intersection of the ranges. If it is empty, a clock was set between
// the measurements, and narrowed returns a range that covers both.
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

// away is the least distance of the clocks.
func (o offset) away() time.Duration { return max(o.least, -o.most, 0) }

func (o offset) judge() (answer, error) {
	evidence := fmt.Sprintf("ahead of this machine's by %s to %s, in %d round trips", short(o.least), short(o.most), reads)
	const fix = "synchronize the clocks (chrony, NTP) of the servers and of this machine: either may be wrong"
	switch {
	case o.away() > far:
		return fail(evidence, fix)
	case o.away() > apart:
		return warn(evidence, fix)
	case o.most-o.least > 2*apart:
		return unknown(evidence+": the network is too slow for a result", "run the doctor on a machine nearer to the server")
	}
	return pass(evidence)
}

func short(d time.Duration) time.Duration {
	if d.Abs() > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}
