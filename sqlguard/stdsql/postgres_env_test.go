package stdsql_test

import (
	"net/url"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard/stdsql"
)

// newPostgres makes a schema, over pgx/stdlib.
func newPostgres(t *testing.T) *database {
	t.Helper()
	_, schema := testenv.Postgres(t)
	server, err := url.Parse(testenv.PostgresURL(t))
	require.NoError(t, err)
	settings := server.Query()
	settings.Set("search_path", schema)
	server.RawQuery = settings.Encode()
	db := &database{driver: "pgx", dsn: server.String(), dialect: stdsql.Postgres, schema: schema, marks: "marks"}
	return db.made(t, "BIGINT GENERATED ALWAYS AS IDENTITY")
}

// setting returns the DSN with a setting for all sessions.
func (db *database) setting(t *testing.T, name, value string) string {
	t.Helper()
	server, err := url.Parse(db.dsn)
	require.NoError(t, err)
	settings := server.Query()
	settings.Set(name, value)
	server.RawQuery = settings.Encode()
	return server.String()
}

// awaitWaiting returns when somebody waits for somebody else's lock. MariaDB's
// innodb_trx says so too, but is not brought up to date while it is asked more
// than ten times a second.
func (db *database) awaitWaiting(t *testing.T) {
	t.Helper()
	query := "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' AND pid IN " +
		"(SELECT pid FROM pg_stat_activity WHERE query LIKE '%\"" + db.schema + "\".%')"
	if db.dialect == stdsql.MySQL {
		query = "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID() " +
			"AND command = 'Query' AND info LIKE '%fencepost_marks%' AND time_ms > 50"
	}
	require.Eventually(t, func() bool { return one[int](t, db, query) > 0 }, time.Minute, 5*time.Millisecond)
}
