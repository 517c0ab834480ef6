package redistoken_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestAWaiterThatHasLeftDoesNotKeepWhatIsHandedToItLater(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	plain := &redistoken.Issuer{Client: server.Client()}
	cycle(t, plain, "first") // the server has the scripts
	holder := acquire(t, plain, "slow-1")
	client, slow := blocking(t, server.Addr(), "slow-1")
	iss := closing(t, &redistoken.Issuer{Client: client})
	ctx, cancel := context.WithCancel(t.Context())
	got := startWait(ctx, t, iss, server.Client(), "waiter", long)

	released := start(t.Context(), func(ctx context.Context) error { return iss.Release(ctx, holder) })
	<-slow.caught
	cancel()
	require.ErrorIs(t, (<-got).err, context.Canceled)
	slow.let() // the release names the waiter as next
	require.NoError(t, <-released)
	require.Eventually(t, func() bool { // the waiter's ttl is much longer
		return server.Client().Exists(t.Context(), lockKey("fencepost", resource)).Val() == 0
	}, testTimeout, 10*time.Millisecond)
	emptied(t, server.Client())
}

func TestAReleaseWhoseCallerHasReturnedStillNotifiesTheNextWaiter(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	plain := &redistoken.Issuer{Client: server.Client()}
	cycle(t, plain, "first") // the server has the scripts
	holder := acquire(t, plain, "slow-1")
	client, slow := blocking(t, server.Addr(), "slow-1")
	iss := closing(t, &redistoken.Issuer{Client: client})
	got := startWait(t.Context(), t, iss, server.Client(), "waiter", long)

	ctx, cancel := context.WithCancel(t.Context())
	released := start(ctx, func(ctx context.Context) error { return iss.Release(ctx, holder) })
	<-slow.caught
	cancel()
	require.ErrorIs(t, <-released, context.Canceled)
	before := scripts(t, server.Client())
	redistoken.PollNow(iss)
	require.Eventually(t, func() bool { return scripts(t, server.Client()) > before }, testTimeout, time.Millisecond,
		"the waiter polls, and is refused")
	slow.let()
	grant := awaitGrant(t, got)
	require.Less(t, time.Until(grant.Until), long/2, "it is handed over by the release, not granted by a poll a minute later")
}

func TestACallDoesNotWaitForAnotherOnesConnection(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client, slow := blocking(t, server.Addr(), "stuck")
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
	require.NoError(t, within(t, answer, "the call waits for a connection that it does not use"))
	slow.let()
	require.NoError(t, <-late)
}

