package main

import (
	"bytes"
	"database/sql"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// A process that waits for another one's migration can be interrupted, and leaves no
// lock and no half of a migration.
func TestMigrateIsInterrupted(t *testing.T) {
	t.Parallel()
	server := testenv.Database(t)
	db, err := sql.Open("pgx", server)
	require.NoError(t, err)
	defer db.Close()
	holder, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer holder.Close()
	_, err = holder.ExecContext(t.Context(), "SELECT pg_advisory_lock(hashtextextended('fencepost', 9651))")
	require.NoError(t, err)

	cmd, _ := command(t, "migrate", "up", "--postgres", server)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool {
		var waits bool
		err := db.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "+
			"AND application_name = 'fencepost migrate' AND wait_event_type = 'Lock')").Scan(&waits)
		return err == nil && waits
	}, eventually, 5*time.Millisecond)
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, 130, cmd.ProcessState.ExitCode(), errs.String())
	require.Contains(t, errs.String(), "fencepost: ended by signal: interrupt")

	_, err = holder.ExecContext(t.Context(), "SELECT pg_advisory_unlock_all()")
	require.NoError(t, err)
	require.Zero(t, execute(t, "migrate", "up", "--postgres", server).status)
}
