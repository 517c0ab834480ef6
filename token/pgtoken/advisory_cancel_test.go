package pgtoken_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
)

var errGone = errors.New("the caller has gone")

func TestAdvisoryThatIsGivenUpLeavesNoLock(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := advisory(t, pool, schema)
	cycle(t, iss, "earlier")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(t.Context())
	query[int](t, tx, "SELECT 1 FROM "+in(schema, "advisory")+" FOR UPDATE") // whoever has the lock waits for its number
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := iss.Acquire(ctx, resource, "a", long)
		failed <- err
	}()
	awaitWaiters(t, pool, schema, 1)
	other := advisory(t, pool, schema)
	_, err = other.Acquire(t.Context(), resource, "b", long)
	require.ErrorIs(t, err, token.ErrHeld)
	cancel(errGone)
	require.ErrorIs(t, <-failed, errGone)
	require.NoError(t, tx.Rollback(t.Context()))
	require.ErrorIs(t, iss.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "a"}), token.ErrLost)
	require.NoError(t, other.Release(t.Context(), acquire(t, other, "b")), "at once: the session has ended")
}

func TestAdvisoryLineIsLeftByWhoGivesUp(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	iss := advisory(t, pool, schema)
	tok := acquire(t, iss, "a")
	ctx, cancel := context.WithCancelCause(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := iss.Wait(ctx, resource, "b", long)
		left <- err
	}()
	require.Eventually(t, func() bool { return len(processes(t, iss, false)) == 1 }, time.Minute, time.Millisecond)
	cancel(errGone)
	err := <-left
	require.ErrorIs(t, err, errGone)
	var held *token.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, "a", held.Holder)
	require.Equal(t, long, held.Remaining)
	require.Empty(t, processes(t, iss, false), "nobody stands in line")
	require.NoError(t, iss.Release(t.Context(), tok))
	cycle(t, iss, "c")
}

func TestAdvisoryOutlivesARenewalThatIsGivenUp(t *testing.T) {
	t.Parallel()
	_, schema := testenv.Postgres(t)
	w, pool := wired(t)
	iss := advisory(t, pool, schema)
	tok := acquire(t, iss, "a")
	naive, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer naive.Release()

	w.hold(true)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, errGone)
	defer cancel()
	cut := make(chan error, 1)
	go func() {
		_, err := naive.Exec(ctx, "SELECT")
		cut <- err
	}()
	_, err = iss.Renew(ctx, tok, long)
	require.ErrorIs(t, err, errGone)
	require.NotErrorIs(t, err, token.ErrLost)
	w.hold(false)
	require.Error(t, <-cut)
	_, err = iss.Renew(t.Context(), tok, long)
	require.NoError(t, err)
	require.NoError(t, iss.Release(t.Context(), tok))
	require.True(t, naive.Conn().IsClosed(), "a call that is cut off costs the connection, and so the lock")
}
