package main

import (
	"database/sql"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

// hazard M1
// A server with read_only is not known to fence: it may be a replica.
func TestAnEngineThatDoesNotFenceIsRefused(t *testing.T) {
	t.Parallel()
	root := testenv.OwnMariaDB(t, "--read-only=1")
	db, err := sql.Open("mysql", root)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "CREATE DATABASE shop")
	require.NoError(t, err)
	const refused = "guard: the database is not known to fence, nothing applied: MariaDB 10."
	run := func(args ...string) finished { return execute(t, append(args, "--mysql", root+"shop")...) }
	trusted := func(args ...string) finished { return run(append(args, "--dangerously-trust-engine")...) }

	requireFailed(t, run("migrate", "up"), 2, refused)
	done := run("migrate", "check")
	require.Equal(t, 1, done.status, done.err)
	require.Contains(t, done.out, "is not known to fence: read_only or innodb_read_only is set")
	done = trusted("migrate", "up")
	require.Zero(t, done.status, done.err)

	_, err = db.ExecContext(t.Context(), "INSERT INTO shop.fencepost_marks VALUES ('account/42', 999999999999999, 'forged')")
	require.NoError(t, err)
	require.Zero(t, run("marks", "list").status, "reading needs no fence")
	require.Zero(t, run("marks", "prune", "--older-than", "720h", "--dry-run").status)
	requireFailed(t, run("marks", "prune", "--older-than", "720h"), 2, refused)
	requireFailed(t, run("marks", "reset", "account/42", "--confirm", "account/42"), 2, refused)
	require.Zero(t, trusted("marks", "prune", "--older-than", "720h").status)
	require.Zero(t, trusted("marks", "reset", "account/42", "--confirm", "account/42").status)
}

// A claim shares the floor's row until it has raised its mark.
func TestMarksPruneOnMySQLWaitsForClaims(t *testing.T) {
	t.Parallel()
	m := newMarkedMySQL(t)
	claim, err := m.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = claim.Rollback() }()
	var floor int64
	require.NoError(t, claim.QueryRowContext(t.Context(), "SELECT number FROM fencepost_floor LOCK IN SHARE MODE").Scan(&floor))
	cmd, _ := command(t, m.args("prune", "--older-than", "720h")...)
	require.NoError(t, cmd.Start())
	time.Sleep(1500 * time.Millisecond) // longer than one of its tries
	require.Zero(t, m.floor())
	require.NoError(t, claim.Commit())
	require.NoError(t, cmd.Wait())
	require.Positive(t, m.floor())
}