// In an outage each connection waits for a reply. A call that gets none must be repeated like
// the others during a bounded wait.
func TestACallThatGetsNoConnectionIsAnOutage(t *testing.T) {
	t.Parallel()
	shared, prefix := testenv.Redis(t)
	options := *shared.Options()
	options.PoolSize, options.PoolTimeout, options.MaxRetries = 1, time.Millisecond, -1
	client := redis.NewClient(&options)
	t.Cleanup(func() { client.Close() })
	iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	tok := acquire(t, iss, "a")
	used := client.Conn()
	t.Cleanup(func() { used.Close() })
	require.NoError(t, used.Ping(t.Context()).Err())

	_, err := iss.Acquire(t.Context(), resource, "b", long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	_, err = iss.Wait(t.Context(), resource, "b", long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	_, err = iss.Renew(t.Context(), tok, long)
	require.ErrorIs(t, err, token.ErrUnreachable)
	require.ErrorIs(t, iss.Release(t.Context(), tok), token.ErrUnreachable)
	require.NoError(t, used.Close())
	require.NoError(t, iss.Release(t.Context(), tok))
}

// blocking returns a client of addr that once blocks a message that contains text.
func blocking(t *testing.T, addr, text string) (*redis.Client, *blockage) {
	t.Helper()
	s := &blockage{text: []byte(text), caught: make(chan struct{}), gate: gate{open: make(chan struct{})}}
	client := wrapped(t, &redis.Options{Addr: addr, MaxRetries: -1, ReadTimeout: time.Minute}, func(conn net.Conn) net.Conn {
		return &blockingConn{Conn: conn, blockage: s}
	})
	t.Cleanup(s.let)
	return client, s
}

type blockage struct {
	text   []byte
	once   sync.Once
	caught chan struct{} // closed when a message is blocked
	gate
}

type blockingConn struct {
	net.Conn
	*blockage
}

func (c *blockingConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, c.text) {
		c.blockage.once.Do(func() {
			close(c.caught)
			<-c.open
		})
	}
	return c.Conn.Write(p)
}

// A waiter gives up while its first request is on its way:
//
//  1. The request is sent on one connection, which is slow.
//  2. The waiter gives up, and releases on another connection, which is fast. It has no
//     lock yet.
//  3. The request arrives, and the lock is granted to a waiter that has returned, for its
//     whole ttl.
func TestAWaiterThatGivesUpIsNotGrantedTheLockAfterItHasLeft(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	left := func(ask func(ctx context.Context, iss *redistoken.Issuer) error) bool {
		ctx, giveUp := context.WithCancelCause(t.Context())
		slow := &overtaken{gaveUp: giveUp}
		c := slow.client(t, client.Options().Addr)
		defer c.Close()
		iss := &redistoken.Issuer{Client: c, Prefix: prefix}
		defer iss.Close()
		err := ask(ctx, iss)
		if err == nil {
			require.NoError(t, iss.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "waiter"}))
		} else {
			require.ErrorIs(t, err, errGaveUp)
		}
		<-slow.first.done
		return client.Del(t.Context(), lockKey(prefix, resource)).Val() == 0
	}
	cycle(t, &redistoken.Issuer{Client: client, Prefix: prefix}, "earlier") // the scripts are loaded

	// A waiter waits half a second for the reply, and the network delays a request by a
	// quarter of a second. A machine that stops for as long changes the order of events.
	// So there are many attempts; the first one usually suffices.
	seen := func(gone bool, ask func(ctx context.Context, iss *redistoken.Issuer) error) bool {
		for range 100 {
			if left(ask) == gone {
				return true
			}
		}
		return false
	}
	require.True(t, seen(true, func(ctx context.Context, iss *redistoken.Issuer) error {
		_, err := iss.Wait(ctx, resource, "waiter", long)
		return err
	}), "the lock must be free when the waiter has left")

	t.Run("a caller that leaves at once has it all the same", func(t *testing.T) {
		require.True(t, seen(false, func(ctx context.Context, iss *redistoken.Issuer) error {
			_, err := iss.Acquire(ctx, resource, "waiter", long)
			if err != nil {
				_ = iss.Release(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "waiter"})
			}
			return err
		}))
	})
}

var errGaveUp = errors.New("the waiter gives up")

// overtaken is a network on which the first script, whose caller gives up, arrives after
// the next request on another connection, if there is one soon.
type overtaken struct {
	gaveUp         context.CancelCauseFunc
	scripts        atomic.Int32
	first, another answered
}

// answered is closed when the reply has arrived.
type answered struct {
	once sync.Once
	done chan struct{}
}

func (o *overtaken) client(t *testing.T, addr string) *redis.Client {
	o.first.done, o.another.done = make(chan struct{}), make(chan struct{})
	return wrapped(t, &redis.Options{Addr: addr, MaxRetries: -1}, func(conn net.Conn) net.Conn {
		return &overtakenConn{Conn: conn, net: o}
	})
}

type overtakenConn struct {
	net.Conn
	net  *overtaken
	sent atomic.Pointer[answered]
}

func (c *overtakenConn) Write(p []byte) (int, error) {
	if !bytes.Contains(p, []byte("evalsha")) {
		return c.Conn.Write(p)
	}
	if c.net.scripts.Add(1) > 1 {
		c.sent.Store(&c.net.another)
		return c.Conn.Write(p)
	}
	c.net.gaveUp(errGaveUp)
	select {
	case <-c.net.another.done:
	case <-time.After(250 * time.Millisecond):
	}
	c.sent.Store(&c.net.first)
	return c.Conn.Write(p)
}

