package sqlguard_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// In these tests A holds token 33 and is paused, and B holds 34. Each naive twin is a
// common substitute for a fence, and must let A's write through.

func TestPausedBetweenCheckAndWrite(t *testing.T) {
	t.Parallel()
	// hazard G1
	inEnv(t, "a mark that is read first and then trusted admits the stale write", func(t *testing.T, e *env) {
		e.admitted(33)
		checked := e.mark(resource) == "33 h33" // A's token is the newest, and A is paused here
		require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
		if checked {
			e.exec("UPDATE accounts SET writer = 'A' WHERE id = 42")
		}
		require.Equal(t, "A", e.writer(), "the twin must be corrupted")
	})
	// hazard G1
	inEnv(t, "the guard refuses it", func(t *testing.T, e *env) {
		for name := range doors(e, e.guard) {
			e.exec("DELETE FROM marks")
			e.admitted(33)
			require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
			require.ErrorIs(t, doors(e, e.guard)[name](e.ctx(33), "A"), guard.ErrStale, name)
			require.Equal(t, "B", e.writer(), name)
		}
	})
	// hazard G2
	t.Run("asking the lock once more does not help", func(t *testing.T) {
		t.Parallel()
		e, locks := newEnv(t), &memtoken.Issuer{}
		a, err := locks.Acquire(t.Context(), resource, "A", patient)
		require.NoError(t, err)
		_, err = locks.Renew(t.Context(), a.Token, time.Millisecond)
		checked := err == nil // the lock is A's, and A is paused here
		b := e.successor(locks)
		require.NoError(t, e.guard.Update(token.NewContext(e.bounded(), b), resource, e.write(e.bounded(), "B")))
		if checked {
			e.exec("UPDATE accounts SET writer = 'A' WHERE id = 42")
		}
		require.Equal(t, "A", e.writer(), "the twin must be corrupted")
		require.ErrorIs(t, e.guard.Update(token.NewContext(e.bounded(), a.Token), resource, e.write(e.bounded(), "A")), guard.ErrStale)
	})
}

// successor waits until the lock expires, and returns B's token.
func (e *env) successor(locks token.Issuer) token.Token {
	e.t.Helper()
	b, err := (&lock.Locker{Issuer: locks, Name: "B", TTL: patient, DangerouslyWithoutClaim: true}).Acquire(e.bounded(), resource)
	require.NoError(e.t, err)
	e.t.Cleanup(func() { require.NoError(e.t, b.Release(e.t.Context())) })
	return b.Token()
}

func TestReadModifyWrite(t *testing.T) {
	t.Parallel()
	add := func(e *env, number, to int64) error {
		_, err := e.guard.On(resource).Exec(e.ctx(number), e.sql("UPDATE accounts SET balance = $1 WHERE id = 42"), to)
		return err
	}
	// hazard G3
	inEnv(t, "fenced on the write only, an acknowledged update is lost", func(t *testing.T, e *env) {
		e.admitted(33)
		read := e.balance()                     // B reads 100
		require.NoError(t, add(e, 33, 50))      // A withdraws 50 and is admitted: B has not written yet
		require.NoError(t, add(e, 34, read+10)) // B writes its old read plus ten
		require.Equal(t, int64(110), e.balance(), "the twin must lose A's 50")
	})
	// hazard G3
	inEnv(t, "claimed before the read, the older token is refused", func(t *testing.T, e *env) {
		e.admitted(33, 34)
		read := e.balance()
		require.ErrorIs(t, add(e, 33, 50), guard.ErrStale)
		require.NoError(t, add(e, 34, read+10))
		require.Equal(t, int64(110), e.balance())
	})
	// hazard G3
	inEnv(t, "Update admits before fn reads", func(t *testing.T, e *env) {
		e.admitted(33)
		ctx := e.ctx(34)
		err := e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			var read int64
			err := tx.QueryRow(ctx, e.sql("SELECT balance FROM accounts WHERE id = 42")).Scan(&read)
			require.NoError(t, err)
			require.ErrorIs(t, add(e, 33, 50), guard.ErrStale)
			_, err = tx.Exec(ctx, e.sql("UPDATE accounts SET balance = $1 WHERE id = 42"), read+10)
			return err
		})
		require.NoError(t, err)
		require.Equal(t, int64(110), e.balance())
	})
}

// hazard G5
func TestOrderDecides(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.admitted(33)
	equal := func(number int64, writer string) int64 {
		tag, err := e.pool.Exec(t.Context(), e.sql(`UPDATE accounts SET writer = $1 WHERE id = 42
			AND EXISTS (SELECT FROM marks WHERE resource = $2 AND number = $3)`), writer, resource, number)
		require.NoError(t, err)
		return tag.RowsAffected()
	}
	require.Zero(t, equal(34, "B"), "the twin must refuse the new holder")
	require.Equal(t, int64(1), equal(33, "A"), "and let the old one in")

	require.NoError(t, e.guard.Update(e.ctx(34), resource, e.write(e.bounded(), "B")))
	require.ErrorIs(t, e.guard.Update(e.ctx(33), resource, e.write(e.bounded(), "A")), guard.ErrStale)
	require.Equal(t, "B", e.writer())
}

// hazard G14
func TestNumbersAreNumbers(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	e.exec("CREATE TABLE ledger (number text)")
	e.exec("INSERT INTO ledger VALUES ('9')")
	raised, err := e.pool.Exec(t.Context(), e.sql("UPDATE ledger SET number = '10' WHERE number < '10'"))
	require.NoError(t, err)
	require.Zero(t, raised.RowsAffected(), "the twin, marks kept as text, must refuse the newer")
	require.NoError(t, e.guard.Update(e.ctx(9), resource, e.write(e.bounded(), "A")))
	require.NoError(t, e.guard.Update(e.ctx(10), resource, e.write(e.bounded(), "B")))
	require.ErrorIs(t, e.guard.Update(e.ctx(9), resource, e.write(e.bounded(), "A")), guard.ErrStale)
	require.Equal(t, "B", e.writer())
}

