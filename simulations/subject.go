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

// Subject is the code under test. Resource and Count are required, Do or DoOnce, and
// Issuer or Expire.
type Subject struct {
	// Issuer grants the tokens for Resource. Nothing else may use the resource during the
	// test.
	Issuer   token.Issuer
	Resource string
	// Expire is for a lock that Do takes itself, without Fencepost: a mutex of redsync or
	// etcd, an advisory lock. Issuer and Claim must then be nil, and Do mints its tokens.
	// Expire ends the lock as its expiry would, whichever writer has it: it deletes the
	// key or ends the session. It returns nil if the lock is free. It may wait for a
	// stopped writer's transaction; its context is then cancelled, and that writer keeps
	// the lock. Expire is also called when writers wait for a lock that was not released.
	// Nil means that Issuer is used.
	Expire func(ctx context.Context) error
	// Do does one unit of guarded work, such as a payment or a booking, under the token
	// in ctx. It is called by many goroutines at once, and must use ctx throughout. It
	// must return, so it must not call t.FailNow or package require.
	//
	// Do must return the guard's errors so that errors.Is finds them. Nil means that
	// Count must grow by one; a guard's refusal means that it must not; any other error
	// allows both.
	Do func(ctx context.Context) error
	// DoOnce replaces Do for work that must be applied once, however often and by
	// whichever holder it is tried, as with Once of the guards. All writers of an
	// interleaving do the same unit of work, which key identifies. It must be a part of
	// what identifies the unit in the code under test, such as the Key of [guard.Unit].
	//
	// Nil means that Count has grown by one in all, whichever writers returned nil: Count
	// is called again after each nil. A guard's refusal means that this writer has applied
	// nothing. Any other error allows both. Count must never grow by two: DoOnce may repeat
	// the unit after any error. In all other ways DoOnce is as Do.
	//
	// In the undisturbed run, and in the twin, each writer gets another key. So the twin
	// is applied more than once, unless DoOnce ignores its key. Unguarded must be nil.
	// Package process requires Do.
	DoOnce func(ctx context.Context, key string) error
	// Holds means that Do takes the lock itself, with a [lock.Locker] on Issuer. Its context
	// then carries no token outside of its own Hold, as in production. If Holds is false, Do
	// runs under the token of a Hold that Run makes. Package process ignores it.
	Holds bool
	// Count returns the number of units in the resource, plus any constant: a balance in
	// units, or the rows of a ledger. It must not use a cache.
	Count func(ctx context.Context) (int, error)

	// Claim is the Claim of the Locker that Do is used with: a guard's Admit, for
	// example. Nil means that tokens are not claimed.
	Claim func(ctx context.Context, tok token.Token) error
	// Mark returns the guard's mark for Resource. If it is nil, Run does not check that
	// the mark never falls.
	Mark func(ctx context.Context) (guard.Mark, error)
	// Unguarded is Do without its guard, for guards that are not Fencepost's. If it is
	// nil, the twin is Do with refusals ignored.
	Unguarded func(ctx context.Context) error
	// Unseen is why a run may pass though it did not see all that Do wrote: its driver has no
	// tracer, for example. The run then logs what it did not see, in lines that begin with
	// "not covered". If Unseen is empty, such a run fails.
	Unseen string

	// TTL is the leases' TTL. Zero means DefaultTTL.
	TTL time.Duration
	// MaxBlocking is how long a paused holder may block its successor, such as the Idle
	// of a sqlguard.Guard; longer is a broken rule. Zero means that this is not checked.
	// Guards for PostgreSQL then have the server end the transaction of a paused holder
	// after some milliseconds, so that the code after that is tested too.
	MaxBlocking time.Duration
	// Budget is the time for interleavings of three holders (one half) and random ones
	// (the other half). All interleavings of two holders are performed in addition: about
	// a dozen for each step of Do, some milliseconds each. At most five interleavings are
	// performed for each millisecond of Budget, because a synctest bubble's clock hardly
	// moves. Zero means 2 s.
	Budget time.Duration
	// Limit is the time that the whole run may take, except for the interleaving that it is
	// performing then. The interleavings of two holders get half of it, in the order of the
	// plan, the random ones and those of three holders at most a quarter more, and the twin
	// the rest. At least one of each kind is performed. A run whose twin was not corrupted
	// within Limit fails. Zero means no limit.
	Limit time.Duration
	// Seed is the seed of the random interleavings. Zero means a random seed, which is
	// printed.
	Seed uint64

	// The kit's own tests set these. extent, if not zero, replaces Budget, so that the
	// same interleavings run on a slow machine. slack is how late the machine may be.
	// strays is how long a verdict waits for goroutines that a unit has left running.
	extent extent
	slack  time.Duration
	strays time.Duration

	begun time.Time // when the run began
}

