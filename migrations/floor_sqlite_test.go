package migrations_test

import (
	"context"
	"database/sql"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

// lite is a migrated SQLite database, and the statements of package stdsql.
type lite struct {
	*sql.DB
	admission, markOf string
}

func newLite(t *testing.T) lite {
	t.Helper()
	db, _ := newSQLite(t)
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), db))
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

// mark returns what refuses: the mark, or the floor.
func (l lite) mark(t *testing.T) (number int64, holder string) {
	t.Helper()
	require.NoError(t, l.QueryRowContext(t.Context(), l.markOf, "account/42").Scan(&number, &holder))
	return number, holder
}

// pruneSQL returns the statements that the migration tells people to use.
func pruneSQL(t *testing.T) []string {
	t.Helper()
	text, err := fs.ReadFile(migrations.FS, "sqlite/00002_floor.sql")
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
	t.Run("the twin: without the floor the stale is admitted again", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		require.True(t, l.admits(t, 6, "b"))
		l.exec(t, l, "DELETE FROM fencepost_marks WHERE number < 10")
		require.True(t, l.admits(t, 5, "a"))
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
	t.Run("a mark below the floor judges alone", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		require.True(t, l.admits(t, 5, "a"))
		l.exec(t, l, "UPDATE fencepost_floor SET number = 10")
		require.True(t, l.admits(t, 5, "a"))
		require.True(t, l.admits(t, 7, "b"))
		require.False(t, l.admits(t, 6, "c"))
	})
	t.Run("the floor never falls", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		l.exec(t, l, "UPDATE fencepost_floor SET number = 999999999999999")
		l.exec(t, l, pruneSQL(t)[0])
		require.Equal(t, int64(999_999_999_999_999), one[int64](t, l.DB, "SELECT number FROM fencepost_floor"))
	})
	t.Run("refuses everything where somebody has deleted it", func(t *testing.T) {
		t.Parallel()
		l := newLite(t)
		l.exec(t, l, "DELETE FROM fencepost_floor")
		require.False(t, l.admits(t, 5, "a"))
		require.ErrorIs(t, l.QueryRowContext(t.Context(), l.markOf, "account/42").Scan(), sql.ErrNoRows)
	})
}

// A token that the floor refuses begins a writing transaction too, or a mark
// could come in before it ends.
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
