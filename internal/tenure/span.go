package tenure

import (
	"math"
	"time"
)

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// window is how much sooner than it is due a lease is renewed, for the company
// of others: at most, and never more than a tenth of its pause.
const window = 100 * time.Millisecond

// Span is the time for which a lease is relied on. All times count from one
// instant, on the holder's own clock.
type Span struct {
	Next     time.Duration // when there is something to do
	Until    time.Duration // the issuer's end, less the margin
	Stop     time.Duration // AtMost's end
	Renewing bool          // and not answered yet
	Failures int           // in a row
}

// Wind is told that the issuer keeps the lease until then. A third of what is
// left is spent before the first try: a lost packet leaves time for another.
func (s *Span) Wind(now, until, margin time.Duration) {
	s.Until, s.Renewing, s.Failures = until-margin, false, 0
	s.Next = min(now+(until-now)/3, s.End())
}

// Fail is told that a renewal has failed, and nothing is known of the lease. The
// next try is soon.
func (s *Span) Fail(now, ttl time.Duration) {
	s.Renewing = false
	s.Failures++
	s.Next = min(now+max(min(ttl/20, (s.Until-now)/4), time.Millisecond), s.End())
}

// Ask is told that a renewal is under way: what there is to do meanwhile is to
// end in time.
func (s *Span) Ask() { s.Renewing, s.Next = true, s.End() }

// End is when the holder stops, whatever the issuer says later.
func (s *Span) End() time.Duration { return min(s.Until, s.Stop) }

// Due reports whether to renew, now that some lease is due.
func (s *Span) Due(now, ttl time.Duration) bool {
	return !s.Renewing && s.Next-min(window, ttl/30) <= now
}

// Bound is how long a renewal may take: a third of the ttl at most, and not
// beyond the end.
func (s *Span) Bound(now, ttl time.Duration) time.Duration { return min((s.Until-now)/2, ttl/3) }

// TooLate reports whether a grant that lasts for left is over before its work
// can begin.
func TooLate(left, margin time.Duration) bool { return left <= margin }
