package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
)

// listening is a connection whose notices from LOG on are kept: what the
// client is told is what the server's log is told, at these levels.
func listening(t *testing.T) (conn *pgx.Conn, heard *[]*pgconn.Notice) {
	t.Helper()
	config, err := pgx.ParseConfig(testenv.PostgresURL(t))
	require.NoError(t, err)
	config.RuntimeParams["client_min_messages"] = "log"
	heard = new([]*pgconn.Notice)
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { *heard = append(*heard, n) }
	conn, err = pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	return conn, heard
}

func TestProtectedTableThatObserves(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "CREATE TABLE fence.others (id int); SELECT fence.protect('fence.others', '''other''', 'observe'), fence.protect('fence.accounts', $$'account/' || id$$, 'observe')")
	conn, heard := listening(t)
	for range 2 {
		*heard = nil
		run(t, f, conn, "BEGIN")
		run(t, f, conn, "UPDATE fence.accounts SET writer = 'x'")
		run(t, f, conn, "DELETE FROM fence.accounts WHERE id = 43; INSERT INTO fence.accounts VALUES (43, ''); TRUNCATE fence.others")
		run(t, f, conn, "COMMIT")
		require.Len(t, *heard, 2, "one for each transaction and table")
		first, second := (*heard)[0], (*heard)[1]
		require.Equal(t, "WARNING", first.SeverityUnlocalized)
		require.Equal(t, "ZF003", first.Code)
		require.Equal(t, "fencepost: unguarded UPDATE of protected table "+f.schema+".accounts, observed", first.Message)
		require.Contains(t, first.Detail, "Table "+f.schema+".accounts, resource account/42, role ")
		require.Equal(t, "fencepost: unguarded TRUNCATE of protected table "+f.schema+".others, observed", second.Message)
	}
	*heard = nil
	run(t, f, conn, "SELECT fence.admit('account/42', 5, 'a')")
	run(t, f, conn, "BEGIN; SELECT fence.admit('account/42', 5, 'a'); UPDATE fence.accounts SET writer = 'y' WHERE id = 42; COMMIT")
	require.Empty(t, *heard, "what is guarded is not reported")
	require.Equal(t, "42 y, 43 ", get[string](t, f, f, "SELECT string_agg(id || ' ' || writer, ', ' ORDER BY id) FROM fence.accounts"))

	var level string
	require.NoError(t, conn.QueryRow(t.Context(), "SELECT boot_val FROM pg_settings WHERE name = 'log_min_messages'").Scan(&level))
	require.Equal(t, "warning", level, "so the log has it where nobody changed that")
}

// To go from observe to enforce keeps no writer waiting, and is seen by all
// sessions at their next statement, also inside a transaction.
func TestProtectAgainLocksNobodyOut(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	run(t, f, f, "SELECT fence.protect('fence.accounts', $$'account/' || id$$, 'observe')")
	writer := f.begin(t, pgx.ReadCommitted)
	run(t, f, writer, write42)
	run(t, f, f, "SET lock_timeout = '1s'; SELECT fence.protect('fence.accounts', $$'account/' || id$$); RESET lock_timeout")
	unguarded(t, f.exec(t.Context(), writer, write42))
	require.NoError(t, writer.Rollback(t.Context()))
}

func TestProtectAtOnce(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	var waits []func() error
	for range 8 {
		waits = append(waits, later(t, func() error {
			return f.exec(t.Context(), f, "SELECT fence.protect('fence.plain', $$'plain/' || id$$), fence.protect('fence.accounts', 'writer')")
		}))
	}
	for _, wait := range waits {
		require.NoError(t, wait())
	}
	require.Empty(t, f.holes(t))
	require.Equal(t, 2, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
}

func TestModesThatAreRefused(t *testing.T) {
	t.Parallel()
	f := newAccounts(t)
	for _, mode := range []any{"off", "", "ENFORCE", nil} {
		err := f.exec(t.Context(), f, "SELECT fence.protect('fence.plain', 'writer', $1)", mode)
		require.Equal(t, "22023", code(err))
		require.ErrorContains(t, err, "is neither enforce nor observe")
	}
	require.Equal(t, 1, get[int](t, f, f, "SELECT count(*) FROM fence.protected()"))
}
