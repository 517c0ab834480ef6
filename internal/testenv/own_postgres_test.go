package testenv_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

func TestAnOwnPostgresKeepsWhatWasCommitted(t *testing.T) {
	t.Parallel()
	server := testenv.OwnPostgres(t, "wal_writer_delay=10s", "work_mem=1MB")
	conn := open(t, server.URL())
	require.Equal(t, []string{"1MB"}, column[string](t, conn, "SHOW work_mem"))
	run(t, conn, "CREATE TABLE kept (synchronous boolean)")
	run(t, conn, "INSERT INTO kept VALUES (true)")
	run(t, conn, "SET synchronous_commit = off")
	run(t, conn, "INSERT INTO kept VALUES (false)")
	server.Kill()
	server.Kill()
	require.Error(t, conn.Ping(t.Context()))
	server.Restart()
	require.Equal(t, []bool{true}, column[bool](t, open(t, server.URL()), "SELECT synchronous FROM kept"))
}

func TestAStandbyFollowsUntilItIsCutOff(t *testing.T) {
	t.Parallel()
	primary := testenv.OwnPostgres(t)
	run(t, open(t, primary.URL()), "CREATE TABLE numbers (n bigint)")
	standby := primary.Standby("hot_standby_feedback=on")
	run(t, open(t, primary.URL()), "INSERT INTO numbers VALUES (1)")
	primary.CaughtUp()
	require.Equal(t, []int64{1}, numbers(t, open(t, standby.URL())))
	standby.CutOff()
	run(t, open(t, primary.URL()), "INSERT INTO numbers VALUES (2)")
	standby.Restart()
	require.Equal(t, []int64{1}, numbers(t, open(t, standby.URL())), "it stays cut off")

	standby.Promote()
	run(t, open(t, standby.URL()), "INSERT INTO numbers VALUES (3)")
	standby.Restart()
	require.Equal(t, []int64{1, 3}, numbers(t, open(t, standby.URL())))
	require.Equal(t, []int64{1, 2}, numbers(t, open(t, primary.URL())), "nobody has told it")
}

func numbers(t *testing.T, conn *pgx.Conn) []int64 {
	t.Helper()
	return column[int64](t, conn, "SELECT n FROM numbers ORDER BY n")
}
