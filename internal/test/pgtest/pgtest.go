// Package pgtest has what tests on PostgreSQL share: pools, statements, a table of
// accounts, and blocking calls.
package pgtest

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

const (
	// Resource is the resource of Acquire and Cycle.
	Resource = "account/42"
	// Long is a TTL longer than any test.
	Long = 10 * time.Minute
)

// Connect returns a pool of the shared server whose settings set has changed.
func Connect(t testing.TB, set func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return Pool(t, testenv.PostgresURL(t), set)
}

// Pool returns a pool of any server. A nil set changes nothing.
func Pool(t testing.TB, url string, set func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	if set != nil {
		set(config)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// One limits a pool to one connection.
func One(config *pgxpool.Config) { config.MaxConns = 1 }

// Wrap puts wrap around each connection of a pool.
func Wrap(config *pgxpool.Config, wrap func(net.Conn) (net.Conn, error)) {
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return wrap(conn)
	}
}

// In returns the quoted, schema-qualified name.
func In(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }

// Queryer is a pool, a connection or a transaction.
type Queryer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Query returns the one value that sql selects.
func Query[T any](t *testing.T, db Queryer, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

// Exec runs a statement in a transaction of its own.
func Exec(t *testing.T, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, sql string, args ...any) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	}))
}

// Accounts creates the table accounts(id, balance, writer) in the schema, with these rows,
// each with a balance of 100 and no writer. It returns the table's quoted name.
func Accounts(t testing.TB, db interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}, schema string, ids ...int64) (table string) {
	t.Helper()
	table = In(schema, "accounts")
	_, err := db.Exec(t.Context(), "CREATE TABLE "+table+
		" (id bigint PRIMARY KEY, balance bigint NOT NULL DEFAULT 0, writer text NOT NULL DEFAULT '')")
	require.NoError(t, err)
	_, err = db.Exec(t.Context(), "INSERT INTO "+table+" (id, balance) SELECT unnest($1::bigint[]), 100", ids)
	require.NoError(t, err)
	return table
}

// Await returns when the condition is true. It fails t after two minutes, which ends only
// a hang.
func Await(t *testing.T, condition func() bool) {
	t.Helper()
	for start := time.Now(); !condition(); time.Sleep(2 * time.Millisecond) {
		if time.Since(start) > 2*time.Minute {
			t.Fatal("the condition has not become true")
		}
	}
}

// AwaitLockWaiters returns when n statements that contain the schema's name wait for a
// lock.
func AwaitLockWaiters(t *testing.T, pool *pgxpool.Pool, schema string, n int) {
	t.Helper()
	const sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0"
	Await(t, func() bool { return Query[int](t, pool, sql, schema) == n })
}

// Clock returns the least number that may be minted now.
func Clock() int64 { return time.Now().UnixMicro() / 10 }

// Acquire acquires Resource for Long.
func Acquire(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), Resource, holder, Long)
	require.NoError(t, err)
	require.NoError(t, grant.Token.Validate())
	return grant.Token
}

// Cycle acquires and releases Resource.
func Cycle(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	tok := Acquire(t, iss, holder)
	require.NoError(t, iss.Release(t.Context(), tok))
	return tok
}

// Answer is the result of a call in a goroutine of its own.
type Answer struct {
	Grant token.Grant
	Err   error
}

// Go makes a call in a goroutine of its own.
func Go(call func() (token.Grant, error)) <-chan Answer {
	answers := make(chan Answer, 1)
	go func() {
		grant, err := call()
		answers <- Answer{grant, err}
	}()
	return answers
}

// Granted returns the token that the call was granted.
func Granted(t *testing.T, answers <-chan Answer) token.Token {
	t.Helper()
	a := <-answers
	require.NoError(t, a.Err)
	return a.Grant.Token
}

// Later makes a call in a goroutine of its own, and returns a function that waits for its
// error, for at most two minutes.
func Later(t *testing.T, call func() error) (wait func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	return func() error {
		t.Helper()
		select {
		case err := <-done:
			return err
		case <-time.After(2 * time.Minute):
			require.Fail(t, "still waiting")
			return nil
		}
	}
}
