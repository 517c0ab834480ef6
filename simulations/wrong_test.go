package simulations_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// shop is a program like the README's: an account from which each unit of work
// withdraws 1, locks in Redis, and a guard in PostgreSQL.
type shop struct {
	t      testing.TB
	pool   *pgxpool.Pool
	schema string
	fence  *sqlguard.Guard
	issuer *redistoken.Issuer
	locks  *lock.Locker

	units atomic.Int64
}

const opening = 1_000_000

func openShop(t *testing.T, tracer pgx.QueryTracer) *shop {
	t.Helper()
	given, schema := testenv.Postgres(t)
	config := given.Config().Copy()
	config.ConnConfig.Tracer, config.MaxConns = tracer, 10
	config.ConnConfig.RuntimeParams["search_path"] = schema
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	_, err = given.Exec(t.Context(), fmt.Sprintf(`CREATE TABLE %[1]s.accounts (id int PRIMARY KEY, balance int NOT NULL, mark bigint NOT NULL DEFAULT 0);
		CREATE TABLE %[1]s.outbox (text text NOT NULL); INSERT INTO %[1]s.accounts VALUES (42, %[2]d)`, schema, opening))
	require.NoError(t, err)
	client, prefix := testenv.Redis(t)
	s := &shop{t: t, pool: pool, schema: schema, fence: &sqlguard.Guard{DB: pool, Schema: schema}}
	s.issuer = &redistoken.Issuer{Client: client, Prefix: prefix}
	s.locks = &lock.Locker{Issuer: s.issuer, Claim: s.fence.Admit}
	return s
}

// subject counts the withdrawals.
func (s *shop) subject(do func(context.Context) error) simulations.Subject {
	return simulations.Subject{
		Issuer: s.issuer, Resource: "account/42", Do: do, Holds: true,
		Count: func(ctx context.Context) (n int, err error) {
			err = s.pool.QueryRow(ctx, "SELECT $1 - balance FROM accounts WHERE id = 42", opening).Scan(&n)
			return n, err
		},
	}
}

func (s *shop) balance(ctx context.Context, db querier) (n int, err error) {
	err = db.QueryRow(ctx, "SELECT balance FROM accounts WHERE id = 42").Scan(&n)
	return n, err
}

func (s *shop) set(ctx context.Context, db querier, balance int) error {
	_, err := db.Exec(ctx, "UPDATE accounts SET balance = $1 WHERE id = 42", balance)
	return err
}

// withdraw reads with one and writes with the other.
func (s *shop) withdraw(ctx context.Context, from, to querier) error {
	return s.spend(ctx, from, func(left int) error { return s.set(ctx, to, left) })
}

func (s *shop) hold(ctx context.Context, fn func(context.Context) error) error {
	return s.locks.Hold(ctx, "account/42", fn)
}

func (s *shop) holdUnclaimed(ctx context.Context, fn func(context.Context) error) error {
	return holdUnclaimed(ctx, s.issuer, fn)
}

func (s *shop) update(ctx context.Context, fn func(pgx.Tx) error) error {
	return s.fence.Update(ctx, "account/42", fn)
}

// spend passes what will be left of the balance to write.
func (s *shop) spend(ctx context.Context, from querier, write func(left int) error) error {
	balance, err := s.balance(ctx, from)
	if err != nil {
		return err
	}
	return write(balance - 1)
}

// work is one unit, under the token in ctx.
func (s *shop) work(ctx context.Context) error {
	return s.update(ctx, func(tx pgx.Tx) error { return s.withdraw(ctx, tx, tx) })
}

// guarded is the program without a mistake.
func (s *shop) guarded(ctx context.Context) error { return s.hold(ctx, s.work) }

// The next functions return programs with a mistake over any driver.

// withOuterContext ignores the context that Hold passes.
func withOuterContext[H holder](s H) func(context.Context) error {
	return func(ctx context.Context) error {
		return s.hold(ctx, func(context.Context) error { return s.work(ctx) })
	}
}

// staleAgain keeps what it has read before the first try, and writes it under a new token
// after a refusal.
func staleAgain[H interface {
	holder
	stale(ctx context.Context) (write func(context.Context) error, err error)
}](s H) func(context.Context) error {
	return func(ctx context.Context) error {
		write, err := s.stale(ctx)
		if err != nil {
			return err
		}
		return repeated(func() error { return s.hold(ctx, write) }, guard.ErrStale)
	}
}

