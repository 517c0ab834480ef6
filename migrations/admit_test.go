package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
)

func TestAdmit(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	admit := func(t *testing.T, number int64, holder string) error {
		t.Helper()
		return f.admit(t.Context(), f, t.Name(), number, holder)
	}
	marked := func(t *testing.T, number int64, holder string) {
		t.Helper()
		n, h := f.mark(t, t.Name())
		require.Equal(t, number, n)
		require.Equal(t, holder, h)
	}
	t.Run("admits the first token, and remembers it", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, admit(t, 5, "a"))
		marked(t, 5, "a")
	})
	t.Run("admits the same token again", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, admit(t, 5, "a"))
		require.NoError(t, admit(t, 5, "a"))
		marked(t, 5, "a")
	})
	t.Run("admits a newer token and raises the mark", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, admit(t, 5, "a"))
		require.NoError(t, admit(t, 7, "b"))
		marked(t, 7, "b")
	})
	t.Run("refuses an older token and returns the mark", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, admit(t, 6, "b b"))
		refused(t, admit(t, 5, "a"), "ZF001", "6 b b")
		refused(t, admit(t, 5, "b b"), "ZF001", "6 b b")
		marked(t, 6, "b b")
	})
	t.Run("refuses an equal number of another holder", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, admit(t, 6, "b"))
		refused(t, admit(t, 6, "a"), "ZF002", "6 b")
		refused(t, admit(t, 6, "b "), "ZF002", "6 b")
		refused(t, admit(t, 6, "B"), "ZF002", "6 b")
		marked(t, 6, "b")
	})
	t.Run("works in the refused caller's next transaction", func(t *testing.T) {
		t.Parallel()
		conn := f.conn(t)
		require.NoError(t, f.admit(t.Context(), conn, t.Name(), 6, "b"))
		refused(t, f.admit(t.Context(), conn, t.Name(), 5, "a"), "ZF001", "6 b")
		require.NoError(t, f.admit(t.Context(), conn, t.Name(), 7, "a"))
	})
	t.Run("forgets a raise that is rolled back", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, admit(t, 5, "a"))
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(t.Context(), tx, t.Name(), 6, "b"))
		require.NoError(t, tx.Rollback(t.Context()))
		marked(t, 5, "a")
		require.NoError(t, admit(t, 5, "a"))
	})
}

func TestAdmitRefusesWhatIsNoToken(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	require.NoError(t, f.admit(t.Context(), f, "marked", 5, "a"))
	for _, c := range []struct {
		resource, number, holder any
		sqlstate                 string
	}{
		{"", 1, "a", "23514"}, {"x", 0, "a", "23514"}, {"x", -1, "a", "23514"}, {"x", 1, "", "23514"},
		{"x", int64(1_000_000_000_000_000), "a", "23514"}, {"x\ny", 1, "a", "23514"}, {"x", 1, "a\ny", "23514"},
		{strings.Repeat("x", 201), 1, "a", "23514"}, {"x", 1, strings.Repeat("x", 201), "23514"},
		{nil, 1, "a", "23502"}, {"x", nil, "a", "23502"}, {"x", 1, nil, "23502"},
		{"marked", nil, "a", "ZF001"}, {"marked", 5, nil, "ZF002"}, {"marked", 5, "", "ZF002"},
	} {
		err := f.exec(t.Context(), f, "SELECT fence.admit($1, $2, $3)", c.resource, c.number, c.holder)
		require.Equal(t, c.sqlstate, code(err), "%v: %v", c, err)
	}
	require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.marks"))
}

