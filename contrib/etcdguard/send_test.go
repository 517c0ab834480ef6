package etcdguard_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/token"
)

// relay is a proxy of gRPC in front of the server. It forwards transactions, and answers the
// first with an error: after the server has applied it, or instead of forwarding it.
type relay struct {
	pb.KVServer
	to      pb.KVClient
	answer  error
	applied func() // called when the first was applied; nil if it is not forwarded
	arrived atomic.Int32
}

func (r *relay) Txn(ctx context.Context, in *pb.TxnRequest) (*pb.TxnResponse, error) {
	first := r.arrived.Add(1) == 1
	if first && r.applied == nil {
		return nil, r.answer
	}
	resp, err := r.to.Txn(ctx, in)
	if !first || err != nil {
		return resp, err
	}
	r.applied()
	return nil, r.answer
}

// behind returns a client behind a relay.
func (e *env) behind(answer error, applied func()) (*clientv3.Client, *relay) {
	e.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(e, err)
	r := &relay{to: pb.NewKVClient(e.client.ActiveConnection()), answer: answer, applied: applied}
	server := grpc.NewServer()
	pb.RegisterKVServer(server, r)
	go func() { _ = server.Serve(listener) }() // until Stop
	e.Cleanup(server.Stop)
	return connect(e.T, listener.Addr().String()), r
}

// hazards G43, G44
func TestATransactionIsSentOnce(t *testing.T) {
	t.Parallel()
	canceled := status.Error(codes.Canceled, "stream terminated by RST_STREAM with error code: CANCEL")
	t.Run("clientv3 sends a plain one again, and it is applied twice", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, relay := e.behind(canceled, func() {})
		_, err := client.Txn(t.Context()).Then(clientv3.OpPut(e.key, "x")).Commit()
		require.NoError(t, err)
		require.EqualValues(t, 2, relay.arrived.Load())
		_, version := e.get(e.key)
		require.EqualValues(t, 2, version)
	})
	t.Run("a naive guard refuses what it has applied", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		naive := func(client *clientv3.Client, number, what string) (bool, error) {
			resp, err := client.Txn(t.Context()).If(clientv3.Compare(clientv3.Value(e.key+"/mark"), ">", number)).
				Else(clientv3.OpPut(e.key+"/mark", number), clientv3.OpPut(e.key, what)).Commit()
			return err == nil && resp.Succeeded, err
		}
		client, _ := e.behind(canceled, func() {
			assert.Equal(t, "late", e.written())
			refused, err := naive(e.client, "34", "newer")
			assert.NoError(t, err)
			assert.False(t, refused)
		})
		refused, err := naive(client, "33", "late")
		require.NoError(t, err)
		require.True(t, refused, "it was applied")
	})
	for name, answer := range map[string]error{
		"canceled":            canceled,
		"deadline exceeded":   status.Error(codes.DeadlineExceeded, "the proxy's own"),
		"unavailable":         rpctypes.ErrGRPCTimeout,
		"space exceeded":      rpctypes.ErrGRPCNoSpace, // as etcd does, if the quota was reached between its check and the application
		"a text of no server": status.Error(codes.PermissionDenied, "the proxy's own"),
	} {
		t.Run("a guarded one is applied once, and unknown: "+name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, relay := e.behind(answer, func() { assert.NoError(t, e.guard.Admit(t.Context(), tok(34, "b"))) })
			err := e.put(with(t.Context(), 33, "a"), e.over(client), "late")
			require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
			require.ErrorContains(t, err, "etcdguard: txn account/42: guard: outcome unknown: ")
			require.ErrorContains(t, err, status.Convert(answer).Message())
			require.Equal(t, status.Code(answer) == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded))
			require.EqualValues(t, 1, relay.arrived.Load())
			_, version := e.get(e.key)
			require.EqualValues(t, 1, version)
			require.ErrorIs(t, e.put(with(t.Context(), 33, "a"), e.over(client), "again"), guard.ErrStale, "the client goes on")
			require.Equal(t, "late", e.written())
		})
	}
	t.Run("a claim is not unknown", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, relay := e.behind(canceled, func() {})
		err := e.over(client).Admit(t.Context(), tok(33, "a"))
		require.ErrorContains(t, err, "etcdguard: admit account/42: ")
		require.Empty(t, outcomes(err))
		require.EqualValues(t, 1, relay.arrived.Load())
	})
}

func TestALostReplyIsUnknown(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	g, p := e.far()
	done := e.hold(p, func() error { return e.put(with(t.Context(), 33, "a"), g, "late") })
	require.NoError(t, e.put(with(t.Context(), 34, "b"), e.guard, "newer"))
	p.Reset()
	p.Heal(netfault.Both)
	err := await(t, done)
	require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "%v", err)
	_, version := e.get(e.key)
	require.EqualValues(t, 2, version, "once, and the newer one")
	eventually(t, func() bool { _, err = g.Client.Get(t.Context(), e.key); return err == nil })
	require.ErrorIs(t, e.put(with(t.Context(), 33, "a"), g, "again"), guard.ErrStale, "and this was not applied")
}

