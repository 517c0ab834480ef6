package simulations_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/fencepost/fencepost/internal/test/leaktest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/token"
)

// scope limits the interleavings that a test performs, so that the verdict is the same on
// a slow machine.
type scope func(simulations.Subject) simulations.Subject

// some performs some interleavings of each kind; the stress tests perform many.
func some(s simulations.Subject) simulations.Subject { return simulations.Within(4, 1, s) }

// untilFound performs nearly all: the run of a wrong program ends with the first verdict.
func untilFound(s simulations.Subject) simulations.Subject { return simulations.Within(1000, 1000, s) }

// untilFoundAs is untilFound for a mistake whose verdict contains says. For the mistake
// that leaves a goroutine running, the verdict waits for its write.
func untilFoundAs(says string, s simulations.Subject) simulations.Subject {
	if says == "work that outlives Hold" {
		s = simulations.Outliving(s)
	}
	return untilFound(s)
}

// many performs more, and different random interleavings each time.
func many(s simulations.Subject) simulations.Subject {
	s.Seed = 1 + rand.Uint64N(1e9)
	return simulations.Within(30, 16, s)
}

// surviving are the tests of correct subjects.
var surviving = map[string]func(*testing.T, scope){
	"in memory":                           runInMemory,
	"in memory, odd":                      runOdd,
	"PostgreSQL":                          runOnPostgres,
	"rows of PostgreSQL":                  runOnRows,
	"protected tables":                    runOnProtectedTables,
	"databases over database/sql":         runOverDatabaseSQL,
	"HTTP":                                runOverHTTP,
	"a Hold of the subject's own":         runWithAHoldOfItsOwn,
	"a lock of the subject's own":         runOnALockOfItsOwn,
	"programs":                            runRight,
	"programs that write outside of Hold": runOutsideHold,
	"programs over database/sql":          runRightOverDatabaseSQL,
	"programs over Redis":                 runRightOverRedis,
	"Once in memory":                      runOnceInMemory,
	"Once":                                runOnce,
	"Once over database/sql":              runOnceOverDatabaseSQL,
	"a program over HTTP":                 runRightOverHTTP,
	"a fence by hand, with FOR SHARE":     runForShare,
}

// No correct program gets a verdict.
func TestWhatSurvivesPasses(t *testing.T) {
	t.Parallel()
	for name, run := range surviving {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, some)
		})
	}
}

func TestStressWhatSurvivesPasses(t *testing.T) {
	t.Parallel()
	for name, run := range surviving {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, many)
		})
	}
}

// holder is a program: a shop, a till, a stock or a counter.
type holder interface {
	hold(ctx context.Context, fn func(context.Context) error) error
	holdUnclaimed(ctx context.Context, fn func(context.Context) error) error
	work(ctx context.Context) error
}

// held returns a program that does everything inside Hold.
func held[H holder](work func(s H, ctx context.Context) error) func(H) func(context.Context) error {
	return func(s H) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.hold(ctx, func(ctx context.Context) error { return work(s, ctx) })
		}
	}
}

// byItself returns a program that takes the lock by itself.
func byItself[H holder](work func(s H, ctx context.Context) error) func(H) func(context.Context) error {
	return func(s H) func(context.Context) error {
		return func(ctx context.Context) error { return work(s, ctx) }
	}
}

// unclaimed is held by a Locker without a Claim.
func unclaimed[H holder](work func(s H, ctx context.Context) error) func(H) func(context.Context) error {
	return func(s H) func(context.Context) error {
		return func(ctx context.Context) error {
			return s.holdUnclaimed(ctx, func(ctx context.Context) error { return work(s, ctx) })
		}
	}
}

// holdUnclaimed holds account/42 without a Claim.
func holdUnclaimed(ctx context.Context, issuer token.Issuer, fn func(context.Context) error) error {
	locks := lock.Locker{Issuer: issuer, DangerouslyWithoutClaim: true}
	return locks.Hold(ctx, "account/42", fn)
}

func TestMain(m *testing.M) {
	testenv.AtOnce(6) // writers mostly wait for each other
	leaktest.Main(m)
}