// stale reads, and returns the write of what was computed.
func (s *shop) stale(ctx context.Context) (func(context.Context) error, error) {
	balance, err := s.balance(ctx, s.pool)
	return func(ctx context.Context) error {
		return s.update(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, balance-1) })
	}, err
}

// again tries again in the same Hold after such an error.
func again[H holder](after error) func(H) func(context.Context) error {
	return held(func(s H, ctx context.Context) error {
		return repeated(func() error { return s.work(ctx) }, after)
	})
}

// repeated calls try until it returns none of these errors.
func repeated(try func() error, after ...error) error {
	for {
		err := try()
		if !slices.ContainsFunc(after, func(is error) bool { return errors.Is(err, is) }) {
			return err
		}
	}
}

// ignoring takes such an error for a success: "the other one has done it", or "it was
// probably applied".
func ignoring[H holder](ignored error) func(H) func(context.Context) error {
	return byItself(func(s H, ctx context.Context) error {
		if err := s.hold(ctx, s.work); !errors.Is(err, ignored) {
			return err
		}
		return nil
	})
}

// withFirstToken uses the token of the first Hold in all of them. Hazard L2.
func withFirstToken[H holder](s H) func(context.Context) error {
	var once sync.Once
	var tok token.Token
	return func(ctx context.Context) error {
		return s.hold(ctx, func(ctx context.Context) error {
			once.Do(func() { tok, _ = token.FromContext(ctx, "account/42") })
			return s.work(token.NewContext(ctx, tok))
		})
	}
}

// wrong are programs with one mistake each, and the likely cause that the verdict must
// name. Those that only a tracer observes pass without one, and the coverage reports
// that.
var wrong = []struct {
	name   string
	says   string
	unseen bool
	make   func(s *shop) func(context.Context) error
}{
	{"no guard at all", "no guard at all", false, held(func(s *shop, ctx context.Context) error { // hazard G2
		return s.withdraw(ctx, s.pool, s.pool)
	})},
	{"wrong name", "wrong name", false, held((*shop).misnamed)},
	{"wrong name, consistently", "wrong name", false, byItself(func(s *shop, ctx context.Context) error {
		return s.locks.Hold(ctx, "accounts/42", s.misnamed)
	})},
	{"two names for one row", "two names for one row", false, byItself(func(s *shop, ctx context.Context) error { // hazard G19
		name := "account/42"
		if s.units.Add(1)%2 == 0 {
			name = "accounts/42"
		}
		return s.locks.Hold(ctx, name, func(ctx context.Context) error {
			return s.spend(ctx, s.pool, func(left int) error {
				return s.fence.Update(ctx, name, func(tx pgx.Tx) error { return s.set(ctx, tx, left) })
			})
		})
	})},
	{"read before Update without Claim", "read before Update without Claim", false, unclaimed((*shop).readFirst)}, // hazard G3
	{"a refusal swallowed", "a refusal swallowed", false, ignoring[*shop](guard.ErrStale)},
	{"write over the pool", "write over the pool", false, held(func(s *shop, ctx context.Context) error { // hazard G35
		return s.update(ctx, func(tx pgx.Tx) error { return s.withdraw(ctx, tx, s.pool) })
	})},
	{"read and write over the pool", "write over the pool", false, held(func(s *shop, ctx context.Context) error {
		return s.update(ctx, func(pgx.Tx) error { return s.withdraw(ctx, s.pool, s.pool) })
	})},
	{"outer context", "outer context", false, withOuterContext[*shop]},
	{"retry after unknown", "retry after unknown", false, again[*shop](guard.ErrUnknown)}, // hazard G34
	{"work that outlives Hold", "work that outlives Hold", false, held(func(s *shop, ctx context.Context) error {
		ctx = context.WithoutCancel(ctx)
		go func() {
			time.Sleep(3 * time.Millisecond)
			_ = s.work(ctx)
		}()
		return nil
	})},
	{"savepoint rolled back after Join", "savepoint rolled back after Join", true, held(func(s *shop, ctx context.Context) error { // hazard G24
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			savepoint, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			joined := s.fence.Join(ctx, savepoint, "account/42")
			_, failed := savepoint.Exec(ctx, "SELECT 1/0") // an optional step that fails
			if err := savepoint.Rollback(ctx); err != nil || joined != nil || failed == nil {
				return errors.Join(err, joined)
			}
			return s.withdraw(ctx, tx, tx)
		})
	})},
	{"only the first of two statements guarded", "only the first of two statements guarded", true, held(func(s *shop, ctx context.Context) error {
		if _, err := s.fence.On("account/42").Exec(ctx, "UPDATE accounts SET mark = mark + 1 WHERE id = 42"); err != nil {
			return err
		}
		return s.withdraw(ctx, s.pool, s.pool)
	})},
	{"token cached in a struct", "token cached in a struct", false, withFirstToken[*shop]}, // hazard L2
	{"the token of the last that held", "token cached in a struct", false, func(s *shop) func(context.Context) error { // hazard L2
		var last atomic.Pointer[token.Token]
		return func(ctx context.Context) error {
			return s.hold(ctx, func(ctx context.Context) error {
				tok, err := token.FromContext(ctx, "account/42")
				if err != nil {
					return err
				}
				last.Store(&tok)
				return s.spend(ctx, s.pool, func(left int) error {
					simulations.Failpoint(ctx, "computed")
					ctx := token.NewContext(ctx, *last.Load())
					return s.update(ctx, func(tx pgx.Tx) error { return s.set(ctx, tx, left) })
				})
			})
		}
	}},
	{"outbox written outside the transaction", "outbox written outside the transaction", true, held(func(s *shop, ctx context.Context) error {
		err := s.work(ctx)
		if err != nil {
			return err
		}
		_, err = s.pool.Exec(ctx, "INSERT INTO outbox VALUES ('withdrawn')")
		return err
	})},
	{"a stale value written again", "a stale value written again", false, staleAgain[*shop]},
	{"equality instead of order", "equality instead of order", false, conditional("mark IN (0, $2)", "mark = $2")}, // hazard G5
	{"check, then write", "check, then write", false, unclaimed(func(s *shop, ctx context.Context) error { // hazard G1
		tok, err := token.FromContext(ctx, "account/42")
		if err != nil {
			return err
		}
		if err := s.fence.Admit(ctx, tok); err != nil {
			return err
		}
		return s.withdraw(ctx, s.pool, s.pool)
	})},
}