func TestAdmissionLastsForItsTransaction(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	setting := func(tx db) string {
		return get[string](t, f, tx, "SELECT coalesce(current_setting('fencepost.admitted', true), '')")
	}
	conn := f.conn(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	for range 3 {
		require.NoError(t, f.admit(t.Context(), tx, "account/1", 5, "a"))
		require.NoError(t, f.admit(t.Context(), tx, "account/10", 5, "a"))
	}
	lines := "\n" + f.schema + "/account/1\n" + f.schema + "/account/10\n"
	require.Equal(t, lines, setting(tx), "one line for each resource")

	savepoint, err := tx.Begin(t.Context())
	require.NoError(t, err)
	require.NoError(t, f.admit(t.Context(), savepoint, "account/2", 5, "a"))
	require.NoError(t, savepoint.Rollback(t.Context()))
	require.Equal(t, lines, setting(tx), "taken back with its savepoint")
	require.NoError(t, f.admit(t.Context(), f, "account/2", 4, "b"), "its lock is gone too")

	require.NoError(t, tx.Commit(t.Context()))
	require.Empty(t, setting(conn), "the next transaction of the session is not admitted")
}

// The order in which writers wait for each other.
func TestOrderOfAdmissions(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	t.Run("a newer token waits for the writers of the older one", func(t *testing.T) {
		t.Parallel()
		older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.admit(ctx, older, t.Name(), 5, "a"))
		wait := pgtest.Later(t, func() error { return f.admit(ctx, newer, t.Name(), 6, "b") })
		f.blocked(t, newer.Conn())
		require.NoError(t, older.Commit(ctx))
		require.NoError(t, wait())
	})
	for name, c := range map[string]struct{ marked, gaveUp bool }{
		"an older token that waited for the newer one is refused":                    {marked: true},
		"an older token that waited is admitted if the newer one gave up":            {marked: true, gaveUp: true},
		"two first tokens come one after the other, and the older is refused":        {},
		"two first tokens come one after the other, and the older alone is admitted": {gaveUp: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.marked {
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
			}
			older, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
			require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
			wait := pgtest.Later(t, func() error { return f.admit(ctx, older, t.Name(), 5, "a") })
			f.blocked(t, older.Conn()) // it has read the mark, and waits for the lock
			if c.gaveUp {
				require.NoError(t, newer.Rollback(ctx))
				require.NoError(t, wait())
				return
			}
			require.NoError(t, newer.Commit(ctx))
			refused(t, wait(), "ZF001", "6 b")
		})
	}
	// hazard G12
	t.Run("writers of one token do not wait for each other", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		for range 5 {
			require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		}
	})
	t.Run("two schemas do not wait for each other", func(t *testing.T) {
		t.Parallel()
		other := newFence(t)
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		require.NoError(t, other.admit(ctx, other, t.Name(), 6, "b"))
	})
	t.Run("two resources do not wait for each other", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name()+"/1", 5, "a"))
		require.NoError(t, f.admit(ctx, f, t.Name()+"/2", 5, "a"))
	})
}

// The naive twin has no second read under the lock, and admits the older token.
func TestAdmitReadsAgainUnderTheLock(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	require.NoError(t, f.exec(ctx, f, `CREATE FUNCTION fence.naive(r text, t bigint, h text) RETURNS boolean LANGUAGE plpgsql AS $$
		BEGIN
			PERFORM pg_advisory_xact_lock_shared(fence.lock_key(r)) FROM fence.marks WHERE resource = r AND number = t AND holder = h;
			RETURN FOUND;
		END $$`))
	require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
	older, naive, newer := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, newer, "account/42", 6, "b"))

	wait := pgtest.Later(t, func() error { return f.admit(ctx, older, "account/42", 5, "a") })
	admitted := false
	waitNaive := pgtest.Later(t, func() error {
		return naive.QueryRow(ctx, f.sql("SELECT fence.naive('account/42', 5, 'a')")).Scan(&admitted)
	})
	f.blocked(t, older.Conn())
	f.blocked(t, naive.Conn())
	require.NoError(t, newer.Commit(ctx))
	refused(t, wait(), "ZF001", "6 b")
	require.NoError(t, waitNaive())
	require.True(t, admitted, "the twin shows nothing")
}

