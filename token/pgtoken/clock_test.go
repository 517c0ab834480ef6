package pgtoken_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// hazard P4
func TestClockOfAnOpenTransactionStandsStill(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	first := pgtest.Acquire(t, iss, "first")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	pgtest.Query[time.Time](t, tx, "SELECT now()")
	pgtest.Exec(t, pool, "UPDATE "+pgtest.In(schema, "leases")+" SET expires_at = clock_timestamp() + interval '1 ms'")
	pgtest.Exec(t, pool, "SELECT pg_sleep(0.01)") // the lease has ended

	require.True(t, pgtest.Query[bool](t, tx, "SELECT expires_at > now() FROM "+pgtest.In(schema, "leases")), "by now(), the lease must still be held")
	granted := "SELECT granted FROM " + pgtest.In(schema, "acquire") + "($1, 'in the transaction', '1 h')"
	require.True(t, pgtest.Query[bool](t, tx, granted, resource))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Greater(t, pgtest.Acquire(t, iss, "second").Number, first.Number)
}

// hazard P4
func TestRenewalThatWaitedTooLongIsLost(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	tok := pgtest.Acquire(t, iss, "a")
	unlock := lockLease(t, pool, schema)
	renew := func() error {
		_, err := iss.Renew(t.Context(), tok, long)
		return err
	}
	renewed := pgtest.Later(t, renew)
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	unlock()
	require.NoError(t, renewed())

	// The transaction with the row lock ends the lease while the renewal waits.
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "UPDATE "+pgtest.In(schema, "leases")+" SET expires_at = clock_timestamp()")
	require.NoError(t, err)
	lost := pgtest.Later(t, renew)
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, lost(), token.ErrLost)
	require.True(t, pgtest.Query[bool](t, pool, "SELECT expires_at < clock_timestamp() FROM "+pgtest.In(schema, "leases")), "what ended stays ended")
}

// hazard P5
func TestWaitLongerThanTheLease(t *testing.T) {
	t.Parallel()
	const ttl = 50 * time.Millisecond
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	pgtest.Cycle(t, iss, "earlier")
	unlock := lockLease(t, pool, schema)
	before := time.Now()
	waiting := start(t, iss, "a", ttl)
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	time.Sleep(2 * ttl)
	released := pgtest.Query[time.Time](t, pool, "SELECT clock_timestamp()")
	unlock()

	a := <-waiting
	require.NoError(t, a.Err)
	require.True(t, a.Grant.Until.After(before.Add(3*ttl)), "the whole ttl is left after the wait")
	ends := pgtest.Query[time.Time](t, pool, "SELECT expires_at FROM "+pgtest.In(schema, "leases"))
	require.False(t, ends.Before(released.Add(ttl)), "the lease was valid when it was granted")
	left := pgtest.Query[int64](t, pool, "SELECT (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint FROM "+pgtest.In(schema, "leases"))
	require.False(t, a.Grant.Until.After(time.Now().Add(time.Duration(left)*time.Microsecond)), "never later than the server's expiry")
}

// hazard P5
func TestNaiveExpiryFromBeforeTheWait(t *testing.T) {
	t.Parallel()
	const ttl = 50 * time.Millisecond
	pool, schema := testenv.Postgres(t)
	pgtest.Cycle(t, &pgtoken.Issuer{DB: pool, Schema: schema}, "earlier")
	unlock := lockLease(t, pool, schema)
	naive := "UPDATE " + pgtest.In(schema, "leases") + " SET holder = 'a', expires_at = statement_timestamp() + interval '50 ms'" +
		" WHERE expires_at < statement_timestamp() RETURNING expires_at > clock_timestamp()"
	var valid bool
	granted := pgtest.Later(t, func() error { return pool.QueryRow(t.Context(), naive).Scan(&valid) })
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	time.Sleep(2 * ttl)
	unlock()
	require.NoError(t, granted())
	require.False(t, valid, "the lease must be over when it is granted")
}
