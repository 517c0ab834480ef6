package simulations_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/internal/test/pausetest"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// A write that was sent in good time and arrives late:
//
//	A holds the lock, sends its write     the network holds it
//	the lease runs out
//	B gets the lock, reads, writes
//	the network delivers A's write
//
// A check by A does not help: it was right when A made it.
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
	twin := func(b *bank, ctx context.Context, balance int) error {
		return guarded(b, failpoint.Unguarded(ctx), balance)
	}
	t.Run("is refused by the server, when A learns of it", func(t *testing.T) {
		t.Parallel()
		b, answer := late(t, guarded)
		b.Heal(netfault.ToServer)
		require.ErrorIs(t, <-answer, guard.ErrStale)
		require.Equal(t, 110, b.balance(t), "the successor's value stands")
	})
	for name, c := range map[string]struct {
		write   lateWrite
		balance int
	}{
		"is refused by the server, after A has disconnected":               {guarded, 110}, // hazard G1 G2
		"report-only, the same packet overwrites the successor":            {twin, 50},
		"without a guard, A checks its lease, sends, and still overwrites": {unguarded, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, answer := late(t, c.write)
			b.hangUp(t)
			require.Error(t, <-answer)
			require.Equal(t, 110, b.balance(t))
			b.Blackhole(netfault.ToClient) // otherwise A's kernel resets the session, perhaps before its last statement
			b.Heal(netfault.ToServer)
			b.gone(t)
			require.Equal(t, c.balance, b.balance(t))
		})
	}
}

type lateWrite func(b *bank, ctx context.Context, balance int) error

// late returns when the network holds A's write of 50 and B has written 110. A's result
// is sent to the channel that it returns.
func late(t *testing.T, write lateWrite) (*bank, <-chan error) {
	t.Helper()
	ctx, b, answer := t.Context(), newBank(t), make(chan error, 1)
	l := newLocks(t)
	hold := func(holder string) (context.Context, token.Grant) {
		grant, err := l.direct.Acquire(ctx, resource, holder, time.Hour)
		require.NoError(t, err)
		require.NoError(t, b.direct.Admit(ctx, grant.Token))
		return token.NewContext(ctx, grant.Token), grant
	}
	earlier, grant := hold("earlier")
	require.NoError(t, write(b, earlier, b.balance(t)), "it prepares the statements: the next write is one packet")
	require.NoError(t, l.direct.Release(ctx, grant.Token))

	asA, grant := hold("writer-a")
	b.Blackhole(netfault.ToServer)
	require.True(t, time.Now().Before(grant.Until), "A holds the lock when it sends")
	go func() { answer <- write(b, asA, 100-50) }()
	holds(t, b.Proxy, netfault.ToServer)
	l.expires(t, grant.Token)

	successor, err := pausetest.ShortLease(l.direct)(ctx, resource, "writer-b")
	require.NoError(t, err)
	asB := token.NewContext(ctx, successor)
	require.NoError(t, b.direct.Admit(ctx, successor))
	_, err = b.direct.On(resource).Exec(asB, b.sets, b.balance(t)+10)
	require.NoError(t, err)
	return b, answer
}

func TestASlowNetwork(t *testing.T) {
	t.Parallel()
	t.Run("it is lost before another has it where they are not", func(t *testing.T) {
		t.Parallel()
		l := newLocks(t)
		var lease *lock.Lease
		shortLease(t, time.Second, func(a *lock.Locker) bool {
			a.Issuer = l.a
			if lease = acquireShort(t.Context(), t, a); lease == nil {
				return false
			}
			l.Blackhole(netfault.ToClient) // the renewals arrive, and their replies do not
			return l.lostInTime(t, lease)
		})
		next, err := (&lock.Locker{Issuer: l.direct, TTL: time.Hour, DangerouslyWithoutClaim: true}).Acquire(t.Context(), resource)
		require.NoError(t, err)
		l.Heal(netfault.Both)
		require.ErrorIs(t, lease.Release(t.Context()), token.ErrLost)
		require.NoError(t, next.Release(t.Context()))
	})
	t.Run("a grant that was longer on its way than it lasts is none", func(t *testing.T) {
		t.Parallel()
		l := newLocks(t)
		l.Blackhole(netfault.ToClient)
		a := &lock.Locker{Issuer: l.a, TTL: 100 * time.Millisecond, DangerouslyWithoutClaim: true}
		answer := make(chan error, 1)
		go func() { _, err := a.Acquire(t.Context(), resource); answer <- err }()
		holds(t, l.Proxy, netfault.ToClient)
		time.Sleep(a.TTL)
		l.Heal(netfault.ToClient)
		require.ErrorIs(t, <-answer, token.ErrLost)
	})
}

