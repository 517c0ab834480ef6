package redisguard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/proxy"
	"github.com/fencepost/fencepost/token"
)

var errGone = errors.New("the caller has gone")

// hazard R10
func TestAWriteThatWasSentEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, enabled := range []bool{false, true} {
		patient := func(o *redis.Options) { o.ReadTimeout, o.ContextTimeoutEnabled = time.Hour, enabled }
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
				p.Heal(proxy.ToClient)
			})
		}
		t.Run(fmt.Sprintf("a plain one does not, ContextTimeoutEnabled %t", enabled), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, p := e.far(patient)
			ctx, cancel := context.WithCancel(t.Context())
			done := e.hold(p, func() error { return client.Set(ctx, e.key, "x", 0).Err() })
			cancel()
			select {
			case err := <-done:
				t.Fatalf("it must go on, and returned %v", err)
			case <-time.After(200 * time.Millisecond):
			}
			p.Heal(proxy.ToClient)
			require.NoError(t, await(t, done))
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
	eventually(t, func() bool { return calls.returned() == len(all) }, "what was left behind has ended")
	require.Zero(t, e.client.Exists(t.Context(), e.key+":set", e.key+":hset", e.key+":eval").Val())
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
	client, p := e.far(func(o *redis.Options) { o.ReadTimeout = time.Hour })
	far := e.over(client)
	for verb, do := range map[string]func(context.Context) error{
		"admit": func(ctx context.Context) error { return far.Admit(ctx, tok(token.MaxNumber-1, "a")) },
		"mint":  func(ctx context.Context) error { _, err := far.Mint(ctx, resource, "a"); return err },
	} {
		require.NoError(t, client.Ping(t.Context()).Err())
		ctx, cancel := context.WithCancelCause(t.Context())
		p.Blackhole(proxy.ToClient)
		done := start(func() error { return do(ctx) })
		eventually(t, func() bool { return p.Held(proxy.ToClient) > 0 })
		cancel(errGone)
		err := await(t, done)
		require.ErrorIs(t, err, errGone)
		require.ErrorContains(t, err, "redisguard: "+verb+" account/42: ")
		require.False(t, guard.Refusal(err))
		p.Heal(proxy.ToClient)
	}
}

// Whether the token of a lease that was lost may write is for the mark to say.
//
// hazard G18
func TestTheLossOfTheLeaseCutsNothingOff(t *testing.T) {
	t.Parallel()
	lost := &token.LostError{Token: tok(33, "a")}
	for verb := range doors(nil, "", "") {
		t.Run(verb, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			client, p := e.far()
			do := doors(e.over(client), e.key, "x")[verb]
			ctx, cancel := context.WithCancelCause(with(t.Context(), 33, "a"))
			done := e.hold(p, func() error { return do(ctx) })
			cancel(lost)
			select {
			case err := <-done:
				t.Fatalf("it was cut off: %v", err)
			case <-time.After(20 * time.Millisecond):
			}
			p.Heal(proxy.ToClient)
			require.NoError(t, await(t, done), "applied, and the caller hears it")

			require.NoError(t, do(ctx), "nobody newer was there")
			require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
			err := do(ctx)
			require.ErrorIs(t, err, guard.ErrStale)
			require.ErrorIs(t, err, token.ErrLost)
		})
	}
	t.Run("the caller's deadline does", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, p := e.far(func(o *redis.Options) { o.ReadTimeout = time.Hour })
		outer, stop := context.WithTimeout(with(t.Context(), 33, "a"), 2*time.Second)
		defer stop()
		ctx, cancel := context.WithCancelCause(outer)
		done := e.hold(p, func() error { return e.over(client).Set(ctx, resource, e.key, "x", 0) })
		cancel(lost)
		err := await(t, done)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err))
		require.ErrorIs(t, err, token.ErrLost)
		p.Heal(proxy.ToClient)
	})
}
