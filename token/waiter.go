package token

import (
	"context"
	"time"
)

// Waiter is what an [Issuer] may be besides: one at which waiters stand in
// line. A [Locker] waits there, instead of asking again and again.
type Waiter interface {
	// Wait is Acquire for those who wait. It returns when resource is granted
	// to holder: at once where it is free and nobody waits, else in the order
	// in which the waiters asked. Who asks later, by Wait or by Acquire, must
	// not be granted it before them, not even in a moment in which it is free.
	// A waiter who is dead, or cannot be told, must be passed over.
	//
	// The grant may be for less than ttl, so that one which its waiter never
	// hears of holds nobody up for long; it must be long enough for a Renew,
	// which makes it whole; a Locker renews at once where that is less than its
	// Margin. Until says how long it is, and must be counted from
	// the last request of this waiter that the issuer had answered before it
	// granted: a message may have been under way for long.
	//
	// Where it returns an error holder must have left the line, and what it was
	// granted in that very moment must have passed on to the next, as far as
	// the issuer can be reached within a second; the ttl ends the rest. Where
	// ctx has ended the error must be [context.Cause], and [*HeldError] too
	// where it is known who had the resource.
	Wait(ctx context.Context, resource, holder string, ttl time.Duration) (Grant, error)
}
