package migrations_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestBound(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	limit := func(t *testing.T, tx db) string { return get[string](t, f, tx, "SHOW lock_timeout") }
	for name, c := range map[string]struct{ statement, ends string }{
		"admit":   {"SELECT fence.admit($1, 6, 'b', $2)", "55P03"},
		"observe": {"SELECT fence.observe($1, 6, 'b', $2)", ""},
		"mint":    {"SELECT fence.mint($1, 'b', $2)", "55P03"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
			t.Run("ends the wait for older writers", func(t *testing.T) {
				tx := f.begin(t, pgx.ReadCommitted)
				savepoint, err := tx.Begin(ctx)
				require.NoError(t, err)
				require.Equal(t, c.ends, code(f.exec(ctx, savepoint, c.statement, "TestBound/"+name, 20)))
				require.NoError(t, savepoint.Rollback(ctx))
				require.Equal(t, "0", limit(t, tx))
			})
			t.Run("does not lengthen the session's own limit", func(t *testing.T) {
				tx := f.begin(t, pgx.ReadCommitted)
				require.NoError(t, f.exec(ctx, tx, "SET LOCAL lock_timeout = '20ms'"))
				require.Equal(t, c.ends, code(f.exec(ctx, tx, c.statement, "TestBound/"+name, 3_600_000)))
			})
			t.Run("leaves the session's limit as it was", func(t *testing.T) {
				for _, own := range []string{"0", "20ms", "7s", "2min", "1h", "1d"} {
					tx := f.begin(t, pgx.ReadCommitted)
					require.NoError(t, f.exec(ctx, tx, "SET LOCAL lock_timeout = '"+own+"'"))
					require.NoError(t, f.exec(ctx, tx, c.statement, t.Name(), 5000))
					require.Equal(t, own, limit(t, tx))
					require.NoError(t, tx.Rollback(ctx))
				}
			})
		})
	}
	t.Run("does not bound writers of the mark's own token, nor the writes that follow", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		newer, peer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
		wait := later(t, func() error { return f.exec(ctx, peer, "SELECT fence.admit($1, 5, 'a', 1)", t.Name()) })
		f.blocked(t, peer.Conn())
		require.NoError(t, f.exec(ctx, f, "SELECT pg_sleep(0.05)"))
		require.NoError(t, newer.Commit(ctx))
		require.Equal(t, "ZF001", code(wait()))
	})
}

func TestBoundBelowZeroRaisesNoMark(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	claimed := func(t *testing.T, on db, number int64, holder string) error {
		t.Helper()
		return f.exec(ctx, on, "SELECT fence.admit($1, $2, $3, -1)", t.Name(), number, holder)
	}
	claimFirst := func(t *testing.T, err error) {
		t.Helper()
		var refusal *pgconn.PgError
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, "ZF004", refusal.Code)
		require.Equal(t, "Admit the token in a transaction of its own first.", refusal.Hint)
	}
	t.Run("neither the first", func(t *testing.T) {
		t.Parallel()
		claimFirst(t, claimed(t, f, 5, "a"))
		require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks WHERE resource = $1", t.Name()))
	})
	t.Run("nor a newer one, and waits for nobody", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		claimFirst(t, claimed(t, f, 6, "b"))
		n, _ := f.mark(t, t.Name())
		require.Equal(t, int64(5), n)
	})
	t.Run("nor while it observes", func(t *testing.T) {
		t.Parallel()
		claimFirst(t, f.exec(ctx, f, "SELECT fence.observe($1, 6, 'b', -1)", t.Name()))
	})
	t.Run("and judges what needs no raise as ever", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
		for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
			tx := f.begin(t, level)
			require.NoError(t, claimed(t, tx, 6, "b"))
			require.NoError(t, tx.Commit(ctx))
		}
		refused(t, claimed(t, f, 5, "a"), "ZF001", "6 b")
		refused(t, claimed(t, f, 6, "a"), "ZF002", "6 b")
	})
}
