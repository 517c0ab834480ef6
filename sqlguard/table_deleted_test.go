package sqlguard_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

// hazard G9
func TestADeletedRowsMarkStays(t *testing.T) {
	t.Parallel()
	t.Run("whoever is older inserts nothing, upserts nothing and updates nothing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.claimed(33)
		require.NoError(t, e.accounts.Delete(e.ctx(34), 42))
		for name, err := range map[string]error{
			"Insert": e.accounts.Insert(e.ctx(33), 42, someone), "Upsert": e.accounts.Upsert(e.ctx(33), 42, someone),
			"Update": e.accounts.Update(e.ctx(33), 42, someone), "Delete": e.accounts.Delete(e.ctx(33), 42),
			"Claim": e.accounts.Claim(e.bounded(), tokenOf(33)),
		} {
			require.ErrorIs(t, err, guard.ErrStale, name)
		}
		require.Equal(t, "gone", e.row())
		require.NoError(t, e.accounts.Insert(e.ctx(35), 42, someone))
		require.Equal(t, "35 h35", e.row())
	})
	t.Run("also where the older one waits for the deletion to be committed", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"Insert", "Upsert"} {
			e := newRows(t)
			e.claimed(33)
			tx, err := e.pool.Begin(t.Context())
			require.NoError(t, err)
			b := e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx }))
			require.NoError(t, b.Delete(e.ctx(34), 42))
			ctx := e.ctx(33)
			late := async(func() error {
				if name == "Insert" {
					return e.accounts.Insert(ctx, 42, someone)
				}
				return e.accounts.Upsert(ctx, 42, someone)
			})
			e.awaitWaiting(1)
			require.NoError(t, tx.Commit(t.Context()))
			require.ErrorIs(t, await(t, late), guard.ErrStale, name)
			require.Equal(t, "gone", e.row(), name)
		}
	})
	t.Run("the twin, who looks at the tombstone by its snapshot, inserts behind it", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		tx, err := e.pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), e.sql("DELETE FROM accounts WHERE id = 42"))
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), e.sql("INSERT INTO marks VALUES ($1, 34, 'h34')"), resource)
		require.NoError(t, err)
		ctx := e.bounded()
		late := async(func() error {
			_, err := e.pool.Exec(ctx, e.sql(`INSERT INTO accounts (id, writer, last_token, last_holder) SELECT 42, 'A', 33, 'h33'
				WHERE NOT EXISTS (SELECT FROM marks WHERE resource = $1 AND number > 33)`), resource)
			return err
		})
		e.awaitWaiting(1)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, await(t, late))
		require.Equal(t, "33 h33", e.row(), "the twin must be corrupted: the stale row is there")
	})
}

func TestInsert(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	e.claimed(33)
	err := e.accounts.Insert(e.ctx(34), 42, someone)
	var pg *pgconn.PgError
	require.ErrorAs(t, err, &pg)
	require.Equal(t, "23505", pg.Code)
	require.Empty(t, outcomes(err))
	require.Equal(t, "33 h33", e.row(), "nothing was applied")
	require.NoError(t, e.accounts.Upsert(e.ctx(34), 42, nil), "a set may be empty")
	require.Equal(t, "34 h34", e.row())
	require.Empty(t, e.writer())
}

// Deleted by a token that the marks table admits, and the row does not.
func TestANewerRowIsNotDeleted(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	require.NoError(t, e.accounts.Update(e.ctx(35), 42, someone)) // unclaimed: only the row knows
	require.ErrorIs(t, e.accounts.Delete(e.ctx(34), 42), guard.ErrStale)
	require.ErrorIs(t, e.accounts.Upsert(e.ctx(34), 42, sqlguard.Set{{"writer", "stale"}}), guard.ErrStale)
	require.ErrorIs(t, pgx.BeginFunc(t.Context(), e.pool, func(tx pgx.Tx) error {
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = tx })).Delete(e.ctx(34), 42)
	}), guard.ErrStale)
	require.Equal(t, "x", e.writer())
	require.Equal(t, "35 h35", e.row())
}
