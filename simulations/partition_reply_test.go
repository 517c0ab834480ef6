package simulations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

// hazard R6
func TestTheNumberOfAGrantWhoseReplyWasLostIsBurnt(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	ctx, leave := context.WithCancel(t.Context())
	l.Blackhole(proxy.ToClient)
	answer := make(chan error, 1)
	go func() { _, err := l.a.Acquire(ctx, resource, "a", ttl); answer <- err }()
	require.Eventually(t, func() bool { return l.value(t, "lock:") == "a" }, patience, time.Millisecond, "the lock is granted")
	burnt := l.counter(t)
	leave()
	require.ErrorIs(t, <-answer, context.Canceled)

	next, err := (&token.Locker{Issuer: l.direct, Name: "b", TTL: time.Minute}).Acquire(t.Context(), resource)
	require.NoError(t, err)
	require.Greater(t, next.Token().Number, burnt)
	require.NoError(t, next.Release(t.Context()))

	l.Heal(proxy.ToClient)
	again, err := l.a.Acquire(t.Context(), resource, "a again", time.Minute)
	require.NoError(t, err)
	require.Greater(t, again.Token.Number, next.Token().Number, "the late reply was taken for that to a later question")
	require.Equal(t, l.counter(t), again.Token.Number)
	require.NoError(t, l.a.Release(t.Context(), again.Token))
}

func TestAGrantThatArrivesLate(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	l.Blackhole(proxy.ToServer)
	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { _, err := l.a.Acquire(ctx, resource, "a", ttl); answer <- err }()
	holds(t, l.Proxy, proxy.ToServer)
	leave()
	require.ErrorIs(t, <-answer, context.Canceled)
	first, err := l.direct.Acquire(t.Context(), resource, "b", time.Minute)
	require.NoError(t, err)

	l.Heal(proxy.ToServer)
	delivered(t, l.Proxy)
	_, err = l.direct.Renew(t.Context(), first.Token, time.Minute)
	require.NoError(t, err, "a question that came late took the lock from its holder")
	require.NoError(t, l.direct.Release(t.Context(), first.Token))
}
