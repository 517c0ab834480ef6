package redisguard_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/redisguard"
)

// failover returns a client whose first connection leads to a former master, now a
// replica, which replies READONLY. The others lead to the new master, through next.
func failover(t *testing.T, is *server, next func(net.Conn) net.Conn) *redis.Client {
	t.Helper()
	was := serve(t)
	was.ReplicaOf(is.RedisServer)
	var dials atomic.Int32
	return was.client(func(o *redis.Options) {
		o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) == 1 {
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			conn, err := new(net.Dialer).DialContext(context.WithoutCancel(ctx), network, is.Addr())
			if err != nil {
				return nil, err
			}
			return next(conn), nil
		}
	})
}

// After READONLY nothing has run, so the next attempt is the first that can apply the
// write.
func TestAWriteIsSentAgainToTheNewMaster(t *testing.T) {
	t.Parallel()
	for verb := range doors(nil, "", "") {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			is := serve(t)
			e := is.env()
			client := failover(t, is, func(conn net.Conn) net.Conn { return conn })
			require.NoError(t, doors(e.over(client), e.key, "x")[verb](with(t.Context(), 33, "a")))
			require.Equal(t, "33 a", e.mark())
		})
	}
}

// An error reply to one attempt does not decide the outcome of the next, whose reply is
// lost.
func TestAWriteIsNotSentAThirdTime(t *testing.T) {
	t.Parallel()
	is := serve(t)
	e := is.env()
	write := func(g *redisguard.Guard) error {
		_, err := g.Eval(with(t.Context(), 33, "a"), resource, increment, []string{e.key})
		return err
	}
	require.NoError(t, write(e.guard), "the new master knows the script")
	var tries atomic.Int32
	client := failover(t, is, func(conn net.Conn) net.Conn { return &lossy{Conn: conn, tries: &tries} })
	err := write(e.over(client))
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
	require.EqualValues(t, 1, tries.Load())
	require.Equal(t, "2", e.written())
}

// lossy drops the replies to scripts, and the connection with them.
type lossy struct {
	net.Conn
	tries *atomic.Int32
	asked bool
}

func (l *lossy) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("eval")) {
		l.asked = true
		l.tries.Add(1)
	}
	return l.Conn.Write(b)
}

func (l *lossy) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if l.asked && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func TestAWriteWhoseCallerLeavesBetweenTwoTriesIsNotSentAgain(t *testing.T) {
	t.Parallel()
	is := serve(t)
	e := is.env()
	dialing, release := make(chan struct{}, 100), make(chan struct{})
	client := failover(t, is, func(conn net.Conn) net.Conn {
		dialing <- struct{}{}
		<-release
		return conn
	})
	calls := &hook{}
	client.AddHook(calls)
	ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
	done := start(func() error { return e.over(client).Set(ctx, resource, e.key, "x", 0) })
	<-dialing
	cancel(errGone)
	err := await(t, done)
	require.ErrorIs(t, err, errGone)
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "it was sent, and its caller did not wait for the outcome")
	close(release)
	eventually(t, func() bool { return calls.returned() > 0 })
	require.Empty(t, e.written())
	require.Empty(t, e.mark())
}

func TestWithoutRetriesALostAnswerIsUnknownToo(t *testing.T) {
	t.Parallel()
	for verb := range doors(nil, "", "") {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, p := e.far(func(o *redis.Options) { o.MaxRetries = -1 })
			done := e.hold(p, func() error { return doors(e.over(client), e.key, "x")[verb](with(t.Context(), 33, "a")) })
			cut(p)
			err := await(t, done)
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.NotContains(t, err.Error(), "not sent again")
		})
	}
}

const increment = "return redis.call('INCR', KEYS[1])"

