package testenv_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
)

func TestClientsOfAPoolerShareAFewSessions(t *testing.T) {
	t.Parallel()
	url := testenv.PgBouncer(t)
	var first, second *pgx.Conn
	for _, conn := range []**pgx.Conn{&first, &second} {
		config, err := pgx.ParseConfig(url)
		require.NoError(t, err)
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		*conn, err = pgx.ConnectConfig(t.Context(), config)
		require.NoError(t, err)
		defer (*conn).Close(t.Context())
	}
	session := "SELECT pg_backend_pid()::text"
	alone := column[string](t, first, session)
	require.Equal(t, alone, column[string](t, second, session), "a pooler gives the session that was used last")
	run(t, first, "BEGIN")
	require.Equal(t, alone, column[string](t, first, session))
	require.NotEqual(t, alone, column[string](t, second, session), "while the first one is in a transaction")
	run(t, first, "COMMIT")
}

func TestAPoolerAcceptsAnyNameAndPassword(t *testing.T) {
	t.Parallel()
	server, err := pgx.ParseConfig("postgres://o'neill:it%27s%20100%25%3B%20%5Co@[::1]:5433/test")
	require.NoError(t, err)
	require.Equal(t, `host='::1' port='5433' dbname='test' user='o''neill' password='it''s 100%; \o'`, testenv.Pooled(server))
}