// hazard R6
func TestTheNumberOfAGrantWhoseReplyWasLostIsBurnt(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	ctx, leave := context.WithCancel(t.Context())
	l.Blackhole(netfault.ToClient)
	answer := make(chan error, 1)
	go func() { _, err := l.a.Acquire(ctx, resource, "a", time.Hour); answer <- err }()
	require.Eventually(t, func() bool { return l.value(t, "lock:") == "a" }, testTimeout, time.Millisecond, "the lock is granted")
	burnt := l.counter(t)
	leave()
	require.ErrorIs(t, <-answer, context.Canceled)
	l.expires(t, token.Token{Resource: resource, Number: burnt, Holder: "a"})

	next, err := (&lock.Locker{Issuer: l.direct, Name: "b", TTL: time.Hour, DangerouslyWithoutClaim: true}).Acquire(t.Context(), resource)
	require.NoError(t, err)
	require.Greater(t, next.Token().Number, burnt)
	require.NoError(t, next.Release(t.Context()))

	l.Heal(netfault.ToClient)
	again, err := l.a.Acquire(t.Context(), resource, "a again", time.Hour)
	require.NoError(t, err)
	require.Greater(t, again.Token.Number, next.Token().Number, "the late reply was taken for that to a later question")
	require.Equal(t, l.counter(t), again.Token.Number)
	require.NoError(t, l.a.Release(t.Context(), again.Token))
}

func TestAGrantThatArrivesLate(t *testing.T) {
	t.Parallel()
	l := newLocks(t)
	l.Blackhole(netfault.ToServer)
	ctx, leave := context.WithCancel(t.Context())
	answer := make(chan error, 1)
	go func() { _, err := l.a.Acquire(ctx, resource, "a", time.Hour); answer <- err }()
	holds(t, l.Proxy, netfault.ToServer)
	leave()
	require.ErrorIs(t, <-answer, context.Canceled)
	first, err := l.direct.Acquire(t.Context(), resource, "b", time.Hour)
	require.NoError(t, err)

	l.Heal(netfault.ToServer)
	delivered(t, l.Proxy)
	_, err = l.direct.Renew(t.Context(), first.Token, time.Hour)
	require.NoError(t, err, "a question that came late took the lock from its holder")
	require.NoError(t, l.direct.Release(t.Context(), first.Token))
}

type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// If a write's COMMIT gets no reply its outcome is unknown, and it must not be reported
// as refused.
func TestACommitThatIsNotAnsweredIsUnknown(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		hole    netfault.Way
		cut     netfault.Way
		balance int
	}{
		"the answer was lost, and the write was applied":       {netfault.ToClient, netfault.ToClient, 50},
		"the COMMIT was lost, and the write was not applied":   {netfault.ToServer, netfault.Both, 100},
		"the COMMIT came late, and the write was applied then": {netfault.ToServer, netfault.ToClient, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBank(t)
			ctx, leave := context.WithCancel(token.NewContext(t.Context(), token.Token{Resource: resource, Number: 33, Holder: "a"}))
			defer leave()
			commits := make(chan struct{})
			b.commits = func() { b.Blackhole(c.hole); close(commits) }
			answer := make(chan error, 1)
			go func() {
				answer <- b.a.Update(ctx, resource, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, b.sets, 50)
					return err
				})
			}()
			<-commits
			holds(t, b.Proxy, c.hole)
			b.Cut(c.cut)
			leave() // the guard asks once what became of the COMMIT, and cannot reach the server
			err := <-answer
			require.ErrorIs(t, err, guard.ErrUnknown)
			require.NotErrorIs(t, err, guard.ErrStale)
			b.Heal(c.hole)
			b.settled(t)
			b.Heal(netfault.Both) // a reset would drop data that the server has not read yet
			b.gone(t)
			require.Equal(t, c.balance, b.balance(t))
		})
	}
}
