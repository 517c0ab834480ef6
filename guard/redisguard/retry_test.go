package redisguard_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/guard/redisguard"
)

// failover is a client whose first connection leads to a master that is one no
// more, and answers READONLY. The others lead to the one that is, through next.
func failover(t *testing.T, is *server, next func(net.Conn) net.Conn) *redis.Client {
	t.Helper()
	was := serve(t)
	host, port, err := net.SplitHostPort(is.Addr())
	require.NoError(t, err)
	require.NoError(t, was.client().Do(t.Context(), "replicaof", host, port).Err())
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

// READONLY is an answer: nothing has run, so that the next try is no second time.
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

// One answer that was an error does not vouch for the next, which is lost.
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

// lossy loses the answers to scripts, and the connection with them.
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
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "it was sent, and nobody waited for what became of it")
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
