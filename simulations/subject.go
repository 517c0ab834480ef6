package simulations

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
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
	// pays, books, moves a job on. It is called by many goroutines at once, and
	// must use ctx throughout. It returns the guard's errors so that errors.Is
	// finds them: nil says that Count is one more, a guard's refusal that it is
	// not, and any other error nothing. It must return: require and t.FailNow
	// are errors here. Where it takes the lock itself, by a [token.Locker] on
	// Issuer, that is a re-entry.
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

	// TTL is that of the leases. Zero means DefaultTTL.
	TTL time.Duration
	// Bound is how long a paused holder may keep its successor waiting: the
	// Idle of a sqlguard.Guard, say. Zero means that nobody looks, nor waits for
	// a sleeper to be evicted.
	Bound time.Duration
	// Budget is how long random interleavings are tried, and at most five of
	// them for each millisecond of it: a synctest bubble's clock hardly moves.
	// The plan takes its own time. Zero means 1 s.
	Budget time.Duration
	// Seed draws the random interleavings. Zero means another one each time,
	// which is printed.
	Seed uint64
}

// DefaultTTL is that of a Subject that names none.
const DefaultTTL = 200 * time.Millisecond

const (
	defaultBudget = time.Second
	// slack is what a machine may be late without anything being wrong.
	slack = 10 * time.Second
	// shortest is what a random interleaving takes at least.
	shortest = 200 * time.Microsecond
)

// complete returns s with the defaults put in, or says what is missing.
func (s Subject) complete() (Subject, error) {
	switch {
	case s.Issuer == nil:
		return s, errors.New("simulations: Subject has no Issuer")
	case s.Do == nil:
		return s, errors.New("simulations: Subject has no Do")
	case s.Count == nil:
		return s, errors.New("simulations: Subject has no Count")
	case s.TTL < 0 || s.Bound < 0 || s.Budget < 0:
		return s, errors.New("simulations: Subject has a negative duration")
	}
	s.TTL = cmp.Or(s.TTL, DefaultTTL)
	s.Budget = cmp.Or(s.Budget, defaultBudget)
	s.Seed = cmp.Or(s.Seed, 1+rand.Uint64N(1e9))
	return s, token.CheckResource(s.Resource)
}

// goesOn reports whether there is to be another random interleaving after n.
func (s Subject) goesOn(begun time.Time, n int) bool {
	return time.Since(begun) < s.Budget && time.Duration(n)*shortest < s.Budget
}