// The verdict on a wrong program names the mistake.
func TestWrongProgramsAreNamed(t *testing.T)       { nameWrong(t) }
func TestStressWrongProgramsAreNamed(t *testing.T) { nameWrong(t) }

func nameWrong(t *testing.T) {
	t.Parallel()
	for _, c := range wrong {
		for tracing, tracer := range testenv.Some(t, tracers, traced) {
			t.Run(c.name+"/"+tracing, func(t *testing.T) {
				t.Parallel()
				s := openShop(t, tracer)
				began := time.Now()
				subject := s.subject(c.make(s))
				if tracer == nil && c.unseen {
					require.ErrorContains(t, simulations.Check(t, some(subject)), "no tracer: writes outside the guard were not observed")
					return
				}
				err := checkPlanned(t, untilFoundAs(c.says, subject))
				t.Logf("after %s: %v", time.Since(began).Round(time.Millisecond), err)
				requireLikely(t, err, c.says)
			})
		}
	}
}

// plannedTries is how often a wrong program is run at most until its plan finds the
// mistake.
const plannedTries = 10

// untilPlanned calls check until it returns nil, or an error of a run in which an
// interleaving of the plan found the mistake, or an undisturbed one. A run with the
// default Budget performs all of those with two holders. On a busy machine a holder may
// reach its step too late, or lose its lease in between, and only a random interleaving
// finds the mistake.
func untilPlanned(t *testing.T, check func() error) error {
	t.Helper()
	for range plannedTries {
		err := check()
		if err == nil || isPlanned(err) {
			return err
		}
		t.Logf("not found by the plan: %v", err)
	}
	require.FailNow(t, "the plan does not find the mistake")
	return nil
}

// checkPlanned is untilPlanned with a Check of s.
func checkPlanned(t *testing.T, s simulations.Subject) error {
	t.Helper()
	return untilPlanned(t, func() error { return simulations.Check(t, s) })
}

var planned = regexp.MustCompile("(undisturbed|[23]_holders/)")

// isPlanned reports whether an interleaving of the plan, or an undisturbed one, has failed
// with err.
func isPlanned(err error) bool {
	var verdict *simulations.Verdict
	if errors.As(err, &verdict) {
		return planned.MatchString(verdict.Interleaving)
	}
	return planned.MatchString(err.Error())
}
