package leader_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/leader"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

const kept = time.Hour

// term is a term of one leader.
type term struct {
	tok     token.Token
	leaders int32      // that were in their terms when it began, this one included
	resign  chan error // ends the term
	deposed chan error // with the cause
}

// stand lets instances stand for election until the test ends, and returns their terms as
// they begin. A TTL of kept does not expire on a slow machine.
func stand(t *testing.T, issuer token.Issuer, instances int, ttl time.Duration) <-chan *term {
	terms := make(chan *term)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	var leaders atomic.Int32
	for range instances {
		c := &leader.Candidate{
			Locks: &lock.Locker{Issuer: issuer, TTL: ttl, DangerouslyWithoutClaim: true}, Role: role, Pause: time.Millisecond,
			Lead: func(ctx context.Context) error { return lead(ctx, terms, &leaders) },
		}
		go func() { ended <- c.Run(ctx) }()
	}
	t.Cleanup(func() {
		cancel()
		for range instances {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
	})
	return terms
}

func lead(ctx context.Context, terms chan<- *term, leaders *atomic.Int32) error {
	tok, err := token.FromContext(ctx, role)
	if err != nil {
		return err
	}
	defer leaders.Add(-1) // while it has the lock
	now := &term{tok: tok, leaders: leaders.Add(1), resign: make(chan error, 1), deposed: make(chan error, 1)}
	select {
	case terms <- now:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-now.resign:
		return err
	case <-ctx.Done():
		now.deposed <- context.Cause(ctx)
		return context.Cause(ctx)
	}
}

func next(t *testing.T, terms <-chan *term) *term {
	select {
	case now := <-terms:
		return now
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "no instance leads")
		return nil
	}
}

// requireHeld requires that no other instance can lead now.
func requireHeld(t *testing.T, issuer token.Issuer) {
	_, err := issuer.Acquire(t.Context(), role, "another", kept)
	require.ErrorIs(t, err, token.ErrHeld)
}

func redisIssuer(t *testing.T) token.Issuer {
	client, prefix := testenv.Redis(t)
	return &redistoken.Issuer{Client: client, Prefix: prefix}
}
