package pgadvisory_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/pgtest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
)

func TestDeadWaiterLeavesTheQueue(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	w, far := wired(t)
	iss := issuer(t, pool, schema)
	tok := pgtest.Acquire(t, iss, "a")
	dead := enqueue(t, issuer(t, far, schema), "dead", long)
	naive, err := far.Acquire(t.Context())
	require.NoError(t, err)
	defer naive.Release()
	forgotten := pgtest.Later(t, func() error {
		_, err := naive.Exec(t.Context(), "SELECT pg_advisory_lock((k >> 32)::integer, k::bit(32)::integer) FROM "+advisoryKey(schema), resource)
		return err
	})
	process := int32(naive.Conn().PgConn().PID())
	waits := func() bool { return slices.Contains(processes(t, iss, false), process) }
	pgtest.Await(t, waits)
	third := enqueue(t, iss, "c", long)

	w.kill()
	require.Error(t, (<-dead).Err)
	require.Error(t, forgotten())
	pgtest.Await(t, func() bool { return len(processes(t, iss, false)) == 2 })
	require.True(t, waits(), "a session that does not look for its client must stay in the queue")
	pgtest.Exec(t, pool, "SELECT pg_terminate_backend($1)", process)
	require.NoError(t, iss.Release(t.Context(), tok))
	c := <-third
	require.NoError(t, c.Err)
	require.Greater(t, c.Grant.Token.Number, tok.Number)
	require.NoError(t, iss.Release(t.Context(), c.Grant.Token))
}

func TestSilentWaiterIsPassedOver(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	w, far := wired(t)
	iss := issuer(t, pool, schema)
	asleep := issuer(t, far, schema)
	tok := pgtest.Acquire(t, iss, "a")
	sleeper := enqueue(t, asleep, "b", 3*time.Second)
	third := enqueue(t, iss, "c", long)
	w.hold(true)
	require.NoError(t, iss.Release(t.Context(), tok))
	c := <-third // when the server has ended the paused waiter's session, a second later
	require.NoError(t, c.Err)
	w.hold(false)
	pgtest.Await(t, func() bool { return len(sleeper) > 0 || len(processes(t, iss, false)) == 1 })
	require.Empty(t, sleeper, "it joins the end of the queue again")
	require.Len(t, processes(t, iss, true), 1)
	require.NoError(t, iss.Release(t.Context(), c.Grant.Token))
	b := <-sleeper
	require.NoError(t, b.Err)
	require.Greater(t, b.Grant.Token.Number, c.Grant.Token.Number)
}

var errGone = errors.New("the caller has gone")

func TestCancelledAcquireLeavesNoLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := issuer(t, pool, schema)
	pgtest.Cycle(t, iss, "earlier")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	pgtest.Query[int](t, tx, "SELECT 1 FROM "+pgtest.In(schema, "advisory")+" FOR UPDATE") // the lock's holder waits for its number
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := pgtest.Later(t, func() error {
		_, err := iss.Acquire(ctx, resource, "a", long)
		return err
	})
	pgtest.AwaitLockWaiters(t, pool, schema, 1)
	other := issuer(t, pool, schema)
	_, err = other.Acquire(t.Context(), resource, "b", long)
	require.ErrorIs(t, err, token.ErrHeld)
	cancel(errGone)
	require.ErrorIs(t, failed(), errGone)
	require.NoError(t, tx.Rollback(t.Context()))
	require.ErrorIs(t, iss.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "a"}), token.ErrLost)
	require.NoError(t, other.Release(t.Context(), pgtest.Acquire(t, other, "b")), "at once: the session has ended")
}

func TestCancelledWaiterLeavesTheQueue(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := issuer(t, pool, schema)
	tok := pgtest.Acquire(t, iss, "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := pgtest.Later(t, func() error {
		_, err := iss.Wait(ctx, resource, "b", long)
		return err
	})
	pgtest.Await(t, func() bool { return len(processes(t, iss, false)) == 1 })
	cancel(errGone)
	err := left()
	require.ErrorIs(t, err, errGone)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "a", held.Holder)
	require.Equal(t, long, held.Remaining)
	require.Empty(t, processes(t, iss, false), "the queue is empty")
	require.NoError(t, iss.Release(t.Context(), tok))
	pgtest.Cycle(t, iss, "c")
}

func TestLockOutlivesACancelledRenewal(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	w, pool := wired(t)
	iss := issuer(t, pool, schema)
	tok := pgtest.Acquire(t, iss, "a")
	naive, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer naive.Release()

	w.hold(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	cut, left := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := naive.Exec(ctx, "SELECT")
		cut <- err
	}()
	go func() {
		_, err := iss.Renew(ctx, tok, long)
		left <- err
	}()
	w.awaitBlocked(t, 2) // both were sent
	cancel(errGone)
	err = <-left
	require.ErrorIs(t, err, errGone)
	require.NotErrorIs(t, err, token.ErrLost)
	w.hold(false)
	require.Error(t, <-cut)
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), tok))
	require.True(t, naive.Conn().IsClosed(), "a call that is cut off costs the connection, and so the lock")
}
