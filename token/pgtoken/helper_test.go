package pgtoken_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

const resource = "account/42"

// long outlasts every test that does not wait for a lease to expire.
const long = 10 * time.Minute

// connect is a pool of the shared server with settings of the test's own.
func connect(t *testing.T, set func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	return poolOf(t, testenv.PostgresURL(t), set)
}

// poolOf is one of a server of the test's own.
func poolOf(t *testing.T, url string, set func(*pgxpool.Config)) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	set(config)
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

// closed closes iss at the end of the test.
func closed(t *testing.T, iss *pgtoken.Issuer) *pgtoken.Issuer {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	return iss
}

func one(config *pgxpool.Config) { config.MaxConns = 1 }

func usual(*pgxpool.Config) {}

// hasty commits without waiting for the disk, where it is let.
func hasty(config *pgxpool.Config) { config.ConnConfig.RuntimeParams["synchronous_commit"] = "off" }

func acquire(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	grant, err := iss.Acquire(t.Context(), resource, holder, long)
	require.NoError(t, err)
	require.NoError(t, grant.Token.Check())
	return grant.Token
}

// cycle acquires and releases.
func cycle(t *testing.T, iss token.Issuer, holder string) token.Token {
	t.Helper()
	tok := acquire(t, iss, holder)
	require.NoError(t, iss.Release(t.Context(), tok))
	return tok
}

// in names something of the schema for SQL.
func in(schema, name string) string { return pgx.Identifier{schema, name}.Sanitize() }

type execer interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// query returns the one value that sql selects.
func query[T any](t *testing.T, db execer, sql string, args ...any) T {
	t.Helper()
	var value T
	require.NoError(t, db.QueryRow(t.Context(), sql, args...).Scan(&value))
	return value
}

func exec(t *testing.T, db interface {
	Begin(ctx context.Context) (pgx.Tx, error)
}, sql string, args ...any) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), db, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql, args...)
		return err
	}))
}

// lockLease locks the row of resource, which must be there, until unlock.
func lockLease(t *testing.T, pool *pgxpool.Pool, schema string) (unlock func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	query[int](t, tx, "SELECT 1 FROM "+in(schema, "leases")+" WHERE resource = $1 FOR UPDATE", resource)
	done := false
	unlock = func() {
		if !done {
			done = true
			_ = tx.Rollback(context.WithoutCancel(t.Context())) // gives the connection back in any case
		}
	}
	t.Cleanup(unlock)
	return unlock
}

// awaitWaiters returns when n statements that name the schema wait for a lock.
func awaitWaiters(t *testing.T, pool *pgxpool.Pool, schema string, n int) {
	t.Helper()
	const sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND strpos(query, $1) > 0"
	require.Eventually(t, func() bool { return query[int](t, pool, sql, schema) == n }, time.Minute, 5*time.Millisecond)
}

// answer is what a call in a goroutine of its own returned.
type answer struct {
	grant token.Grant
	err   error
}

func start(t *testing.T, iss token.Issuer, holder string, ttl time.Duration) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		grant, err := iss.Acquire(t.Context(), resource, holder, ttl)
		answers <- answer{grant, err}
	}()
	return answers
}

// clock is the floor of all numbers now.
func clock() int64 { return time.Now().UnixMicro() / 10 }

// wait is start for Wait.
func wait(ctx context.Context, iss token.Waiter, holder string, ttl time.Duration) <-chan answer {
	answers := make(chan answer, 1)
	go func() {
		grant, err := iss.Wait(ctx, resource, holder, ttl)
		answers <- answer{grant, err}
	}()
	return answers
}

// given is what a Wait was granted.
func given(t *testing.T, answers <-chan answer) token.Token {
	t.Helper()
	a := <-answers
	require.NoError(t, a.err)
	return a.grant.Token
}

// awaitLine returns when n stand in line for resource, as sql counts them.
func awaitLine(t *testing.T, pool *pgxpool.Pool, schema string, n int, where string) {
	t.Helper()
	count := "SELECT count(*) FROM " + in(schema, "waiters") + " WHERE resource = $1 AND " + where
	require.Eventually(t, func() bool { return query[int](t, pool, count, resource) == n }, time.Minute, time.Millisecond)
}

// notified are those who are told when it is their turn.
const notified = "inbox <> 0"

// brief is a context that ends soon.
func brief(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func refused(t *testing.T, iss token.Issuer, holder string) error {
	t.Helper()
	_, err := iss.Acquire(t.Context(), resource, holder, long)
	return err
}
