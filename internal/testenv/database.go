package testenv

import (
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Database returns the URL of an empty database on the shared server that is
// this test's alone, for programs that use the default schema. It is dropped at
// the end of the test. The role of the server's URL must be able to create one.
func Database(t testing.TB) string {
	t.Helper()
	server, err := url.Parse(PostgresURL(t))
	if err != nil {
		t.Fatalf("testenv: %s is not a URL", EnvPostgres)
	}
	admin, err := pgx.Connect(t.Context(), server.String())
	if err != nil {
		t.Fatalf("testenv: %v", err)
	}
	name := unique("fencepost_test_")
	if _, err := admin.Exec(t.Context(), "CREATE DATABASE "+name); err != nil {
		t.Fatalf("testenv: database %s: %v", name, err)
	}
	t.Cleanup(func() {
		ctx, cancel := afterTest(t)
		defer cancel()
		defer admin.Close(ctx)
		if _, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("testenv: drop of database %s: %v", name, err)
		}
	})
	own := *server
	own.Path = "/" + name
	return own.String()
}
