package sqlguard_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
)

// The steps of docs/rollout.md, in their order, with an old program that knows
// of no guard beside the new ones.
func TestRollOut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pool, warnings := warned(t)
	old := func(writer string) error {
		_, err := pool.Exec(t.Context(), e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), writer)
		return err
	}
	var observed atomic.Int64
	observing := e.with(func(g *sqlguard.Guard) {
		g.DB, g.DangerouslyObserve = pool, true
		g.Observer.Observed = func(context.Context, error) { observed.Add(1) }
	})
	enforcing := e.with(func(g *sqlguard.Guard) { g.DB = pool })
	protect := func(mode string) {
		e.exec("SELECT "+e.schema+".protect($1::text::regclass, $2, $3)", e.schema+".accounts", "'account/' || id", mode)
	}

	// 1. Observe: everything passes, and what would have been refused is told.
	require.NoError(t, observing.Update(e.ctx(34), resource, e.write(e.bounded(), "34")))
	require.NoError(t, old("old"))
	require.NoError(t, observing.Update(e.ctx(33), resource, e.write(e.bounded(), "33, late")))
	require.NoError(t, observing.Update(e.bounded(), resource, e.write(e.bounded(), "without a token")))
	require.Equal(t, int64(2), observed.Load(), "one stale, one without a token")
	require.Equal(t, "34 h34", e.mark(resource))

	// 2. Enforce: new programs are refused, old ones are not yet.
	require.ErrorIs(t, enforcing.Update(e.ctx(33), resource, e.write(e.bounded(), "33, late")), guard.ErrStale)
	require.NoError(t, old("old, beside the new"))
	require.Equal(t, "old, beside the new", e.writer())
	require.Zero(t, warnings.Load())

	// 3. Protect, observing: the database tells who goes around the guard.
	protect("observe")
	require.NoError(t, enforcing.Update(e.ctx(34), resource, e.write(e.bounded(), "34")))
	require.Zero(t, warnings.Load())
	require.NoError(t, old("old, reported"))
	require.Equal(t, int64(1), warnings.Load())

	// 4. Protect: nobody goes around it, an observing guard neither.
	protect("enforce")
	require.NoError(t, enforcing.Update(e.ctx(34), resource, e.write(e.bounded(), "34")))
	require.Equal(t, "ZF003", outcomeCode(old("old, refused")))
	require.Equal(t, "ZF003", outcomeCode(observing.Update(e.ctx(33), resource, e.write(e.bounded(), "33, late"))))
	require.Equal(t, "34", e.writer())

	// And back, if need be.
	e.exec("SELECT "+e.schema+".unprotect($1::text::regclass)", e.schema+".accounts")
	require.NoError(t, old("old"))
}

// warned is a pool that counts the warnings of protected tables.
func warned(t testing.TB) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	config, err := pgxpool.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	warnings := new(atomic.Int64)
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		if n.Code == "ZF003" {
			warnings.Add(1)
		}
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool, warnings
}
