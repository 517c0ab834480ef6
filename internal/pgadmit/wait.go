package pgadmit

import (
	"math"
	"time"
)

// Wait is how long an admission waits for older writers before it raises the mark. It is
// the argument of the functions of package migrations: in milliseconds, or one of the
// modes.
type Wait int32

const (
	// WaitForever sets no bound.
	WaitForever Wait = 0
	// NoRaise admits only if the mark is already the token's. A token that has yet to
	// raise its mark does so in a short transaction of its own. In a long transaction the
	// raise would stay uncommitted, and other sessions would treat its writer as a writer
	// of the token before.
	NoRaise Wait = -1
)

// WaitFor returns the Wait for a bound. A bound of 0 means no bound.
func WaitFor(bound time.Duration) Wait { return Wait(Milliseconds(bound)) }

// Milliseconds returns a bound in PostgreSQL's unit. It is rounded up, since 0 would mean
// no bound.
func Milliseconds(bound time.Duration) int32 {
	bound = min(bound, math.MaxInt32*time.Millisecond)
	return int32((bound + time.Millisecond - 1) / time.Millisecond)
}

// Interval returns d as the text of an interval, such as 720h0m0s. A number of milliseconds
// above 2³¹ is out of range before PostgreSQL 15.
func Interval(d time.Duration) string { return d.Truncate(time.Millisecond).String() }
