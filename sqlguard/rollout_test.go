package sqlguard_test

import (
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/pgtest"
)

// The steps of docs/rollout.md, in their order, with an old program without a guard
// beside the new ones.
func TestRollOut(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	pool, warnings := warned(t)
	old := func(writer string) error {
		_, err := pool.Exec(t.Context(), e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), writer)
		return err
	}
	reporting, reports := e.reporting(pool)
	enforcing := e.by(pool)
	protect := func(mode string) {
		e.exec("SELECT "+e.schema+".protect($1::text::regclass, $2, $3)", e.schema+".accounts", "'account/' || id", mode)
	}

	// 1. Report only: every write passes, and refusals are reported.
	require.NoError(t, reporting.Update(e.ctx(34), resource, e.write(e.bounded(), "34")))
	require.NoError(t, old("old"))
	require.NoError(t, reporting.Update(e.ctx(33), resource, e.write(e.bounded(), "33, late")))
	require.NoError(t, reporting.Update(e.bounded(), resource, e.write(e.bounded(), "without a token")))
	require.Len(t, *reports, 2, "one stale, one without a token")
	require.Equal(t, "34 h34", e.mark(resource))

	// 2. Enforce: new programs are refused, old ones are not yet.
	require.ErrorIs(t, enforcing.Update(e.ctx(33), resource, e.write(e.bounded(), "33, late")), guard.ErrStale)
	require.NoError(t, old("old, beside the new"))
	require.Equal(t, "old, beside the new", e.writer())
	require.Zero(t, warnings.Load())

	// 3. Protect, report-only: the database reports writes without the guard.
	protect("report-only")
	require.NoError(t, enforcing.Update(e.ctx(34), resource, e.write(e.bounded(), "34")))
	require.Zero(t, warnings.Load())
	require.NoError(t, old("old, reported"))
	require.Equal(t, int64(1), warnings.Load())

	// 4. Protect: writes without the guard are refused, and so are stale writes of a
	//    report-only guard.
	protect("enforce")
	require.NoError(t, enforcing.Update(e.ctx(34), resource, e.write(e.bounded(), "34")))
	require.Equal(t, "ZF003", outcomeCode(old("old, refused")))
	require.Equal(t, "ZF003", outcomeCode(reporting.Update(e.ctx(33), resource, e.write(e.bounded(), "33, late"))))
	require.Equal(t, "34", e.writer())

	// Back to unprotected.
	e.exec("SELECT "+e.schema+".unprotect($1::text::regclass)", e.schema+".accounts")
	require.NoError(t, old("old"))
}

// warned returns a pool that counts the warnings of protected tables.
func warned(t testing.TB) (*pgxpool.Pool, *atomic.Int64) {
	t.Helper()
	warnings := new(atomic.Int64)
	return pgtest.Connect(t, func(c *pgxpool.Config) {
		c.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
			if n.Code == "ZF003" {
				warnings.Add(1)
			}
		}
	}), warnings
}
