package simulations

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Subject is what is put to the test: somebody's own code. The first four
// fields are required.
type Subject struct {
	// Issuer grants the tokens, Resource is what they are for. Nobody else may
	// use the resource meanwhile.
	Issuer   token.Issuer
	Resource string
	// Do does one unit of guarded work under the token that ctx carries: it
	// pays, books, moves a job on. It is called by many goroutines at once, must
	// use ctx throughout, and return the guard's errors so that errors.Is finds
	// them. Where it takes the lock itself, by a [token.Locker] on Issuer, that
	// is a re-entry.
	Do func(ctx context.Context) error
	// Count returns how many units the resource remembers, from whatever number
	// on: a balance in units, the rows of a ledger. It must be fresh.
	Count func(ctx context.Context) (int, error)

	// Claim is the Locker's, with which Do will work: a guard's Admit, say.
	Claim func(ctx context.Context, tok token.Token) error
	// Mark returns the guard's mark for Resource. Where it is nil nobody looks
	// whether it falls.
	Mark func(ctx context.Context) (guard.Mark, error)
	// Unguarded is Do without its guard, for guards that are not Fencepost's.
	// Where it is nil the twin is Do itself, in observe-only mode.
	Unguarded func(ctx context.Context) error

	// TTL is that of the leases. Zero means 100 ms.
	TTL time.Duration
	// Bound is how long a paused holder may keep its successor waiting: the
	// Idle of a sqlguard.Guard. Zero means 5 s, which is its default.
	Bound time.Duration
	// Budget is how long random interleavings are tried. Zero means 1 s.
	Budget time.Duration
	// Seed draws the random interleavings. Zero means another one each time,
	// which is printed.
	Seed uint64
}
