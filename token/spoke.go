package token

import (
	"math"
	"time"
)

const (
	never = time.Duration(math.MaxInt64)
	off   = -1 // the place of a lease that is on no wheel

	// window is how much sooner than it is due a lease is renewed, for the
	// company of others: at most, and never more than a tenth of its pause.
	window = 100 * time.Millisecond
)

// spoke is a lease's place on its wheel. Times count from the wheel's epoch.
type spoke struct {
	place    int           // in the heap
	next     time.Duration // when there is something to do
	until    time.Duration // the issuer's end, less the margin
	stop     time.Duration // AtMost's end
	renewing bool          // and not answered yet
	renewal  chan struct{} // closed when the last renewal was answered
	failures int           // in a row
	err      error         // the last failure's
}

// wind is told that the issuer keeps the lease until then. A third of what is
// left is spent before the first try: a lost packet leaves time for another.
func (s *spoke) wind(now, until, margin time.Duration) {
	s.until, s.renewing, s.failures = until-margin, false, 0
	s.next = min(now+(until-now)/3, s.end())
}

// end is when the context ends.
func (s *spoke) end() time.Duration { return min(s.until, s.stop) }

// due reports whether to renew, now that some lease is due.
func (s *spoke) due(now, ttl time.Duration) bool {
	return !s.renewing && s.next-min(window, ttl/30) <= now
}

// bound is how long a renewal may take: a third of the ttl at most, and not
// beyond the end.
func (s *spoke) bound(now, ttl time.Duration) time.Duration { return min((s.until-now)/2, ttl/3) }

// spokes are a heap: what is to be done first is in front.
type spokes []*lease

func (s spokes) Len() int           { return len(s) }
func (s spokes) Less(i, j int) bool { return s[i].spoke.next < s[j].spoke.next }

func (s spokes) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].spoke.place, s[j].spoke.place = i, j
}

// Push implements [heap.Interface].
func (s *spokes) Push(x any) {
	l := x.(*lease)
	l.spoke.place = len(*s)
	*s = append(*s, l)
}

// Pop implements [heap.Interface].
func (s *spokes) Pop() any {
	old := *s
	l := old[len(old)-1]
	old[len(old)-1], *s = nil, old[:len(old)-1]
	l.spoke.place = off
	return l
}
