package migrations_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
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
	t.Run("refuses an older token and tells the mark", func(t *testing.T) {
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
	t.Run("goes on in the refused caller's next transaction", func(t *testing.T) {
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
