package migrations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// publisher is a server whose tables are replicated logically. It runs beside
// the shared one, as its user, and for as long as this test, or this test's
// connection to that, lives: then the pipe to it is closed. What cancels that
// is a signal to all of the session's processes.
const publisher = `
trap : INT QUIT
umask 077
mkdir "$FOLDER" && cd "$FOLDER" || exit
initdb -D data -U postgres -A trust -E UTF8 --locale=C --no-sync >log
postgres -D data -p 5432 -c listen_addresses= -c unix_socket_directories="$FOLDER" -c fsync=off -c wal_level=logical >>log 2>&1 </dev/null &
cat >/dev/null
kill -QUIT $!
wait
rm -rf "$FOLDER"`

// published starts the publisher and returns what runs SQL there.
func (f fence) published(t *testing.T) (psql func(text string) string) {
	t.Helper()
	conn := f.conn(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	command := literal(f.shell(t, ctx, publisher))
	ended := make(chan error, 1)
	go func() { ended <- f.exec(ctx, conn, "COPY (SELECT FROM pg_sleep(600)) TO PROGRAM "+command) }()
	t.Cleanup(func() {
		cancel()
		require.Error(t, <-ended)
		require.Eventually(t, func() bool {
			return f.scriptContext(t, context.WithoutCancel(t.Context()), `ls -d "$FOLDER" || true`) != "/tmp/"+f.schema
		}, patience, 50*time.Millisecond, "it runs on")
	})
	require.Eventually(t, func() bool {
		return f.script(t, `pg_isready -q -h "$FOLDER" -p 5432 && echo yes || true`) == "yes"
	}, patience, 50*time.Millisecond)
	return func(text string) string {
		t.Helper()
		return f.script(t, `psql -h "$FOLDER" -p 5432 -U postgres -d postgres -qtA -v ON_ERROR_STOP=1 <<'END' || echo failed`+"\n"+f.sql(text)+"\nEND")
	}
}

func TestLogicalReplicationIntoAProtectedTable(t *testing.T) {
	t.Parallel()
	f := newFence(t)
	psql := f.published(t)
	const table = "CREATE TABLE fence.accounts (id bigint PRIMARY KEY, writer text)"
	require.Empty(t, psql("CREATE SCHEMA "+f.schema+"; "+table+"; CREATE PUBLICATION accounts FOR TABLE fence.accounts; INSERT INTO fence.accounts VALUES (42, 'copied')"))
	run(t, f, f, table)
	f.protect(t, "fence.accounts", account)
	run(t, f, f, "CREATE SUBSCRIPTION "+f.schema+" CONNECTION 'host=/tmp/"+f.schema+" port=5432 user=postgres dbname=postgres' PUBLICATION accounts")
	f.atEnd(t, "DROP SUBSCRIPTION "+f.schema)
	rows := func(want string) {
		t.Helper()
		require.Eventually(t, func() bool {
			return get[string](t, f, f, "SELECT coalesce(string_agg(id || ' ' || writer, ', ' ORDER BY id), '') FROM fence.accounts") == want
		}, patience, 20*time.Millisecond, want)
	}
	errors := func() int {
		return get[int](t, f, f, "SELECT apply_error_count FROM pg_stat_subscription_stats WHERE subname = $1", f.schema)
	}
	rows("42 copied")
	require.Empty(t, psql("INSERT INTO fence.accounts VALUES (43, 'applied'); UPDATE fence.accounts SET writer = 'applied' WHERE id = 42"))
	rows("42 applied, 43 applied")
	require.Empty(t, psql("TRUNCATE fence.accounts; INSERT INTO fence.accounts VALUES (44, 'applied'), (45, ''); DELETE FROM fence.accounts WHERE id = 45"))
	rows("44 applied")
	unguarded(t, f.exec(t.Context(), f, "UPDATE fence.accounts SET writer = 'x'"))
	require.Zero(t, errors())

	run(t, f, f, "ALTER TABLE fence.accounts ENABLE ALWAYS TRIGGER zz_fencepost_row")
	require.Empty(t, psql("INSERT INTO fence.accounts VALUES (46, 'refused')"))
	require.Eventually(t, func() bool { return errors() > 0 }, patience, 20*time.Millisecond, "for those who want the applier refused")
	rows("44 applied")
	run(t, f, f, "ALTER TABLE fence.accounts ENABLE TRIGGER zz_fencepost_row")
	rows("44 applied, 46 refused")
}

func TestSessionInTheReplicationRole(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	tx := f.begin(t, "")
	run(t, f, tx, "SET LOCAL session_replication_role = replica")
	run(t, f, tx, write42)
	run(t, f, tx, "TRUNCATE fence.accounts")
	require.NoError(t, tx.Rollback(t.Context()))

	run(t, f, f, "ALTER TABLE fence.accounts ENABLE ALWAYS TRIGGER zz_fencepost_row")
	tx = f.begin(t, "")
	run(t, f, tx, "SET LOCAL session_replication_role = replica")
	unguarded(t, f.exec(t.Context(), tx, write42))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Empty(t, f.holes(t))
}
