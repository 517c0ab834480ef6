package redisguard_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations/proxy"
)

const increment = "return redis.call('INCR', KEYS[1])"

// hazard R6
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
	t.Run("nor is a script that was not known to the server", func(t *testing.T) {
		t.Parallel()
		e := newEnv(t)
		client, p := e.far()
		write := func(script string) error {
			_, err := e.over(client).Eval(with(t.Context(), 33, "a"), resource, script, []string{e.key})
			return err
		}
		require.NoError(t, write("return 1"), "the connection is up")
		p.Blackhole(proxy.ToClient)
		done := start(func() error { return write(increment + " -- " + e.key) })
		eventually(t, func() bool { return p.Held(proxy.ToClient) > 0 }, "NOSCRIPT, which nobody will hear")
		cut(p)
		err := await(t, done)
		require.Equal(t, []error{guard.ErrUnknown}, outcomes(err), "nobody can know what it was: %v", err)
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
		require.Equal(t, "stale", said, "the naive guard must lie")
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
		p.Blackhole(proxy.ToClient)
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
		found, err := far.Mint(t.Context(), resource, "d")
		minted = fmt.Sprintf("%d d", found.Number)
		return err
	})
	cut(p)
	require.NoError(t, await(t, done))
	require.Equal(t, e.mark(), minted)
	require.NotEqual(t, burnt, minted)
}