// hazards R6, G43
func TestNothingIsAppliedTwice(t *testing.T) {
	t.Parallel()
	t.Run("a plain script is sent again, and applied twice", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, p := e.far(func(o *redis.Options) { o.MaxRetries, o.MinRetryBackoff = 20, time.Millisecond })
		naive := redis.NewScript(increment)
		done := e.hold(p, func() error { return naive.Run(t.Context(), client, []string{e.key}).Err() })
		cut(p)
		require.NoError(t, await(t, done))
		require.Equal(t, "2", e.written(), "it must be applied twice")
	})
	t.Run("a guarded one is applied once, and unknown", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, p := e.far()
		for range 3 {
			done := e.hold(p, func() error {
				_, err := e.over(client).Eval(with(t.Context(), 33, "a"), resource, increment, []string{e.key})
				return err
			})
			cut(p)
			err := await(t, done)
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.ErrorContains(t, err, "not sent again: ")
			require.Equal(t, "1", e.written(), "once, and the client goes on")
		}
	})
	t.Run("nor is a script that the server had not cached", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, p := e.far()
		write := func(script string) error {
			_, err := e.over(client).Eval(with(t.Context(), 33, "a"), resource, script, []string{e.key})
			return err
		}
		require.NoError(t, write("return 1"), "the connection is up")
		p.Blackhole(netfault.ToClient)
		done := start(func() error { return write(increment + " -- " + e.key) })
		eventually(t, func() bool { return p.Held(netfault.ToClient) > 0 }, "NOSCRIPT, which will not arrive")
		cut(p)
		err := await(t, done)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "its outcome cannot be known: %v", err)
		require.Empty(t, e.written())
	})
}

// A refusal promises that nothing was applied.
func TestARefusalIsNeverOfAWriteThatWasApplied(t *testing.T) {
	t.Parallel()
	t.Run("a naive guard refuses what it has applied", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, p := e.far()
		naive := redis.NewScript(`if tonumber(redis.call('GET', KEYS[1]) or '0') > tonumber(ARGV[1]) then return 'stale' end
			redis.call('SET', KEYS[1], ARGV[1])
			redis.call('SET', KEYS[2], ARGV[2])
			return 'applied'`)
		write := func(client *redis.Client, number int, value string) (any, error) {
			return naive.Run(t.Context(), client, []string{e.key + ":mark", e.key}, number, value).Result()
		}
		var said any
		done := e.hold(p, func() (err error) { said, err = write(client, 33, "late"); return err })
		require.Equal(t, "late", e.written())
		_, err := write(e.client, 34, "newer")
		require.NoError(t, err)
		cut(p)
		require.NoError(t, await(t, done))
		require.Equal(t, "stale", said, "the naive guard must refuse a write that it has applied")
	})
	for verb := range doors(nil, "", "") {
		t.Run(verb+" is unknown", func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, p := e.far()
			late := doors(e.over(client), e.key, "late")[verb]
			done := e.hold(p, func() error { return late(with(t.Context(), 33, "a")) })
			require.NoError(t, doors(e.guard, e.key, "newer")[verb](with(t.Context(), 34, "b")))
			cut(p)
			err := await(t, done)
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.ErrorIs(t, late(with(t.Context(), 33, "a")), guard.ErrStale, "and this was not applied")
		})
	}
}

func TestAdmitAndMintAreSentAgain(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client, p := e.far()
	far := e.over(client)
	held := func(do func() error) (done <-chan error, mark string) {
		before := e.mark()
		p.Blackhole(netfault.ToClient)
		done = start(do)
		eventually(t, func() bool { return e.mark() != before })
		return done, e.mark()
	}
	require.NoError(t, far.Admit(t.Context(), tok(33, "a")))
	done, mark := held(func() error { return far.Admit(t.Context(), tok(34, "b")) })
	require.Equal(t, "34 b", mark)
	cut(p)
	require.NoError(t, await(t, done))

	_, err := far.Mint(t.Context(), resource, "c")
	require.NoError(t, err)
	minted := ""
	done, burnt := held(func() error {
		found, err := mintedToken(far.Mint(t.Context(), resource, "d"))
		minted = fmt.Sprintf("%d d", found.Number)
		return err
	})
	cut(p)
	require.NoError(t, await(t, done))
	require.Equal(t, e.mark(), minted)
	require.NotEqual(t, burnt, minted)
}
