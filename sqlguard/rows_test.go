package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

func TestRows(t *testing.T) {
	t.Parallel()
	t.Run("rows that are not read to their end are committed by Close", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		rows, err := e.guard.On(resource).Query(e.ctx(33), e.sql("UPDATE accounts SET writer = 'x' RETURNING id"))
		require.NoError(t, err)
		require.True(t, rows.Next())
		values, err := rows.Values()
		require.NoError(t, err)
		require.Len(t, values, 1)
		rows.Close()
		rows.Close()
		require.NoError(t, rows.Err())
		require.False(t, rows.Next())
		require.Equal(t, "UPDATE 2", rows.CommandTag().String())
		require.Equal(t, "x", e.writer())
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	t.Run("an error in the middle of the rows is an ordinary one", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		rows, err := e.guard.On(resource).Query(e.ctx(33), e.sql("SELECT 1 / (43 - id) FROM accounts ORDER BY id"))
		require.NoError(t, err)
		for rows.Next() {
		}
		require.ErrorContains(t, rows.Err(), "division by zero")
		require.Empty(t, outcomes(rows.Err()))
		require.Zero(t, e.pool.Stat().AcquiredConns())
	})
	t.Run("an error while scanning leaves the outcome open and the connection free", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		set := e.sql("UPDATE accounts SET writer = $1 RETURNING writer")
		for _, mode := range modes {
			pool, w := wired(t, 1, inMode(mode))
			on := e.with(func(g *sqlguard.Guard) { g.DB = pool }).On(resource)
			rows, err := on.Query(e.ctx(33), set, mode.String())
			require.NoError(t, err)
			require.True(t, rows.Next())
			err = rows.Scan(new(int64))
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.ErrorAs(t, err, new(pgx.ScanArgError))
			require.Equal(t, err, rows.Err())
			require.ErrorIs(t, on.QueryRow(e.ctx(33), set, mode.String()).Scan(new(int64)), guard.ErrUnknown)
			require.Equal(t, mode.String(), e.writer(), "in truth it was applied")
			require.Zero(t, pool.Stat().AcquiredConns())
			require.Equal(t, int64(1), w.dials.Load())
		}
	})
}
