package testenv

import (
	"context"
	"crypto/rand"
	"flag"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// AtOnce lets up to n parallel tests of this process run at the same time, unless go test
// has the flag -parallel. It is for TestMain of packages whose tests wait most of the
// time: one test per core would leave the cores idle.
func AtOnce(n int) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "test.parallel" })
	if !told {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // cannot fail: the value is a number
	}
}

// endTimeout is far above the time that the end of a test takes: it ends only a hang.
const endTimeout = 2 * time.Minute

// afterTest returns a context for clean-up: the test's own context is cancelled by then.
func afterTest(t testing.TB) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(t.Context()), endTimeout)
}

// unique returns a name that no other test has: the prefix, then lower-case letters and
// digits.
func unique(prefix string) string {
	return prefix + strings.ToLower(rand.Text()[:13])
}

// Stress reports whether t is a test that `make test` leaves to `make verify`.
func Stress(t testing.TB) bool { return strings.HasPrefix(t.Name(), "TestStress") }

// Some returns the entries of a table of cases that are named: those that `make test`
// performs. A stress test gets all of them.
func Some[V any](t testing.TB, all map[string]V, names ...string) map[string]V {
	t.Helper()
	some := map[string]V{}
	for _, name := range names {
		entry, known := all[name]
		if !known {
			t.Fatalf("testenv: no case is named %q", name)
		}
		some[name] = entry
	}
	if Stress(t) {
		return all
	}
	return some
}

// Rounds returns the number in the environment variable, or usual if it is not set. It
// fails t if the number is not above zero.
func Rounds(t testing.TB, variable string, usual int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("testenv: %s=%s is no number of rounds", variable, text)
	}
	return n
}

// Database returns the URL of an empty database on the shared server, for this test only
// and for programs that use the default schema. It is dropped at the end of the test. The
// role of the server's URL must have the right to create databases.
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
