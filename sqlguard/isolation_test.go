package sqlguard_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

var levels = []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable}

func (e *env) at(level pgx.TxIsoLevel) *sqlguard.Guard {
	return e.with(func(g *sqlguard.Guard) { g.Tx.IsoLevel = level })
}

func TestStaleUnderEveryIsolation(t *testing.T) {
	t.Parallel()
	for _, level := range levels {
		inEnv(t, "at every door under "+string(level), func(t *testing.T, e *env) {
			for _, door := range doors(e, e.at(level)) {
				through(t, e, door)
			}
		})
		inEnv(t, "waiting for the newer writer's open transaction, under "+string(level), func(t *testing.T, e *env) {
			e.admitted(33)
			ctx := e.ctx(34)
			var late <-chan error
			require.NoError(t, pgx.BeginFunc(ctx, e.pool, func(tx pgx.Tx) error {
				if err := e.guard.Join(ctx, tx, resource); err != nil { // raises the mark in this transaction
					return err
				}
				late = async(func() error { return e.at(level).Update(e.ctx(33), resource, e.write(ctx, "A")) })
				e.awaitWaiting(1)
				return e.write(ctx, "B")(tx)
			}))
			err := await(t, late)
			if level != pgx.ReadCommitted { // hazard G7
				require.Equal(t, []error{guard.ErrRetryable}, outcomes(err), "its snapshot is older than the raise")
				err = e.at(level).Update(e.ctx(33), resource, e.write(ctx, "A"))
			}
			require.ErrorIs(t, err, guard.ErrStale)
			require.Equal(t, "B", e.writer())
		})
		inEnv(t, "while the newer writer's Update is open, under "+string(level), func(t *testing.T, e *env) {
			e.admitted(33)
			ctx := e.ctx(34)
			require.NoError(t, e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
				err := e.at(level).Update(e.ctx(33), resource, e.write(ctx, "A"))
				require.ErrorIs(t, err, guard.ErrStale, "the claim is committed: it is refused at once")
				return e.write(ctx, "B")(tx)
			}))
			require.Equal(t, "B", e.writer())
		})
	}
}

// hazard G7
func TestSerializationFailureIsNotStale(t *testing.T) {
	t.Parallel()
	for _, level := range levels[1:] {
		inEnv(t, "an ordinary conflict under "+string(level), func(t *testing.T, e *env) {
			ctx := e.ctx(33)
			conflict := func(tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, e.sql("SELECT FROM accounts")); err != nil {
					return err
				}
				e.exec("UPDATE accounts SET balance = balance + 1 WHERE id = 42")
				return e.write(ctx, "A")(tx)
			}
			err := e.at(level).Update(ctx, resource, conflict)
			require.Equal(t, []error{guard.ErrRetryable}, outcomes(err))
			require.NoError(t, e.at(level).Update(ctx, resource, e.write(ctx, "A")), "run again it goes through")
		})
	}
}

// hazard G23
func TestRaiseUnderFixedSnapshot(t *testing.T) {
	t.Parallel()
	for _, newer := range levels {
		for _, older := range levels {
			inEnv(t, fmt.Sprintf("the newer under %s reads what the older under %s was writing", newer, older), func(t *testing.T, e *env) {
				e.admitted(33)
				last, err := overtake(e, older, newer)
				require.NoError(t, err)
				require.Equal(t, int64(160), last, "100, and 50 of the older, and 10 of the newer")
			})
		}
	}
	t.Run("if the raise is made under the fixed snapshot, the older token's update is lost", func(t *testing.T) {
		t.Parallel()
		for _, newer := range levels[1:] {
			for _, older := range levels[:2] {
				e := newEnv(t)
				e.mutate("admit_slow", "NOT IN ('read committed', 'read uncommitted')", "= 'no such level'", "bound < 0", "false")
				e.admitted(33)
				last, err := overtake(e, older, newer)
				require.NoError(t, err)
				require.Equal(t, int64(110), last, "the twin must lose the 50: newer %s, older %s", newer, older)
			}
		}
	})
	inEnv(t, "admitted and read in one statement, the older's update is lost under read committed too", func(t *testing.T, e *env) {
		e.ledger()
		e.admitted(33)
		ctx := e.ctx(33)
		var late <-chan error
		require.NoError(t, e.guard.Update(ctx, resource, func(tx pgx.Tx) error {
			late = async(func() error {
				// The statement's snapshot is older than the write for which it waits.
				_, err := e.pool.Exec(ctx, e.sql(`WITH a AS MATERIALIZED (SELECT `+e.schema+`.admit($1, 34, 'h34'))
					INSERT INTO ledger (total) SELECT (SELECT total FROM ledger ORDER BY n DESC LIMIT 1) + 10 FROM a`), resource)
				return err
			})
			e.awaitWaiting(1)
			return deposit(ctx, e, tx, 50)
		}))
		require.NoError(t, await(t, late))
		require.Equal(t, int64(110), query[int64](e, "SELECT total FROM ledger ORDER BY n DESC LIMIT 1"), "the twin must lose the 50")
	})
}

// overtake runs a newer writer while an older one is inside. Both append the sum of their
// read and an amount of their own to a ledger, so that only the admission excludes one
// from the other. It returns the last entry.
func overtake(e *env, older, newer pgx.TxIsoLevel) (int64, error) {
	e.ledger()
	var late <-chan error
	err := e.at(older).Update(e.ctx(33), resource, func(tx pgx.Tx) error {
		ctx := e.ctx(34)
		late = async(func() error {
			return e.at(newer).Update(ctx, resource, func(tx pgx.Tx) error { return deposit(ctx, e, tx, 10) })
		})
		e.awaitWaiting(1)
		return deposit(ctx, e, tx, 50)
	})
	if err != nil {
		return 0, err
	}
	err = await(e.t, late)
	return query[int64](e, "SELECT total FROM ledger ORDER BY n DESC LIMIT 1"), err
}

func (e *env) ledger() {
	e.exec("CREATE TABLE ledger (n bigserial PRIMARY KEY, total bigint)")
	e.exec("INSERT INTO ledger (total) VALUES (100)")
}

func deposit(ctx context.Context, e *env, tx pgx.Tx, amount int64) error {
	var total int64
	if err := tx.QueryRow(ctx, e.sql("SELECT total FROM ledger ORDER BY n DESC LIMIT 1")).Scan(&total); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, e.sql("INSERT INTO ledger (total) VALUES ($1)"), total+amount)
	return err
}
