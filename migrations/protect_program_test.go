package migrations_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// script runs one where the server runs, as the server's own user and with its
// own pg_dump and psql, and returns what it says. It takes a superuser.
func (f fence) script(t *testing.T, text string) string {
	t.Helper()
	return f.scriptContext(t, t.Context(), text)
}

func (f fence) scriptContext(t *testing.T, ctx context.Context, text string) string {
	t.Helper()
	tx, err := f.Begin(ctx)
	require.NoError(t, err)
	defer tx.Rollback(ctx)
	require.NoError(t, f.exec(ctx, tx, "CREATE TEMP TABLE said (n int GENERATED ALWAYS AS IDENTITY, line text) ON COMMIT DROP"))
	// What separates columns, and what quotes them, does not occur.
	require.NoError(t, f.exec(ctx, tx, "COPY said (line) FROM PROGRAM "+literal(f.shell(t, ctx, text))+" WITH (FORMAT csv, DELIMITER E'\\x01', QUOTE E'\\x02')"))
	var said string
	require.NoError(t, tx.QueryRow(ctx, "SELECT coalesce(string_agg(coalesce(line, ''), E'\\n' ORDER BY n), '') FROM said").Scan(&said))
	return said
}

// shell puts the folder of the server's programs into PATH, and the way to its
// databases into the environment.
func (f fence) shell(t *testing.T, ctx context.Context, text string) string {
	t.Helper()
	var env string
	require.NoError(t, f.QueryRow(ctx, `SELECT format('export PATH=%L:$PATH PGHOST=127.0.0.1 PGPORT=%s PGUSER=%L PGPASSWORD=%L PGDATABASE=%L FOLDER=%L',
		(SELECT setting FROM pg_config WHERE name = 'BINDIR'), current_setting('port'), session_user, $2::text, current_database(), '/tmp/' || $1)`,
		f.schema, f.Config().ConnConfig.Password).Scan(&env))
	return env + "\nexec 2>&1\n" + text
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
