package simulations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

// ttl and margin leave half a second to a busy machine between the end of a
// lease's context and the end of its lock.
const ttl, margin = time.Second, 500 * time.Millisecond

// While A holds the lock it is cut off from Redis, and only from that.
func TestAHolderThatIsCutOffFromItsLock(t *testing.T) {
	t.Parallel()
	t.Run("loses it before another has it, and its late write is refused", func(t *testing.T) {
		t.Parallel()
		b := newBank(t)
		err := cutOff(t.Context(), t, b)
		require.ErrorIs(t, err, guard.ErrStale)
		require.Equal(t, 110, b.balance(t), "the successor's value stands")
	})
	t.Run("observe-only, its late write overwrites the successor", func(t *testing.T) {
		t.Parallel()
		b := newBank(t)
		require.NoError(t, cutOff(point.Observe(t.Context()), t, b))
		require.Equal(t, 50, b.balance(t))
	})
}

// cutOff returns what A's late write of 50 was answered, after B has written.
func cutOff(ctx context.Context, t *testing.T, b *bank) error {
	t.Helper()
	l := newLocks(t)
	a := &token.Locker{Issuer: l.a, Name: "a", TTL: ttl, Margin: margin, Claim: b.a.Admit}
	lease, err := a.Acquire(ctx, resource)
	require.NoError(t, err)
	seen := b.balance(t)
	l.Blackhole(proxy.Both)

	next := &token.Locker{Issuer: l.direct, Name: "b", TTL: time.Minute, Claim: b.direct.Admit}
	err = next.Hold(t.Context(), resource, func(ctx context.Context) error {
		require.ErrorIs(t, context.Cause(lease.Context()), token.ErrLost, "B has what A believes to hold") // hazard L1
		require.Positive(t, l.Held(proxy.ToServer), "A has tried to renew")
		l.Heal(proxy.Both)
		delivered(t, l.Proxy)
		require.Contains(t, l.value(t, "lock:"), "b:", "A's renewal, which came late, took the lock back") // hazard L4 R7
		_, err := b.direct.On(resource).Exec(ctx, b.sets, b.balance(t)+10)
		return err
	})
	require.NoError(t, err)

	// A has not looked at its context.
	_, err = b.a.On(resource).Exec(token.NewContext(ctx, lease.Token()), b.sets, seen-50)
	require.ErrorIs(t, lease.Release(t.Context()), token.ErrLost)
	return err
}
