package migrations_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/migrations"
)

func TestMarksOfSQLite(t *testing.T) {
	t.Parallel()
	db, _ := newSQLite(t)
	require.NoError(t, migrations.Set{Dialect: migrations.SQLite}.Up(t.Context(), db))
	insert := func(resource, number, holder any) error {
		_, err := db.ExecContext(t.Context(), "INSERT INTO fencepost_marks VALUES (?, ?, ?)", resource, number, holder)
		return err
	}
	for i, resource := range []string{"account/42", "account/42 ", "ACCOUNT/42", "größe"} {
		require.NoError(t, insert(resource, i+1, "a"), "names compare byte by byte")
	}
	for _, bad := range [][3]any{
		{"account/42", 9, "a"}, {"", 1, "a"}, {"x", 0, "a"}, {"x", 1, ""}, {nil, 1, "a"}, {"x", nil, "a"}, {"x", 1, nil},
		{"x", int64(1_000_000_000_000_000), "a"}, {"x", "nine", "a"}, {strings.Repeat("ß", 101), 1, "a"}, {"x", 1, strings.Repeat("ß", 101)},
	} {
		require.Error(t, insert(bad[0], bad[1], bad[2]), "%v", bad)
	}
	// hazard G14
	require.NoError(t, insert("x", "9", "a"))
	require.Equal(t, 1, one[int](t, db, "SELECT number < 10 FROM fencepost_marks WHERE resource = 'x'"))
	require.Equal(t, 0, one[int](t, db, "SELECT '9' < '10'"), "the twin: as text")
}

func TestUpOfSQLiteWaitsAsLongAsItsContext(t *testing.T) {
	t.Parallel()
	db, _ := newSQLite(t)
	writer, err := db.Conn(t.Context())
	require.NoError(t, err)
	_, err = writer.ExecContext(t.Context(), "BEGIN EXCLUSIVE")
	require.NoError(t, err)
	set := migrations.Set{Dialect: migrations.SQLite}

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = set.Up(ctx, db)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "migrations: sqlite: ")

	wait := later(t, func() error { return set.Up(t.Context(), db) })
	_, err = writer.ExecContext(t.Context(), "COMMIT")
	require.NoError(t, err)
	require.NoError(t, wait())
	require.NoError(t, writer.Close())
}
