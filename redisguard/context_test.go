package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/netfault"
	"github.com/fencepost/fencepost/token"
)

var errGone = errors.New("cancelled by the test")

// hazard R10
func TestAWriteThatWasSentEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		patient := func(o *redis.Options) { o.ContextTimeoutEnabled = enabled }
		for verb := range doors(nil, "", "") {
			t.Run(fmt.Sprintf("%s, ContextTimeoutEnabled %t", verb, enabled), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t)
				client, p := e.far(patient)
				ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
				done := e.hold(p, func() error { return doors(e.over(client), e.key, "x")[verb](ctx) })
				cancel(errGone)
				err := await(t, done)
				require.ErrorIs(t, err, errGone)
				require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
				p.Heal(netfault.ToClient)
			})
		}
		t.Run(fmt.Sprintf("a plain one does not, ContextTimeoutEnabled %t", enabled), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, p := e.far(patient)
			far := e.over(client)
			ctx, cancel := context.WithCancel(with(t.Context(), 33, "a"))
			plain := e.hold(p, func() error { return client.Set(ctx, e.key, "x", 0).Err() })
			guarded := start(func() error { return far.Set(ctx, resource, e.key+":set", "x", 0) })
			cancel()
			require.ErrorIs(t, await(t, guarded), context.Canceled)
			select {
			case err := <-plain:
				t.Fatalf("it must go on, and returned %v", err)
			default:
			}
			p.Heal(netfault.ToClient)
			require.NoError(t, await(t, plain))
		})
	}
}

// hazard R10
func TestAWriteWhoseCallerHasLeftIsNeverSent(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	dialing, release := make(chan struct{}, 100), make(chan struct{})
	options, calls := e.options(), &hook{}
	options.Dialer = func(_ context.Context, network, addr string) (net.Conn, error) {
		dialing <- struct{}{}
		<-release
		return new(net.Dialer).DialContext(context.WithoutCancel(t.Context()), network, addr)
	}
	client := connect(t, options)
	client.AddHook(calls)
	all := doors(e.over(client), e.key, "x")
	for verb, do := range all {
		ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
		done := start(func() error { return do(ctx) })
		<-dialing
		cancel(errGone)
		err := await(t, done)
		require.ErrorIs(t, err, errGone, verb)
		require.Empty(t, outcomes(err), verb)
	}
	close(release)
	eventually(t, func() bool { return calls.returned() == len(all) }, "the abandoned call has ended")
	require.Zero(t, e.client.Exists(t.Context(), e.doorKeys()...).Val())
	require.Empty(t, e.mark())
	require.NoError(t, e.over(client).Set(with(t.Context(), 33, "a"), resource, e.key, "x", 0), "the client goes on")
}

func TestAnEndedContextSendsNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
	cancel(errGone)
	all := doors(e.guard, e.key, "x")
	all["Admit"] = func(ctx context.Context) error { return e.guard.Admit(ctx, tok(33, "a")) }
	all["Mint"] = func(ctx context.Context) error { _, err := e.guard.Mint(ctx, resource, "a"); return err }
	for verb, do := range all {
		err := do(ctx)
		require.ErrorIs(t, err, errGone, verb)
		require.ErrorContains(t, err, "nothing was sent", verb)
		require.Empty(t, outcomes(err), verb)
	}
	require.Empty(t, e.mark())
}

// hazard R10
func TestAdmitAndMintEndWithTheirContext(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	client, p := e.far()
	far := e.over(client)
	for verb, do := range map[string]func(context.Context) error{
		"admit": func(ctx context.Context) error { return far.Admit(ctx, tok(token.MaxNumber-1, "a")) },
		"mint":  func(ctx context.Context) error { _, err := far.Mint(ctx, resource, "a"); return err },
	} {
		require.NoError(t, client.Ping(t.Context()).Err())
		ctx, cancel := context.WithCancelCause(t.Context())
		p.Blackhole(netfault.ToClient)
		done := start(func() error { return do(ctx) })
		eventually(t, func() bool { return p.Held(netfault.ToClient) > 0 })
		cancel(errGone)
		err := await(t, done)
		require.ErrorIs(t, err, errGone)
		require.ErrorContains(t, err, "redisguard: "+verb+" account/42: ")
		require.False(t, guard.IsRefusal(err))
		p.Heal(netfault.ToClient)
	}
}

// The mark, and not the loss of the lease, decides whether the token may still write. See
// package writectx for writes that wait for their reply.
//
// hazard G18
func TestAWriteUnderALostLease(t *testing.T) {
	t.Parallel()
	for verb := range doors(nil, "", "") {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
			cancel(&token.LostError{Token: tok(33, "a")})
			do := doors(e.guard, e.key, "x")[verb]
			require.NoError(t, do(ctx), "there is no newer token")
			require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
			err := do(ctx)
			require.ErrorIs(t, err, guard.ErrStale)
			require.ErrorIs(t, err, token.ErrLost)
		})
	}
}
