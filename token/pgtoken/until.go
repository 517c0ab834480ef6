package pgtoken

import "time"

// microseconds is what an interval is sent and received as: an integer means
// the same in every mode of pgx.
type microseconds int64

func (m microseconds) duration() time.Duration { return time.Duration(m) * time.Microsecond }

// until is when a lease ends that was asked for at sent, on this process's
// clock and never later than on the server's. The server counts the ttl from
// when it got at the row, and says how long that took: without waited, a lease
// that was waited for longer than its ttl would be over when it arrives, each
// time anew. The wait cannot have been longer than the call; that bounds what
// a server's clock that jumps meanwhile can do.
func until(sent time.Time, waited microseconds, ttl time.Duration) time.Time {
	return sent.Add(min(waited.duration(), time.Since(sent))).Add(ttl.Truncate(time.Microsecond))
}
