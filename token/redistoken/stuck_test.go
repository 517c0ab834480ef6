package redistoken_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestAWaiterThatHasLeftDoesNotKeepWhatIsHandedToItLater(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	plain := &redistoken.Issuer{Client: server.Client()}
	cycle(t, plain, "first") // the server knows the scripts
	holder := acquire(t, plain, "slow-1")
	client, slow := stuck(t, server.Addr(), "slow-1")
	iss := closing(t, &redistoken.Issuer{Client: client})
	ctx, cancel := context.WithCancel(t.Context())
	got := waits(ctx, t, iss, server.Client(), "waiter", long)

	released := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, holder) })
	<-slow.caught
	cancel()
	require.ErrorIs(t, (<-got).err, context.Canceled)
	slow.let() // the release says that the waiter is next
	require.NoError(t, <-released)
	require.Eventually(t, func() bool { // the waiter's ttl is much longer
		return server.Client().Exists(t.Context(), lockKey("fencepost", resource)).Val() == 0
	}, 20*time.Second, 10*time.Millisecond)
	emptied(t, server.Client())
}

func TestAReleaseWhoseCallerHasGoneStillTellsWhoIsNext(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	plain := &redistoken.Issuer{Client: server.Client()}
	cycle(t, plain, "first") // the server knows the scripts
	holder := acquire(t, plain, "slow-1")
	client, slow := stuck(t, server.Addr(), "slow-1")
	iss := closing(t, &redistoken.Issuer{Client: client})
	got := waits(t.Context(), t, iss, server.Client(), "waiter", long)

	ctx, cancel := context.WithCancel(t.Context())
	released := start(ctx, func(ctx context.Context) error { return iss.Release(ctx, holder) })
	<-slow.caught
	time.Sleep(50 * time.Millisecond) // so long that the others do not wait for its connection
	cancel()
	require.ErrorIs(t, <-released, context.Canceled)
	time.Sleep(200 * time.Millisecond) // the waiter asks, and is refused
	slow.let()
	select {
	case r := <-got:
		require.NoError(t, r.err)
	case <-time.After(10 * time.Second): // it would ask again after a minute
		t.Fatal("the lock is the waiter's, and nobody tells it")
	}
}

func TestACallDoesNotWaitForAnotherOnesConnection(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client, slow := stuck(t, server.Addr(), "stuck")
	iss := &redistoken.Issuer{Client: client}
	cycle(t, iss, "first")
	late := start(t.Context(), func(ctx context.Context) error {
		_, err := iss.Acquire(ctx, "another", "stuck", long)
		return err
	})
	<-slow.caught
	answer := start(t.Context(), func(ctx context.Context) error {
		_, err := iss.Acquire(ctx, resource, "b", long)
		return err
	})
	select {
	case err := <-answer:
		require.NoError(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for a connection that it does not use")
	}
	slow.let()
	require.NoError(t, <-late)
}

// stuck is a client of addr that keeps back what holds text, once.
func stuck(t *testing.T, addr, text string) (*redis.Client, *stuckness) {
	t.Helper()
	s := &stuckness{text: []byte(text), caught: make(chan struct{}), gate: gate{open: make(chan struct{})}}
	client := redis.NewClient(&redis.Options{
		Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &stuckConn{Conn: conn, stuckness: s}, nil
		},
	})
	t.Cleanup(func() { client.Close() })
	t.Cleanup(s.let)
	return client, s
}

type stuckness struct {
	text   []byte
	once   sync.Once
	caught chan struct{} // is closed when something is kept back
	gate
}

type stuckConn struct {
	net.Conn
	*stuckness
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.text) {
		c.stuckness.once.Do(func() {
			close(c.caught)
			<-c.open
		})
	}
	return c.Conn.Write(p)
}
