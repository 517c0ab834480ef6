package pgtoken_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

const (
	resource = pgtest.Resource
	long     = pgtest.Long
)

// closed closes iss at the end of the test.
func closed(t *testing.T, iss *pgtoken.Issuer) *pgtoken.Issuer {
	t.Helper()
	t.Cleanup(func() { require.NoError(t, iss.Close()) })
	return iss
}

// lockLease locks the row of resource, which must exist, until unlock.
func lockLease(t *testing.T, pool *pgxpool.Pool, schema string) (unlock func()) {
	t.Helper()
	return begin(t, pool, "SELECT FROM "+pgtest.In(schema, "leases")+" WHERE resource = $1 FOR UPDATE", resource)
}

// begin runs sql in a transaction that stays open until commit.
func begin(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) (commit func()) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }) // returns the connection if the test failed
	_, err = tx.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
	return func() {
		t.Helper()
		require.NoError(t, tx.Commit(t.Context()))
	}
}

// start calls Acquire on a new goroutine.
func start(t *testing.T, iss token.Issuer, holder string, ttl time.Duration) <-chan pgtest.Answer {
	return pgtest.Go(func() (token.Grant, error) { return iss.Acquire(t.Context(), resource, holder, ttl) })
}

// wait calls Wait on a new goroutine.
func wait(ctx context.Context, iss token.QueueIssuer, holder string, ttl time.Duration) <-chan pgtest.Answer {
	return pgtest.Go(func() (token.Grant, error) { return iss.Wait(ctx, resource, holder, ttl) })
}

// awaitQueue returns when n waiters of resource match the condition where.
func awaitQueue(t *testing.T, pool *pgxpool.Pool, schema string, n int, where string) {
	t.Helper()
	count := "SELECT count(*) FROM " + pgtest.In(schema, "waiters") + " WHERE resource = $1 AND " + where
	pgtest.Await(t, func() bool { return pgtest.Query[int](t, pool, count, resource) == n })
}

const (
	notified = "channel <> 0" // the waiters that receive notifications
	polls    = "channel = 0"  // the waiters that poll
)

func refused(t *testing.T, iss token.Issuer, holder string) error {
	t.Helper()
	_, err := iss.Acquire(t.Context(), resource, holder, long)
	return err
}
