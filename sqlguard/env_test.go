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

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

// ceiling ends what hangs. No test is about its length.
const ceiling = 30 * time.Second

// resource is what most tests fight over: row 42 of accounts.
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
	pool, schema := testenv.Postgres(t)
	e := &env{t: t, pool: pool, schema: schema, guard: &sqlguard.Guard{DB: pool, Schema: schema}}
	e.exec("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, writer text NOT NULL DEFAULT '')")
	e.exec("INSERT INTO accounts (id, balance) VALUES (42, 100), (43, 100)")
	return e
}

// with is the same guard with something changed.
func (e *env) with(change func(*sqlguard.Guard)) *sqlguard.Guard {
	g := *e.guard
	change(&g)
	return &g
}

// sql puts the test's schema before the names of its tables.
func (e *env) sql(text string) string { return inSchema(e.schema, text) }

var names = regexp.MustCompile(`\b(accounts|ledger|marks)\b`)

func inSchema(schema, text string) string {
	return names.ReplaceAllString(text, strings.ReplaceAll(pgx.Identifier{schema}.Sanitize(), "$", "$$")+".$1")
}

func (e *env) exec(text string, args ...any) {
	e.t.Helper()
	_, err := e.pool.Exec(e.t.Context(), e.sql(text), args...)
	require.NoError(e.t, err)
}

// query is the one value that a query returns.
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

// mark is the number and holder of the resource's mark.
func (e *env) mark(resource string) string {
	e.t.Helper()
	return query[string](e, "SELECT coalesce((SELECT number || ' ' || holder FROM marks WHERE resource = $1), '')", resource)
}

// write is a closure for Update that leaves a name on account 42.
func (e *env) write(ctx context.Context, writer string) func(pgx.Tx) error {
	return func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, e.sql("UPDATE accounts SET writer = $1 WHERE id = 42"), writer)
		return err
	}
}

// ctx carries the token of account 42 with that number, of holder "h<number>".
func (e *env) ctx(number int64) context.Context { return e.as(number, fmt.Sprintf("h%d", number)) }

func (e *env) as(number int64, holder string) context.Context {
	return token.NewContext(e.bounded(), token.Token{Resource: resource, Number: number, Holder: holder})
}

// bounded is the test's context with the ceiling over it.
func (e *env) bounded() context.Context {
	ctx, cancel := context.WithTimeout(e.t.Context(), ceiling)
	e.t.Cleanup(cancel)
	return ctx
}

// admitted lets tokens of account 42 raise the mark, in order.
func (e *env) admitted(numbers ...int64) {
	e.t.Helper()
	for _, n := range numbers {
		require.NoError(e.t, e.guard.Admit(e.bounded(), token.Token{Resource: resource, Number: n, Holder: fmt.Sprintf("h%d", n)}))
	}
}

// await waits until the server shows n backends of this test's pool that wait
// for a lock: then the next step is sure to meet them waiting.
func (e *env) awaitWaiting(n int) {
	e.t.Helper()
	e.await(fmt.Sprintf("%d wait for a lock", n), func() bool {
		return query[int](e, `SELECT count(*) FROM pg_stat_activity
			WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'`, e.schema) >= n
	})
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