// extent limits the number of interleavings.
type extent struct {
	ofTwo  int // holders
	others int // of three holders, and as many random ones
}

// DefaultTTL is the TTL of the leases if Subject.TTL is zero.
const DefaultTTL = 200 * time.Millisecond

const (
	defaultBudget = 2 * time.Second
	// defaultSlack is how late a machine may be without a broken rule.
	defaultSlack = 10 * time.Second
	// shortest is the minimum time that a random interleaving counts for.
	shortest = 200 * time.Microsecond
)

// complete returns s with its defaults, or an error if a required field is missing.
func (s Subject) complete() (Subject, error) {
	switch {
	case s.Issuer == nil && s.Expire == nil:
		return s, errors.New("simulations: Subject has neither an Issuer nor Expire")
	case s.kept() && (s.Issuer != nil || s.Claim != nil || s.Holds):
		return s, errors.New("simulations: Subject has Expire, and also an Issuer, a Claim or Holds")
	case s.Do == nil && s.DoOnce == nil:
		return s, errors.New("simulations: Subject has neither Do nor DoOnce")
	case s.DoOnce != nil && (s.Do != nil || s.Unguarded != nil):
		return s, errors.New("simulations: Subject has DoOnce, and also Do or Unguarded")
	case s.Count == nil:
		return s, errors.New("simulations: Subject has no Count")
	case s.TTL < 0 || s.MaxBlocking < 0 || s.Budget < 0 || s.Limit < 0:
		return s, errors.New("simulations: Subject has a negative duration")
	}
	s.begun = time.Now()
	s.TTL = cmp.Or(s.TTL, DefaultTTL)
	s.Budget = cmp.Or(s.Budget, defaultBudget)
	s.slack = cmp.Or(s.slack, defaultSlack)
	s.strays = cmp.Or(s.strays, defaultStrays)
	s.Seed = cmp.Or(s.Seed, 1+rand.Uint64N(1e9))
	return s, token.ValidateResource(s.Resource)
}

// kept reports whether Do takes its own lock.
func (s Subject) kept() bool { return s.Expire != nil }

// goesOn reports whether to perform another interleaving after n in this half of the
// budget.
func (s Subject) goesOn(begun time.Time, n int) bool {
	if n > 0 && s.spent(3) {
		return false
	}
	if s.extent != (extent{}) {
		return n < s.extent.others
	}
	half := s.Budget / 2
	return time.Since(begun) < half && time.Duration(n)*shortest < half
}

// spent reports whether the run has used up so many quarters of Limit.
func (s Subject) spent(quarters time.Duration) bool {
	return s.Limit > 0 && time.Since(s.begun) >= s.Limit/4*quarters
}

// sample returns about most of all, evenly spaced, and every interleaving in which an
// answer is lost. If most is zero it returns all. The steps at which holders stop repeat
// in all, so the spacing is coprime to their number; otherwise the sample would miss
// steps.
func sample(all []interleaving, steps, most int) (sampled []interleaving) {
	if most == 0 {
		return all
	}
	every := (len(all) + most - 1) / most
	for divisor(every, steps) > 1 {
		every++
	}
	for n, i := range all {
		if n%every == 0 || i.unanswered() {
			sampled = append(sampled, i)
		}
	}
	return sampled
}

// divisor returns the greatest common divisor of a and b.
func divisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