// hazard G11
func TestTwoResourcesInTwoOrders(t *testing.T) {
	t.Parallel()
	names := [][]string{{"account/42", "account/43"}, {"account/43", "account/42"}}
	tokens := func(e *env, number int64) context.Context {
		return token.NewContext(e.ctx(number), token.Token{Resource: "account/43", Number: number, Holder: "h"})
	}
	inEnv(t, "joined one by one they deadlock, which is retryable", func(t *testing.T, e *env) {
		var both sync.WaitGroup
		both.Add(2)
		join := func(order []string, number int64) <-chan error {
			return async(func() error {
				return pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
					first := e.guard.Join(tokens(e, number), tx, order[0])
					both.Done()
					both.Wait()
					if first != nil {
						return first
					}
					return e.guard.Join(tokens(e, number), tx, order[1])
				})
			})
		}
		a, b := join(names[0], 1), join(names[1], 2)
		errs := []error{await(t, a), await(t, b)}
		if !errors.Is(errs[0], guard.ErrRetryable) {
			errs[0], errs[1] = errs[1], errs[0]
		}
		require.Equal(t, []error{guard.ErrRetryable}, outcomes(errs[0]), "the twin must deadlock")
		require.ErrorContains(t, errs[0], "40P01")
	})
	for name, admit := range map[string]func(e *env, ctx context.Context, names []string) error{
		"UpdateAll": func(e *env, ctx context.Context, names []string) error {
			return e.guard.UpdateAll(ctx, names, func(pgx.Tx) error { return nil })
		},
		"JoinAll": func(e *env, ctx context.Context, names []string) error {
			return pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error { return e.guard.JoinAll(ctx, tx, names) })
		},
	} {
		inEnv(t, name+" of all at once never does", func(t *testing.T, e *env) {
			for round := range int64(20) {
				older := async(func() error { return admit(e, tokens(e, 2*round+1), names[0]) })
				newer := async(func() error { return admit(e, tokens(e, 2*round+2), names[1]) })
				require.NoError(t, await(t, newer))
				if err := await(t, older); err != nil {
					require.Equal(t, []error{guard.ErrStale}, outcomes(err))
				}
			}
		})
	}
}

// many returns a context with the tokens of n resources, and their names.
func many(ctx context.Context, n int, prefix string) (context.Context, []string) {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s/%d", prefix, i)
		ctx = token.NewContext(ctx, token.Token{Resource: names[i], Number: 33, Holder: "h33"})
	}
	return ctx, names
}

// The maximum of one call fits a server with default settings, beside another session.
// The twin, with ten times as many, fills the lock table and makes the other session
// fail.
func TestStressTheMostResourcesOfOneCall(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, "max_locks_per_transaction=64", "max_connections=100")
	testenv.Migrate(t, server.URL())
	pool := pgtest.Pool(t, server.URL(), nil)
	g := &sqlguard.Guard{DB: pool, IdleTimeout: patient}
	count := func(sql string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), sql).Scan(&n))
		return n
	}
	const locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
	const marks = "SELECT count(*) FROM fencepost.marks"
	ctx, cancel := context.WithTimeout(t.Context(), ceiling)
	defer cancel()
	neighbour := func(prefix string) error {
		beside, names := many(ctx, 10, prefix)
		return g.UpdateAll(beside, names, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "SELECT count(*) FROM pg_class, pg_proc WHERE false")
			return err
		})
	}

	begin := func() pgx.Tx {
		tx, err := pool.Begin(ctx)
		require.NoError(t, err)
		t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // before the pool is closed
		return tx
	}

	over, names := many(ctx, 1001, "over")
	err := g.UpdateAll(over, append(names, names...), nil)
	require.EqualError(t, err, "sqlguard: nothing was sent: 1001 resources in one call, the limit is 1000")
	require.ErrorContains(t, g.JoinAll(over, begin(), names), "nothing was sent: 1001 resources in one call")
	require.Zero(t, count(marks), "no mark was raised")

	full, names := many(ctx, 1000, "full")
	var beside error
	var held int
	require.NoError(t, g.UpdateAll(full, append(names, names...), func(pgx.Tx) error {
		held, beside = count(locks), neighbour("beside")
		return nil
	}))
	require.NoError(t, beside)
	require.Equal(t, 1000, held, "one for each that was claimed")
	joined, names := many(ctx, 1000, "joined")
	tx := begin()
	require.NoError(t, g.JoinAll(joined, tx, names))
	require.InDelta(t, 2000, count(locks), 100, "two for each that raises its mark; few share the second")
	require.NoError(t, neighbour("beside a Join"))
	require.NoError(t, tx.Rollback(ctx))
	require.Equal(t, 1020, count(marks))

	got := 20_000
	for err = errors.New("not yet"); err != nil; got -= 1500 { // the rest is too little for the other session
		twin := begin()
		if _, err = twin.Exec(ctx, "SELECT count(pg_advisory_xact_lock(i)) FROM generate_series(1, $1::int) i", got); err != nil {
			require.ErrorContains(t, err, "53200")
			require.NoError(t, twin.Rollback(ctx))
		}
	}
	t.Logf("%d locks fit", got+1500)
	innocent, names := many(ctx, 1000, "innocent")
	require.ErrorContains(t, g.UpdateAll(innocent, names, nil), "53200", "the twin, which takes what it gets, must take its neighbour down")
}
