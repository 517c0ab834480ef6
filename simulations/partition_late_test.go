package simulations_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/paused"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

// A write that was sent in good time and arrives late:
//
//	A holds the lock, sends its write     the network holds it
//	the lease runs out
//	B gets the lock, reads, writes
//	the network delivers A's write
//
// No check on A's side can help: it was right when A made it.
func TestThePacketThatArrivesLate(t *testing.T) {
	t.Parallel()
	guarded := func(b *bank, ctx context.Context, balance int) error {
		_, err := b.a.On(resource).Exec(ctx, b.sets, balance)
		return err
	}
	unguarded := func(b *bank, ctx context.Context, balance int) error {
		_, err := b.a.DB.(execer).Exec(ctx, b.sets, balance)
		return err
	}
	twin := func(b *bank, ctx context.Context, balance int) error { return guarded(b, point.Observe(ctx), balance) }
	t.Run("is refused by the server, when A hears of it", func(t *testing.T) {
		t.Parallel()
		b, answer := late(t, guarded)
		b.Heal(proxy.ToServer)
		require.ErrorIs(t, <-answer, guard.ErrStale)
		require.Equal(t, 110, b.balance(t), "the successor's value stands")
	})
	for name, c := range map[string]struct {
		write   lateWrite
		balance int
	}{
		"is refused by the server, when A has long gone":                   {guarded, 110}, // hazard G1 G2
		"observe-only, the same packet overwrites the successor":           {twin, 50},
		"without a guard, A checks its lease, sends, and still overwrites": {unguarded, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, answer := late(t, c.write)
			b.hangUp(t)
			require.Error(t, <-answer)
			require.Equal(t, 110, b.balance(t))
			b.Blackhole(proxy.ToClient) // or A's kernel resets the session, perhaps before its last statement
			b.Heal(proxy.ToServer)
			b.gone(t)
			require.Equal(t, c.balance, b.balance(t))
		})
	}
}

type lateWrite func(b *bank, ctx context.Context, balance int) error

// late returns when A's write of 50 is held by the network and B has written
// 110, and where A will be answered.
func late(t *testing.T, write lateWrite) (*bank, <-chan error) {
	t.Helper()
	ctx, b, answer := t.Context(), newBank(t), make(chan error, 1)
	l := newLocks(t)
	hold := func(holder string) (context.Context, token.Grant) {
		grant, err := l.direct.Acquire(ctx, resource, holder, ttl)
		require.NoError(t, err)
		require.NoError(t, b.direct.Admit(ctx, grant.Token))
		return token.NewContext(ctx, grant.Token), grant
	}
	earlier, grant := hold("earlier")
	require.NoError(t, write(b, earlier, b.balance(t)), "it prepares the statements: the next write is one packet")
	require.NoError(t, l.direct.Release(ctx, grant.Token))

	asA, grant := hold("writer-a")
	b.Blackhole(proxy.ToServer)
	require.True(t, time.Now().Before(grant.Until), "A holds the lock when it sends")
	go func() { answer <- write(b, asA, 100-50) }()
	holds(t, b.Proxy, proxy.ToServer)

	successor, err := paused.Short(l.direct)(ctx, resource, "writer-b")
	require.NoError(t, err)
	asB := token.NewContext(ctx, successor)
	require.NoError(t, b.direct.Admit(ctx, successor))
	_, err = b.direct.On(resource).Exec(asB, b.sets, b.balance(t)+10)
	require.NoError(t, err)
	return b, answer
}
