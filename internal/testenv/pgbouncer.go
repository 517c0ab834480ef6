package testenv

import (
	"context"
	"errors"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// EnvPgBouncer names a PgBouncer in transaction mode in front of the server of
// EnvPostgres, which gives all its clients a pool of four sessions or not many
// more, and does not keep their prepared statements (max_prepared_statements,
// from 1.21 on, is 0). Its role may give orders at the pooler's console
// (admin_users).
const EnvPgBouncer = "FENCEPOST_TEST_PGBOUNCER_URL"

var sharedPgBouncer = source{
	name: "PgBouncer", env: EnvPgBouncer, url: pgbouncerURL, local: pgbouncerProgram,
}

// PgBouncer returns the URL of a pooler in transaction mode in front of the
// shared PostgreSQL: all clients of the URL share four sessions, which are this
// test's alone, and are closed at its end. Its tables are those of Postgres. A
// test that keeps sessions busy leaves one free, or it waits for itself. A
// pooler found by URL is taken in turn by all test processes of this machine: a
// test takes it once, and has no parallel subtests, which could wait for a test
// that waits for the pooler.
func PgBouncer(t testing.TB) string {
	t.Helper()
	PostgresURL(t) // what a local pooler is put in front of
	pooler := sharedPgBouncer.URL(t)
	if os.Getenv(EnvPgBouncer) != "" {
		sharedPgBouncer.exclusive(t, "pgbouncer")
	} else {
		u, err := url.Parse(pooler)
		if err != nil {
			t.Fatalf("testenv: %v", err)
		}
		u.Path = "/" + unique("fencepost_test_") // a pool of its own
		pooler = u.String()
	}
	t.Cleanup(func() {
		ctx, cancel := afterTest(t)
		defer cancel()
		if err := DropPooled(ctx, pooler); err != nil {
			t.Errorf("testenv: leave PgBouncer: %v", err)
		}
	})
	return pooler
}

// DropPooled has the pooler of a URL of PgBouncer close all connections, those
// of its clients and its sessions, and go on.
func DropPooled(ctx context.Context, pooler string) error {
	config, err := pgx.ParseConfig(pooler)
	if err != nil {
		return err
	}
	database := pgx.Identifier{config.Database}.Sanitize()
	config.Database = "pgbouncer" // its console
	console, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	_, kill := console.PgConn().Exec(ctx, "KILL "+database).ReadAll()
	_, resume := console.PgConn().Exec(ctx, "RESUME "+database).ReadAll()
	return errors.Join(kill, resume, console.Close(ctx))
}
