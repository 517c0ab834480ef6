package pgtoken_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/pgtoken"
)

// hazard P4
func TestClockOfAnOpenTransactionStandsStill(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	first := acquire(t, iss, "first")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	query[time.Time](t, tx, "SELECT now()")
	exec(t, pool, "UPDATE "+in(schema, "leases")+" SET expires_at = clock_timestamp() + interval '1 ms'")
	exec(t, pool, "SELECT pg_sleep(0.01)") // the lease has ended

	require.True(t, query[bool](t, tx, "SELECT expires_at > now() FROM "+in(schema, "leases")), "now() must still see it held")
	granted := "SELECT granted FROM " + in(schema, "acquire") + "($1, 'in the transaction', '1 h')"
	require.True(t, query[bool](t, tx, granted, resource))
	require.NoError(t, tx.Rollback(t.Context()))
	require.Greater(t, acquire(t, iss, "second").Number, first.Number)
}

// hazard P4
func TestRenewalThatWaitedTooLongIsLost(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	tok := acquire(t, iss, "a")
	unlock := lockLease(t, pool, schema)
	lost := make(chan error, 1)
	go func() {
		_, err := iss.Renew(t.Context(), tok, long)
		lost <- err
	}()
	awaitWaiters(t, pool, schema, 1)
	unlock()
	require.NoError(t, <-lost)

	// The holder of the lock ends the lease while the renewal waits.
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	_, err = tx.Exec(t.Context(), "UPDATE "+in(schema, "leases")+" SET expires_at = clock_timestamp()")
	require.NoError(t, err)
	go func() {
		_, err := iss.Renew(t.Context(), tok, long)
		lost <- err
	}()
	awaitWaiters(t, pool, schema, 1)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-lost, token.ErrLost)
	require.True(t, query[bool](t, pool, "SELECT expires_at < clock_timestamp() FROM "+in(schema, "leases")), "what ended stays ended")
}

// hazard P5
func TestWaitLongerThanTheLease(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	pool, schema := testenv.Postgres(t)
	iss := &pgtoken.Issuer{DB: pool, Schema: schema}
	cycle(t, iss, "earlier")
	unlock := lockLease(t, pool, schema)
	before := time.Now()
	waiting := start(t, iss, "a", ttl)
	awaitWaiters(t, pool, schema, 1)
	time.Sleep(2 * ttl)
	released := query[time.Time](t, pool, "SELECT clock_timestamp()")
	unlock()

	a := <-waiting
	require.NoError(t, a.err)
	require.True(t, a.grant.Until.After(before.Add(3*ttl)), "the whole ttl is left after the wait")
	ends := query[time.Time](t, pool, "SELECT expires_at FROM "+in(schema, "leases"))
	require.False(t, ends.Before(released.Add(ttl)), "the lease was valid when it was granted")
	left := query[int64](t, pool, "SELECT (extract(epoch FROM expires_at - clock_timestamp()) * 1000000)::bigint FROM "+in(schema, "leases"))
	require.False(t, a.grant.Until.After(time.Now().Add(time.Duration(left)*time.Microsecond)), "never later than the server's expiry")
}

// hazard P5
func TestNaiveExpiryFromBeforeTheWait(t *testing.T) {
	t.Parallel()
	const ttl = 50 * time.Millisecond
	pool, schema := testenv.Postgres(t)
	cycle(t, &pgtoken.Issuer{DB: pool, Schema: schema}, "earlier")
	unlock := lockLease(t, pool, schema)
	naive := "UPDATE " + in(schema, "leases") + " SET holder = 'a', expires_at = statement_timestamp() + interval '50 ms'" +
		" WHERE expires_at < statement_timestamp() RETURNING expires_at > clock_timestamp()"
	var valid bool
	granted := make(chan error, 1)
	go func() { granted <- pool.QueryRow(t.Context(), naive).Scan(&valid) }()
	awaitWaiters(t, pool, schema, 1)
	time.Sleep(2 * ttl)
	unlock()
	require.NoError(t, <-granted)
	require.False(t, valid, "the lease must be over when it is granted")
}