func (c *overtakenConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if sent := c.sent.Load(); sent != nil {
		sent.once.Do(func() { close(sent.done) })
	}
	return n, err
}

// hazard R6
func TestLostReplyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	server, prefix := testenv.Redis(t)
	options := *server.Options()
	options.MaxRetries = -1
	client, lose := losing(t, &options)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	earlier := cycle(t, iss, "earlier") // the server has the scripts, and there is a connection

	lose.Store(true)
	_, err := iss.Acquire(t.Context(), resource, "a", long)
	require.Error(t, err)
	require.NotErrorIs(t, err, token.ErrHeld)
	require.Equal(t, "a", server.Get(t.Context(), lockKey(prefix, resource)).Val(), "the request must have been done")
	burnt, err := server.Get(t.Context(), counterKey(prefix, resource)).Int64()
	require.NoError(t, err)

	_, err = iss.Acquire(t.Context(), resource, "b", long)
	require.ErrorIs(t, err, token.ErrHeld)
	found := acquire(t, iss, "a")
	require.Greater(t, burnt, earlier.Number)
	require.Greater(t, found.Number, burnt)
	require.NoError(t, iss.Release(t.Context(), found))

	t.Run("SET NX keeps its own holder out", func(t *testing.T) {
		lock := prefix + ":naive"
		require.NoError(t, client.Ping(t.Context()).Err())
		lose.Store(true)
		require.Error(t, client.SetNX(t.Context(), lock, "a", long).Err())
		again, err := client.SetNX(t.Context(), lock, "a", long).Result()
		require.NoError(t, err)
		require.False(t, again, "the holder must find itself shut out")
	})
}

// A request that was sent before the lease was renewed may arrive late or twice.
//
// hazard R6
func TestAnOlderRequestDoesNotShortenTheLease(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := closing(t, &redistoken.Issuer{Client: client, Prefix: prefix})
	lock := lockKey(prefix, resource)
	for verb, again := range map[string]func(context.Context, string, string, time.Duration) (token.Grant, error){
		"Acquire": iss.Acquire, "Wait": iss.Wait,
	} {
		tok := acquire(t, iss, "a")
		grant, err := again(t.Context(), resource, "a", time.Second)
		require.NoError(t, err, verb)
		require.Greater(t, grant.Token.Number, tok.Number, verb)
		require.Greater(t, client.PTTL(t.Context(), lock).Val(), long/2, verb)
		require.LessOrEqual(t, time.Until(grant.Until), time.Second, verb)
		require.NoError(t, iss.Release(t.Context(), grant.Token), verb)
	}
	t.Run("a lease without expiry is given one", func(t *testing.T) {
		require.NoError(t, client.Set(t.Context(), lock, "a", 0).Err())
		acquire(t, iss, "a")
		require.Positive(t, client.PTTL(t.Context(), lock).Val())
	})
}

// hazard R6
func TestClientThatRetriesByItself(t *testing.T) {
	t.Parallel()
	server, prefix := testenv.Redis(t)
	options := *server.Options()
	client, lose := losing(t, &options)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	earlier := cycle(t, iss, "earlier")

	lose.Store(true)
	found := acquire(t, iss, "a")
	require.Greater(t, found.Number, earlier.Number)
	require.NoError(t, iss.Release(t.Context(), found))
}

// losing returns a client that loses its connection, and the next reply, once lose is true.
func losing(t *testing.T, options *redis.Options) (client *redis.Client, lose *atomic.Bool) {
	t.Helper()
	lose = new(atomic.Bool)
	return wrapped(t, options, func(conn net.Conn) net.Conn { return losingConn{conn, lose} }), lose
}

type losingConn struct {
	net.Conn
	lose *atomic.Bool
}

func (c losingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil && c.lose.CompareAndSwap(true, false) {
		_ = c.Close()
		return 0, io.EOF
	}
	return n, err
}
