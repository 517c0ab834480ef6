package migrations_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestResetWaitsForWhoIsAdmitted(t *testing.T) {
	t.Parallel()
	f := poisoned(t)
	ctx := t.Context()
	writer, resetter := f.begin(t, pgx.ReadCommitted), f.begin(t, pgx.ReadCommitted)
	require.NoError(t, f.admit(ctx, writer, "account/42", poison, "forged"))
	require.NoError(t, f.exec(ctx, resetter, "SAVEPOINT s; SET LOCAL lock_timeout = '20ms'"))
	require.Equal(t, "55P03", code(f.exec(ctx, resetter, "SELECT fence.reset('account/42')")))
	require.NoError(t, f.exec(ctx, resetter, "ROLLBACK TO s"))
	wait := later(t, func() error { return f.exec(ctx, resetter, "SELECT fence.reset('account/42')") })
	f.blocked(t, resetter.Conn())
	require.NoError(t, writer.Commit(ctx))
	require.NoError(t, wait())

	admission := later(t, func() error { return f.admit(ctx, f, "account/42", poison, "forged") })
	require.NoError(t, resetter.Commit(ctx))
	require.NoError(t, admission(), "who can forge can poison again: the reset is no guard against that")
}

func TestResetIsWrittenToTheLog(t *testing.T) {
	t.Parallel()
	f := poisoned(t)
	config := f.Config().ConnConfig.Copy()
	var log []string
	config.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { log = append(log, n.Severity+": "+n.Message) }
	conn, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.WithoutCancel(t.Context())) })
	require.NoError(t, f.exec(t.Context(), conn, "SET client_min_messages = log"))
	log = nil
	require.NoError(t, f.exec(t.Context(), conn, "SELECT fence.reset('account/42')"))
	number, _ := f.mark(t, "account/42")
	require.Equal(t, []string{get[string](t, f, conn,
		"SELECT format('LOG: fencepost: %I has reset the mark of ''account/42'' from 999999999999999 of ''forged'' to %s', session_user, $1::bigint)", number)}, log)
}
