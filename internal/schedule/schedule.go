// Package schedule holds the decisions that a Locker makes about a lease: until
// when it may be relied on, when to renew it, how long to wait for an answer, and
// whether a guard's refusal means that the issuer has forgotten. It has no clock,
// no timer and no goroutine: the caller passes the time.
//
// Package lock calls it from its renewer and its recovery. Tests call it at times of
// their choice.
package schedule

import (
	"math"
	"time"
)

// Never is a time that does not come.
const Never = time.Duration(math.MaxInt64)

// batchWindow is how early a lease may be renewed so that it shares a batch with
// others. A lease uses at most a thirtieth of its TTL of it.
const batchWindow = 100 * time.Millisecond

// Lease is the timing of one lease. All times count from one instant, on the
// holder's own clock.
type Lease struct {
	Next     time.Duration // when the next action is due
	Until    time.Duration // the issuer's expiry, less the safety margin
	Stop     time.Duration // the end that HoldAtMost sets
	Renewing bool          // a renewal was sent and is not answered yet
	Failures int           // failed renewals in a row
}

// Extend records that the issuer keeps the lease until then. The next renewal is
// due after a third of the time that is left, so that a lost packet leaves time
// for another attempt.
func (s *Lease) Extend(now, until, margin time.Duration) {
	s.Until, s.Renewing, s.Failures = until-margin, false, 0
	s.Next = min(now+(until-now)/3, s.End())
}

// RenewalFailed records that a renewal has failed, with an unknown effect. The
// next attempt follows soon.
func (s *Lease) RenewalFailed(now, ttl time.Duration) {
	s.Renewing = false
	s.Failures++
	s.Next = min(now+max(min(ttl/20, (s.Until-now)/4), time.Millisecond), s.End())
}

// RenewalSent records that a renewal is under way. Until it is answered, the only
// action left is to end the lease in time.
func (s *Lease) RenewalSent() { s.Renewing, s.Next = true, s.End() }

// End returns when the holder stops, whatever the issuer answers later.
func (s *Lease) End() time.Duration { return min(s.Until, s.Stop) }

// Due reports whether the lease can join the batch that is sent now.
func (s *Lease) Due(now, ttl time.Duration) bool {
	return !s.Renewing && s.Next-min(batchWindow, ttl/30) <= now
}

// RenewalTimeout returns how long a renewal may take: half of the time that is
// left, and at most a third of the TTL.
func (s *Lease) RenewalTimeout(now, ttl time.Duration) time.Duration {
	return min((s.Until-now)/2, ttl/3)
}

// TooLate reports whether a grant that lasts for left is over before its work
// can begin.
func TooLate(left, margin time.Duration) bool { return left <= margin }

const (
	// FirstPause is the pause between the first two attempts to acquire a resource.
	FirstPause = 2 * time.Millisecond
	// LongestPause is the longest pause between two attempts, before jitter.
	LongestPause = 100 * time.Millisecond
)

// Pause returns how long to wait before the next attempt to acquire a resource
// whose holder has remaining left: pause, but at most remaining.
func Pause(remaining, pause time.Duration) time.Duration {
	return min(max(remaining, time.Millisecond), pause)
}

// MaxReacquisitions is how often one call acquires the resource again after its
// claim has shown that the issuer forgot.
const MaxReacquisitions = 2

// MayHaveForgotten reports whether the issuer may have forgotten its numbers,
// given that a guard whose mark is at mark refused number. Mark is 0 if the guard
// does not report it. If the lease is known to be lost, the loss explains the
// refusal, and the result is false.
func MayHaveForgotten(number, mark int64, lost bool) bool { return mark >= number && !lost }

// Recovered reports whether the issuer had forgotten and is now above mark, given
// its answer to Recover. loss means that the answer was token.ErrLost: the issuer's
// memory was already at mark or above, so a newer holder has been there. The
// exception is a mark with this very number from another holder. The issuer has
// then given one number twice, so it had forgotten; its next number is higher.
func Recovered(number, mark int64, loss bool) bool { return !loss || mark == number }
