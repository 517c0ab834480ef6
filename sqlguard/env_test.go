package sqlguard_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ceiling bounds calls that hang. No test measures it.
const ceiling = 5 * time.Minute

// patient is an IdleTimeout longer than any test: on a slow machine a transaction may be
// idle for longer than the default.
const patient = time.Hour

// resource is the resource of most tests: row 42 of accounts.
const resource = "account/42"

// env is a migrated schema with one table of accounts, and a guard over it.
type env struct {
	t      testing.TB
	pool   *pgxpool.Pool
	schema string
	guard  *sqlguard.Guard
}

func newEnv(t testing.TB) *env {
	t.Helper()
	e := borrow(t, "plain", (*env).tables)
	e.fill()
	return e
}

// inEnv runs a case in an env of its own, in parallel with other cases.
func inEnv(t *testing.T, name string, test func(t *testing.T, e *env)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(t, newEnv(t))
	})
}

func (e *env) tables() { pgtest.Accounts(e.t, e.pool, e.schema) }

// fill inserts the rows, also if the table is protected.
func (e *env) fill() {
	e.exec("SET LOCAL session_replication_role = replica; INSERT INTO accounts (id, balance) VALUES (42, 100), (43, 100)")
}

// env returns the borrowed schema as the test's env.
func (b *borrowed) env(t testing.TB) *env {
	return &env{t: t, pool: b.pool, schema: b.schema, guard: &sqlguard.Guard{DB: b.pool, Schema: b.schema, IdleTimeout: patient}}
}

// with returns a copy of the guard with a change.
func (e *env) with(change func(*sqlguard.Guard)) *sqlguard.Guard {
	g := *e.guard
	change(&g)
	return &g
}

// by returns a copy of the guard with another DB.
func (e *env) by(db sqlguard.DB) *sqlguard.Guard {
	return e.with(func(g *sqlguard.Guard) { g.DB = db })
}

// reporting returns a copy of the guard in report-only mode, with another DB, and what it
// has reported.
func (e *env) reporting(db sqlguard.DB) (g *sqlguard.Guard, seen *[]error) {
	seen = new([]error)
	return e.with(func(g *sqlguard.Guard) {
		g.DB, g.DangerouslyReportOnly = db, true
		g.Hooks.Reported = func(_ context.Context, err error) { *seen = append(*seen, err) }
	}), seen
}

// sql qualifies the names of the test's tables with its schema.
func (e *env) sql(text string) string { return inSchema(e.schema, text) }

var names = regexp.MustCompile(`\b(accounts|ledger|marks|units)\b`)

func inSchema(schema, text string) string {
	return names.ReplaceAllString(text, strings.ReplaceAll(pgx.Identifier{schema}.Sanitize(), "$", "$$")+".$1")
}

func (e *env) exec(text string, args ...any) {
	e.t.Helper()
	_, err := e.pool.Exec(e.t.Context(), e.sql(text), args...)
	require.NoError(e.t, err)
}

// query returns the single value of a query.
func query[T any](e *env, text string, args ...any) (value T) {
	e.t.Helper()
	require.NoError(e.t, e.pool.QueryRow(e.t.Context(), e.sql(text), args...).Scan(&value))
	return value
}

func (e *env) writer() string {
	e.t.Helper()
	return query[string](e, "SELECT writer FROM accounts WHERE id = 42")
}
func (e *env) balance() int64 {
	e.t.Helper()
	return query[int64](e, "SELECT balance FROM accounts WHERE id = 42")
}

// mark returns the number and holder of the resource's mark.
func (e *env) mark(resource string) string {
	e.t.Helper()
	return query[string](e, "SELECT coalesce((SELECT number || ' ' || holder FROM marks WHERE resource = $1), '')", resource)
}

// write returns a closure for Update that writes a name to account 42.
func (e *env) write(ctx context.Context, writer string) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), writer)
		return err
	}
}

// ctx returns a context with the token of account 42 with that number, of holder
// "h<number>".
func (e *env) ctx(number int64) context.Context { return e.as(number, fmt.Sprintf("h%d", number)) }

func (e *env) as(number int64, holder string) context.Context {
	return token.NewContext(e.bounded(), token.Token{Resource: resource, Number: number, Holder: holder})
}

// bounded returns the test's context with the ceiling as timeout.
func (e *env) bounded() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), ceiling)
	e.t.Cleanup(cancel)
	return ctx
}

// admitted raises the mark of account 42 with the tokens, in order.
func (e *env) admitted(numbers ...int64) {
	e.t.Helper()
	for _, n := range numbers {
		require.NoError(e.t, e.guard.Admit(e.bounded(), token.Token{Resource: resource, Number: n, Holder: fmt.Sprintf("h%d", n)}))
	}
}

// awaitWaiting waits until n backends of this test's pool wait for a lock, so that the
// next step certainly meets them.
func (e *env) awaitWaiting(n int) {
	e.t.Helper()
	e.await(fmt.Sprintf("%d wait for a lock", n), func() bool { return e.waiting() >= n })
}

func (e *env) waiting() int {
	e.t.Helper()
	return query[int](e, `SELECT count(*) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, e.schema)
}

// stillWaits requires that a call waits for a lock, and that it waits again, or still,
// after a time in which short bounds would have ended a writer.
func (e *env) stillWaits(call <-chan error) {
	e.t.Helper()
	e.awaitWaiting(1)
	time.Sleep(3 * short)
	e.await("the call waits, or has ended", func() bool { return len(call) > 0 || e.waiting() > 0 })
	require.Empty(e.t, call, "the call must wait")
}

func (e *env) await(what string, is func() bool) {
	e.t.Helper()
	for deadline := time.Now().Add(ceiling); !is(); time.Sleep(2 * time.Millisecond) {
		require.True(e.t, time.Now().Before(deadline), "waited in vain: %s", what)
	}
}

// async runs f and returns a channel with its error.
func async(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// await returns the error of async, or fails at the ceiling.
func await(t testing.TB, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(ceiling):
		require.Fail(t, "it hangs")
		return nil
	}
}

// endSession ends a session of the server, and returns when it is gone.
func (e *env) endSession(pid uint32) {
	e.t.Helper()
	e.exec("SELECT pg_terminate_backend($1)", pid)
	e.gone(pid)
}

// gone waits for the end of a session.
func (e *env) gone(pid uint32) {
	e.t.Helper()
	e.await("the end of the session", func() bool {
		return query[int](e, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1", pid) == 0
	})
}

// mutate breaks a function of this test's schema: it replaces a piece of the
// text that must be there, pairs of old and new.
func (e *env) mutate(function string, oldnew ...string) {
	e.t.Helper()
	text := query[string](e, "SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = $1 AND p.pronamespace = to_regnamespace($2)", function, e.schema)
	for i := 0; i < len(oldnew); i += 2 {
		require.Contains(e.t, text, oldnew[i], "the mutant no longer fits %s", function)
		text = strings.ReplaceAll(text, oldnew[i], oldnew[i+1])
	}
	_, err := e.pool.Exec(e.t.Context(), text)
	require.NoError(e.t, err)
}

// mintedToken returns the token of a Mint's context.
func mintedToken(ctx context.Context, err error) (token.Token, error) {
	return tokenctx.Entries[token.Token](ctx).Token, err
}
