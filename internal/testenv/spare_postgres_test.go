package testenv_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestACrashLosesWhatWasNotFlushedAndNothingElse(t *testing.T) {
	t.Parallel()
	spare := testenv.SparePostgres(t)
	conn := open(t, spare.URL())
	run(t, conn, "CREATE TABLE kept (round int, synchronous boolean)")
	for round := range 2 {
		run(t, conn, "SET synchronous_commit = on")
		run(t, conn, "INSERT INTO kept VALUES ($1, true)", round)
		run(t, conn, "SET synchronous_commit = off")
		run(t, conn, "INSERT INTO kept VALUES ($1, false)", round)
		require.Equal(t, []bool{false, true}, column[bool](t, open(t, spare.URL()),
			"SELECT synchronous FROM kept WHERE round = $1 ORDER BY 1", round), "both are committed and seen by others")
		// Three times as long as the WAL writer waits where it is not stopped.
		time.Sleep(600 * time.Millisecond)

		spare.Crash()

		require.Error(t, conn.Ping(t.Context()), "the connection outlived the server")
		conn = open(t, spare.URL())
		require.Equal(t, []bool{true}, column[bool](t, conn,
			"SELECT synchronous FROM kept WHERE round = $1", round))
	}
}

func TestTheSparePostgresIsOneTestsAtATime(t *testing.T) {
	t.Parallel()
	var inside atomic.Int32
	for range 3 {
		t.Run("alone, in a database without tables", func(t *testing.T) {
			t.Parallel()
			spare := testenv.SparePostgres(t)
			require.EqualValues(t, 1, inside.Add(1))
			defer inside.Add(-1)
			conn := open(t, spare.URL())
			require.Empty(t, column[string](t, conn,
				"SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
			require.Equal(t, []string{"on"}, column[string](t, conn, "SHOW fsync"))
			run(t, conn, "CREATE TABLE left_behind ()")
		})
	}
}

func open(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

func run(t *testing.T, conn *pgx.Conn, sql string, args ...any) {
	t.Helper()
	_, err := conn.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

func column[T any](t *testing.T, conn *pgx.Conn, sql string, args ...any) []T {
	t.Helper()
	rows, err := conn.Query(t.Context(), sql, args...)
	require.NoError(t, err)
	values, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(t, err)
	return values
}
