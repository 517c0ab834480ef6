package sqlguard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/sqlguard"
)

var someone = sqlguard.Set{{"writer", "x"}}

// hazard G6
func TestAMissingRowIsNotStale(t *testing.T) {
	t.Parallel()
	t.Run("no row and no newer mark is ErrNoRow, by every door", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("DELETE FROM accounts")
		ctx := e.ctx(33)
		protected := *e.accounts
		protected.Protected = true
		for name, err := range map[string]error{
			"Update": e.accounts.Update(ctx, 42, someone), "Delete": e.accounts.Delete(ctx, 42), "Explain": e.accounts.Explain(ctx, 42),
			"protected": protected.Update(ctx, 42, someone),
		} {
			require.Equal(t, []error{guard.ErrNoRow}, outcomes(err), name)
			require.ErrorContains(t, err, "account/42", name)
		}
	})
	t.Run("the twin, to whom 0 rows are a refusal, calls it stale", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		e.exec("DELETE FROM accounts")
		naive := func(number int64, holder string) error {
			tag, err := e.pool.Exec(t.Context(), e.sql(`UPDATE accounts SET last_token = $1, last_holder = $2
				WHERE id = 42 AND (last_token < $1 OR last_token = $1 AND last_holder = $2)`), number, holder)
			if err == nil && tag.RowsAffected() == 0 {
				err = guard.ErrStale
			}
			return err
		}
		require.ErrorIs(t, naive(33, "h33"), guard.ErrStale, "the twin must be wrong")
		require.NotErrorIs(t, e.accounts.Update(e.ctx(33), 42, someone), guard.ErrStale)
	})
	t.Run("a row that was deleted under a newer token is stale, and not merely missing", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Delete(e.ctx(34), 42))
		require.ErrorIs(t, e.accounts.Update(e.ctx(33), 42, someone), guard.ErrStale)
		require.ErrorIs(t, e.accounts.Update(e.as(34, "impostor"), 42, someone), guard.ErrCollision)
		require.ErrorIs(t, e.accounts.Update(e.ctx(34), 42, someone), guard.ErrNoRow)
		require.ErrorIs(t, e.accounts.Update(e.ctx(35), 42, someone), guard.ErrNoRow)
	})
	t.Run("so is one whose mark was pruned, below the floor", func(t *testing.T) {
		t.Parallel()
		e := newRows(t)
		require.NoError(t, e.accounts.Delete(e.ctx(34), 42))
		e.exec("DELETE FROM marks")
		e.exec("UPDATE " + e.schema + ".floor SET number = 35")
		require.ErrorIs(t, e.accounts.Update(e.ctx(34), 42, someone), guard.ErrStale)
		require.ErrorIs(t, e.accounts.Update(e.ctx(35), 42, someone), guard.ErrNoRow)
	})
}

// meanwhile has something done between a statement and the question for its
// reason, with the context of the question.
type meanwhile struct {
	*pgx.Conn
	do    func(context.Context)
	batch int
}

func (b *meanwhile) SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults {
	if b.batch++; b.batch == 2 {
		b.do(ctx)
	}
	return b.Conn.SendBatch(ctx, batch)
}

func TestAReasonThatHasGone(t *testing.T) {
	t.Parallel()
	e := newRows(t)
	conn, err := e.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer conn.Release()
	asked := func(do func()) error {
		e.exec("DELETE FROM accounts WHERE id = 42")
		return e.table(e.with(func(g *sqlguard.Guard) { g.DB = &meanwhile{Conn: conn.Conn(), do: func(context.Context) { do() }} })).Update(e.ctx(33), 42, someone)
	}
	t.Run("a row that was inserted meanwhile is written after all, with a mark and without", func(t *testing.T) {
		require.NoError(t, asked(func() { e.exec("INSERT INTO accounts (id, last_token) VALUES (42, 1)") }))
		require.NoError(t, asked(func() { e.exec("INSERT INTO accounts (id) VALUES (42)") }))
	})
	t.Run("one that a trigger passes over may have been written elsewhere", func(t *testing.T) {
		e.exec("CREATE FUNCTION " + e.schema + ".no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")
		e.exec("CREATE TRIGGER no BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION " + e.schema + ".no()")
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(e.accounts.Update(e.ctx(34), 42, someone)))
	})
	t.Run("a reason that cannot be asked for promises that nothing was written, and no more", func(t *testing.T) {
		ctx, leave := context.WithCancel(e.ctx(33))
		e.exec("DELETE FROM accounts WHERE id = 42")
		ends := func(asking context.Context) { leave(); <-asking.Done() } // which takes a moment
		accounts := e.table(e.with(func(g *sqlguard.Guard) { g.DB = &meanwhile{Conn: conn.Conn(), do: ends} }))
		err := accounts.Update(ctx, 42, someone)
		require.ErrorIs(t, err, context.Canceled)
		require.Empty(t, outcomes(err))
		require.False(t, errors.Is(err, guard.ErrNoRow))
	})
}
