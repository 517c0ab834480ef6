package migrations_test

import (
	"context"
	"database/sql"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// hazard G21
func TestFloor(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	t.Run("judges a resource whose mark was pruned", func(t *testing.T) {
		f.pruned(t)
		refused(t, f.admit(t.Context(), f, "account/42", 5, "a"), "ZF001", "10 ")
		refused(t, f.admit(t.Context(), f, "account/42", 9, "c"), "ZF001", "10 ")
		require.Zero(t, get[int](t, f, f, "SELECT count(*) FROM fence.marks"), "a refusal has left a mark")
	})
	t.Run("admits a token that is equal to it, and what is newer", func(t *testing.T) {
		f.pruned(t)
		require.NoError(t, f.admit(t.Context(), f, "account/42", 10, "c"))
		require.NoError(t, f.admit(t.Context(), f, "account/43", 11, "c"))
		refused(t, f.admit(t.Context(), f, "account/42", 9, "c"), "ZF001", "10 c")
		refused(t, f.admit(t.Context(), f, "account/42", 10, "d"), "ZF002", "10 c")
	})
	t.Run("judges a resource that never had a mark", func(t *testing.T) {
		f.pruned(t)
		refused(t, f.admit(t.Context(), f, "account/new", 9, "a"), "ZF001", "10 ")
	})
	t.Run("does not apply if there is a mark, even a lower one", func(t *testing.T) {
		f.empty(t)
		ctx := t.Context()
		require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
		require.NoError(t, f.exec(ctx, f, "UPDATE fence.floor SET number = 10"))
		require.NoError(t, f.admit(ctx, f, "account/42", 5, "a"))
		require.NoError(t, f.admit(ctx, f, "account/42", 7, "b"))
		refused(t, f.admit(ctx, f, "account/42", 6, "c"), "ZF001", "7 b")
	})
	t.Run("does not hide what is no token", func(t *testing.T) {
		f.pruned(t)
		require.Equal(t, "23514", code(f.admit(t.Context(), f, "account/42", 0, "a")))
		require.Equal(t, "23514", code(f.admit(t.Context(), f, "account/42", -1, "a")))
		require.Equal(t, "23502", code(f.exec(t.Context(), f, "SELECT fence.admit('account/42', NULL, 'a')")))
	})
	t.Run("refuses at once if there is nothing to wait for", func(t *testing.T) {
		f.pruned(t)
		require.NoError(t, f.admit(t.Context(), f.begin(t, pgx.ReadCommitted), "account/42", 11, "c"))
		refused(t, f.exec(t.Context(), f, "SELECT fence.admit('account/42', 5, 'a', -1)"), "ZF001", "10 ")
	})
	t.Run("refuses everything if its row was deleted", func(t *testing.T) {
		f.empty(t)
		require.NoError(t, f.exec(t.Context(), f, "DELETE FROM fence.floor"))
		refused(t, f.admit(t.Context(), f, "account/42", 5, "a"), "ZF001", "0 ")
		require.Equal(t, "0 ''", get[string](t, f, f, "SELECT number || ' ' || quote_literal(holder) FROM fence.report_only('account/42', 5, 'a')"), "as what was not judged")
	})
	t.Run("is one row, of a number", func(t *testing.T) {
		f.empty(t)
		require.Equal(t, "23505", code(f.exec(t.Context(), f, "INSERT INTO fence.floor DEFAULT VALUES")))
		require.Equal(t, "23514", code(f.exec(t.Context(), f, "INSERT INTO fence.floor VALUES (false, 1)")))
		require.Equal(t, "23514", code(f.exec(t.Context(), f, "UPDATE fence.floor SET number = -1")))
		require.Equal(t, "p", get[string](t, f, f, "SELECT relpersistence::text FROM pg_class WHERE oid = $1::text::regclass", f.sql("fence.floor")))
	})
}

// empty empties the fence's tables for the next subtest.
func (f fence) empty(t *testing.T) {
	t.Helper()
	require.NoError(t, f.exec(t.Context(), f, "TRUNCATE fence.marks, fence.leases, fence.waiters, fence.floor; INSERT INTO fence.floor DEFAULT VALUES"))
}

// pruned makes the fence empty but for a floor of 10: the mark of account/42, token (6,
// b), was pruned.
func (f fence) pruned(t *testing.T) {
	t.Helper()
	f.empty(t)
	require.NoError(t, f.admit(t.Context(), f, "account/42", 6, "b"))
	require.Equal(t, 1, get[int](t, f, f, "SELECT fence.prune(10)"))
}

// The other functions that read the mark read the floor too.
func TestFloorOfTheOtherFunctions(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	const high = 900_000_000_000_000 // another server's clock may have raised it that far
	raised := func(t *testing.T) {
		f.empty(t)
		require.NoError(t, f.exec(t.Context(), f, "UPDATE fence.floor SET number = $1", int64(high)))
	}
	t.Run("report_only returns it as the mark", func(t *testing.T) {
		f.pruned(t)
		tx := f.begin(t, pgx.ReadCommitted)
		require.Equal(t, "10 ''", get[string](t, f, tx, "SELECT number || ' ' || quote_literal(holder) FROM fence.report_only('account/42', 5, 'a')"))
		require.Zero(t, get[int](t, f, tx, "SELECT count(*) FROM fence.report_only('account/42', 10, 'a')"))
	})
	t.Run("mint returns a number above it", func(t *testing.T) {
		raised(t)
		require.Equal(t, int64(high+1), get[int64](t, f, f, "SELECT fence.mint('account/42', 'a')"))
		require.NoError(t, f.admit(t.Context(), f, "account/42", high+1, "a"))
	})
	t.Run("what acquire grants is admitted", func(t *testing.T) {
		raised(t)
		n := get[int64](t, f, f, "SELECT number FROM fence.acquire('account/42', 'a', '1 hour')")
		require.GreaterOrEqual(t, n, int64(high))
		require.NoError(t, f.admit(t.Context(), f, "account/42", n, "a"))
		require.NoError(t, f.exec(t.Context(), f, "UPDATE fence.leases SET number = 1, expires_at = now()"))
		require.GreaterOrEqual(t, get[int64](t, f, f, "SELECT number FROM fence.acquire('account/43', 'b', '1 hour')"), int64(high))
	})
	t.Run("evict ends no session for a token below it", func(t *testing.T) {
		f.pruned(t)
		tx := f.begin(t, pgx.ReadCommitted)
		require.NoError(t, f.exec(t.Context(), tx, "SELECT pg_advisory_xact_lock_shared(fence.lock_key('account/42'))"))
		require.Zero(t, get[int](t, f, f, "SELECT fence.evict('account/42', 9)"))
	})
}

// lite is a migrated SQLite database, and the statements of package stdsql.
type lite struct {
	*sql.DB
	admission, markOf string
}

func newLite(t *testing.T) lite {
	t.Helper()
	db, _ := newSQLite(t)
	require.NoError(t, onSQLite.Up(t.Context(), db))
	text := func(file string) string {
		b, err := os.ReadFile("../sqlguard/stdsql/" + file)
		require.NoError(t, err)
		return string(b)
	}
	return lite{db, text("sqlite_admit.sql"), text("sqlite_mark.sql")}
}

// executor is a database or a connection.
type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func (l lite) exec(t *testing.T, on executor, query string, args ...any) int64 {
	t.Helper()
	result, err := on.ExecContext(t.Context(), query, args...)
	require.NoError(t, err)
	n, err := result.RowsAffected()
	require.NoError(t, err)
	return n
}

func (l lite) admits(t *testing.T, number int64, holder string) bool {
	t.Helper()
	return l.exec(t, l, l.admission, "account/42", number, holder) == 1
}

// mark returns the mark, or the floor if there is no mark.
func (l lite) mark(t *testing.T) (number int64, holder string) {
	t.Helper()
	require.NoError(t, l.QueryRowContext(t.Context(), l.markOf, "account/42").Scan(&number, &holder))
	return number, holder
}

// pruneSQL returns the statements in the migration's comment.
func pruneSQL(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("sqlite/00001_marks.sql")
	require.NoError(t, err)
	var statements []string
	for _, found := range regexp.MustCompile(`(?m)^--   (.*;)$`).FindAllStringSubmatch(string(text), -1) {
		statements = append(statements, found[1])
	}
	require.Len(t, statements, 2)
	return statements
}

// hazard G21
func TestFloorOfSQLite(t *testing.T) {
	t.Parallel()
	now := func() int64 { return time.Now().UnixMicro() / 10 }
	const day = 24 * 60 * 60 * 100_000
	t.Run("what was pruned stays refused", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		old := now() - 31*day
		require.True(t, l.admits(t, old, "b"))
		for _, statement := range pruneSQL(t) {
			require.Equal(t, int64(1), l.exec(t, l, statement))
		}
		require.False(t, l.admits(t, old-1, "a"))
		require.False(t, l.admits(t, old, "b"), "its lease is too old")
		floor, holder := l.mark(t)
		require.Empty(t, holder)
		require.InDelta(t, now()-30*day, floor, day)
		require.Zero(t, one[int](t, l.DB, "SELECT count(*) FROM fencepost_marks"))

		require.False(t, l.admits(t, floor-1, "c"))
		require.True(t, l.admits(t, floor, "c"))
		require.False(t, l.admits(t, floor, "d"))
		number, holder := l.mark(t)
		require.Equal(t, floor, number)
		require.Equal(t, "c", holder)
	})
	t.Run("what is newer stays as it is", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		young := now() - 29*day
		require.True(t, l.admits(t, young, "b"))
		for _, statement := range pruneSQL(t) {
			l.exec(t, l, statement)
		}
		require.True(t, l.admits(t, young, "b"))
		require.False(t, l.admits(t, young-1, "a"))
	})
	t.Run("the floor never falls", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		l.exec(t, l, "UPDATE fencepost_floor SET number = 999999999999999")
		l.exec(t, l, pruneSQL(t)[0])
		require.Equal(t, int64(999_999_999_999_999), one[int64](t, l.DB, "SELECT number FROM fencepost_floor"))
	})
	t.Run("refuses everything if its row was deleted", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		l.exec(t, l, "DELETE FROM fencepost_floor")
		require.False(t, l.admits(t, 5, "a"))
		require.ErrorIs(t, l.QueryRowContext(t.Context(), l.markOf, "account/42").Scan(), sql.ErrNoRows)
	})
}

// A token that the floor refuses begins a write transaction too. Otherwise a mark could
// be inserted before it ends.
func TestRefusalByTheFloorOfSQLiteTakesTheWriteLock(t *testing.T) {
	t.Parallel()
	l := newLite(t)
	l.exec(t, l, "UPDATE fencepost_floor SET number = 10")
	conn, err := l.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	l.exec(t, conn, "BEGIN")
	require.Zero(t, l.exec(t, conn, l.admission, "account/42", 5, "a"))
	_, err = l.ExecContext(t.Context(), l.admission, "account/42", 11, "b")
	require.ErrorContains(t, err, "database is locked")
	l.exec(t, conn, "ROLLBACK")
}

func TestFloorOfSQLiteIsOneRow(t *testing.T) {
	t.Parallel()
	l := newLite(t)
	for _, bad := range []string{
		"INSERT INTO fencepost_floor VALUES (2, 1)", "INSERT INTO fencepost_floor VALUES (1, 1)",
		"UPDATE fencepost_floor SET number = -1", "UPDATE fencepost_floor SET number = 1000000000000000", "UPDATE fencepost_floor SET number = 'x'",
	} {
		_, err := l.ExecContext(t.Context(), bad)
		require.Error(t, err, strings.Fields(bad))
	}
}