func TestBound(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	limit := func(t *testing.T, tx db) string { return get[string](t, f, tx, "SHOW lock_timeout") }
	for name, c := range map[string]struct{ statement, ends string }{
		"admit":       {"SELECT fence.admit($1, 6, 'b', $2)", "55P03"},
		"report_only": {"SELECT fence.report_only($1, 6, 'b', $2)", ""},
		"mint":        {"SELECT fence.mint($1, 'b', $2)", "55P03"},
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
				for _, own := range []string{"0", "120001ms", "121s", "2min", "1h", "1d"} {
					tx := f.begin(t, pgx.ReadCommitted)
					require.NoError(t, f.exec(ctx, tx, "SET LOCAL lock_timeout = '"+own+"'"))
					require.NoError(t, f.exec(ctx, tx, c.statement, t.Name(), 500_000))
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
		wait := pgtest.Later(t, func() error { return f.exec(ctx, peer, "SELECT fence.admit($1, 5, 'a', 1)", t.Name()) })
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
	t.Run("nor a newer one, and does not wait", func(t *testing.T) {
		t.Parallel()
		require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, f.begin(t, pgx.ReadCommitted), t.Name(), 5, "a"))
		claimFirst(t, claimed(t, f, 6, "b"))
		n, _ := f.mark(t, t.Name())
		require.Equal(t, int64(5), n)
	})
	t.Run("nor in report_only", func(t *testing.T) {
		t.Parallel()
		claimFirst(t, f.exec(ctx, f, "SELECT fence.report_only($1, 6, 'b', -1)", t.Name()))
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

// hazard G7
// hazard G23
func TestAdmitUnderAFixedSnapshot(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	ctx := t.Context()
	for _, level := range []pgx.TxIsoLevel{pgx.RepeatableRead, pgx.Serializable} {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			t.Run("a first token must be claimed before the snapshot", func(t *testing.T) {
				t.Parallel()
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 5, "a"), "ZF004", "")
				require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks WHERE resource = $1", t.Name()))
			})
			t.Run("a newer token must be claimed before the snapshot", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 6, "b"), "ZF004", "")
				n, _ := f.mark(t, t.Name())
				require.Equal(t, int64(5), n)
			})
			t.Run("nor is anything minted", func(t *testing.T) {
				t.Parallel()
				refused(t, f.exec(ctx, f.begin(t, level), "SELECT fence.mint($1, 'a')", t.Name()), "ZF004", "")
			})
			t.Run("a claimed token is admitted, and its peers beside it", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				for range 3 {
					tx := f.begin(t, level)
					require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
					require.Contains(t, get[string](t, f, tx, "SELECT current_setting('fencepost.admitted')"), t.Name())
				}
			})
			t.Run("a stale token is refused", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 5, "a"), "ZF001", "6 b")
				refused(t, f.admit(ctx, f.begin(t, level), t.Name(), 6, "a"), "ZF002", "6 b")
			})
			t.Run("a token that became stale since the snapshot gets a serialization failure", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				tx := f.begin(t, level)
				require.Equal(t, int64(5), get[int64](t, f, tx, "SELECT number FROM fence.marks WHERE resource = $1", t.Name()))
				require.NoError(t, f.admit(ctx, f, t.Name(), 6, "b"))
				require.Equal(t, int64(5), get[int64](t, f, tx, "SELECT number FROM fence.marks WHERE resource = $1", t.Name()), "the twin: a plain read sees the old mark")
				require.Equal(t, "40001", code(f.admit(ctx, tx, t.Name(), 5, "a")))
			})
			t.Run("a token that becomes stale while it waits gets a serialization failure", func(t *testing.T) {
				t.Parallel()
				require.NoError(t, f.admit(ctx, f, t.Name(), 5, "a"))
				newer, tx := f.begin(t, pgx.ReadCommitted), f.begin(t, level)
				require.NoError(t, f.admit(ctx, newer, t.Name(), 6, "b"))
				wait := pgtest.Later(t, func() error { return f.admit(ctx, tx, t.Name(), 5, "a") })
				f.blocked(t, tx.Conn())
				require.NoError(t, newer.Commit(ctx))
				require.Equal(t, "40001", code(wait()))
			})
		})
	}
	t.Run("READ UNCOMMITTED, which PostgreSQL runs as READ COMMITTED, may raise", func(t *testing.T) {
		t.Parallel()
		tx := f.begin(t, pgx.ReadUncommitted)
		require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
		require.NoError(t, f.admit(ctx, tx, t.Name(), 5, "a"))
		require.NoError(t, tx.Commit(ctx))
	})
}