// clientv3 waits for a connection until the context ends.
func TestWithoutAConnectionNothingIsSent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	g := e.over(connect(t, listener.Addr().String()))
	ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
	done := start(func() error { return e.put(ctx, g, "x") })
	conn, err := listener.Accept()
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	cancel(errGone)
	err = await(t, done)
	require.ErrorIs(t, err, errGone)
	require.ErrorContains(t, err, "nothing was sent")
	require.Empty(t, outcomes(err))
}

// The login of a client has expired, or the users have changed: etcd refuses the transaction
// before it applies anything, and the client sends it again.
func TestATransactionThatEtcdHasNotAppliedIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		relayed error
		want    error
		arrived int32
	}{
		"the users have changed":   {rpctypes.ErrGRPCAuthOldRevision, nil, 2},
		"the login has expired":    {rpctypes.ErrGRPCInvalidAuthToken, nil, 2},
		"the user may not do it":   {rpctypes.ErrGRPCPermissionDenied, rpctypes.ErrPermissionDenied, 1},
		"the member is a follower": {rpctypes.ErrGRPCNotLeader, rpctypes.ErrNotLeader, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, relay := e.behind(c.relayed, nil)
			err := e.put(with(t.Context(), 33, "a"), e.over(client), "x")
			require.ErrorIs(t, err, c.want)
			require.Empty(t, outcomes(err))
			require.Equal(t, c.arrived, relay.arrived.Load())
			_, version := e.get(e.key)
			require.EqualValues(t, c.arrived-1, version)
		})
	}
}

var errGone = errors.New("cancelled by the test")

func TestAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, cause := range []error{errGone, token.ErrReleased} {
		ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
		cancel(cause)
		for _, err := range []error{e.put(ctx, e.guard, "x"), e.guard.Admit(ctx, tok(33, "a"))} {
			require.ErrorIs(t, err, cause)
			require.ErrorContains(t, err, "account/42: nothing was sent: ")
			require.Empty(t, outcomes(err))
		}
	}
	require.Empty(t, e.mark())
}

// The client has no connection yet. When it gets one, the lease is over.
func TestATransactionOfAReleasedLeaseIsNotSentLate(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	p, err := netfault.Start(e.addr)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	p.Blackhole(netfault.ToClient)
	g := e.over(connect(t, p.Addr()))
	ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
	done := start(func() error { return e.put(ctx, g, "x") })
	eventually(t, func() bool { return p.Held(netfault.ToClient) > 0 }) // the beginning of a connection
	cancel(token.ErrReleased)
	p.Heal(netfault.ToClient)
	err = await(t, done)
	require.ErrorIs(t, err, token.ErrReleased)
	require.ErrorContains(t, err, "nothing was sent")
	require.Empty(t, outcomes(err))
	require.Empty(t, e.written()+e.mark())
}

// hazard G18
func TestATransactionThatWasSent(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: tok(33, "a")}
	for name, c := range map[string]struct {
		cause error
		want  []error // empty if it continues
	}{
		"the lease is lost":     {lost, nil},
		"the lease is released": {token.ErrReleased, nil},
		"the caller cancels":    {errGone, []error{errGone, guard.ErrUnknown}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			g, p := e.far()
			ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
			defer cancel(nil)
			done := e.hold(p, func() error { return e.put(ctx, g, "x") })
			cancel(c.cause)
			if c.want == nil {
				p.Heal(netfault.ToClient)
				require.NoError(t, await(t, done))
				return
			}
			err := await(t, done)
			for _, want := range c.want {
				require.ErrorIs(t, err, want)
			}
			p.Heal(netfault.ToClient)
		})
	}
}

// On a slow machine the deadline may pass before the transaction is sent: then the test tries
// again with more time.
//
// hazard G18
func TestATransactionWhoseDeadlinePasses(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	g, p := e.far()
	for deadline := 100 * time.Millisecond; ; deadline *= 2 {
		p.Blackhole(netfault.ToClient)
		ctx, cancel := context.WithTimeout(with(t.Context(), 33, "a"), deadline)
		err := e.put(ctx, g, "x")
		cancel()
		p.Heal(netfault.ToClient)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if errors.Is(err, guard.ErrUnknown) {
			return
		}
		require.ErrorContains(t, err, "nothing was sent")
		require.Empty(t, e.written())
	}
}

// The mark, and not the loss of the lease, decides whether the token may still write.
//
// hazard G18
func TestATransactionUnderALostLease(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
	cancel(&token.LostError{Token: tok(33, "a")})
	require.NoError(t, e.put(ctx, e.guard, "x"), "there is no newer token")
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	err := e.put(ctx, e.guard, "x")
	require.ErrorIs(t, err, guard.ErrStale)
	require.ErrorIs(t, err, token.ErrLost)
}
