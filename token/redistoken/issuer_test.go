package redistoken_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

func TestScriptsAreSentAgainWhenForgotten(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	for range 2 {
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		tok := acquire(t, iss, "a")
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		_, err := iss.Renew(t.Context(), tok, long)
		require.NoError(t, err)
		require.NoError(t, client.ScriptFlush(t.Context()).Err())
		require.NoError(t, iss.Release(t.Context(), tok))
	}
}

func TestTTLIsInWholeMilliseconds(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	for _, ttl := range []time.Duration{0, -time.Second, time.Millisecond - 1} {
		_, err := iss.Acquire(t.Context(), resource, "a", ttl)
		require.ErrorContains(t, err, "redistoken: ttl")
		_, err = iss.Renew(t.Context(), token.Token{Resource: resource, Number: 1, Holder: "a"}, ttl)
		require.ErrorContains(t, err, "redistoken: ttl")
	}
	before := time.Now()
	grant, err := iss.Acquire(t.Context(), resource, "a", time.Minute+999*time.Microsecond)
	require.NoError(t, err)
	left := client.PTTL(t.Context(), lockKey(prefix, resource)).Val()
	require.LessOrEqual(t, left, time.Minute, "rounded down")
	require.False(t, grant.Until.Before(before.Add(time.Minute)))
	// PTTL counts milliseconds that have begun, and a key lives to the end of its last one.
	require.False(t, grant.Until.After(time.Now().Add(left+time.Millisecond)), "never later than the server's expiry")
}

func TestDefaultPrefix(t *testing.T) {
	t.Parallel()
	client := embedded(t)
	acquire(t, &redistoken.Issuer{Client: client}, "a")
	require.Equal(t, "a", client.Get(t.Context(), lockKey("fencepost", resource)).Val())
}

func TestWhatCannotWorkIsRefused(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	for text, client := range map[string]redis.UniversalClient{"has no Client": nil, "Ring": ring} {
		_, err := (&redistoken.Issuer{Client: client}).Acquire(t.Context(), resource, "a", long)
		require.ErrorContains(t, err, text)
	}
	_, err := (&redistoken.Issuer{}).Acquire(t.Context(), "", "a", long)
	require.ErrorIs(t, err, token.ErrInvalid)
	_, err = (&redistoken.Issuer{}).Acquire(t.Context(), resource, "a\n", long)
	require.ErrorIs(t, err, token.ErrInvalid)
}

func TestDriverErrorsAreWrapped(t *testing.T) {
	t.Parallel()
	client := embedded(t)
	require.NoError(t, client.Close())
	for verb, call := range verbs(&redistoken.Issuer{Client: client}) {
		err := call(t.Context())
		require.ErrorIs(t, err, redis.ErrClosed)
		require.ErrorContains(t, err, "redistoken: "+verb)
	}
}

func TestKeysOfOtherHands(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	lock, counter := lockKey(prefix, resource), counterKey(prefix, resource)
	t.Run("a lock without expiry is held for ever", func(t *testing.T) {
		require.NoError(t, client.Set(t.Context(), lock, "somebody", 0).Err())
		_, err := iss.Acquire(t.Context(), resource, "a", long)
		var held *token.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, time.Duration(math.MaxInt64), held.Remaining)
	})
	t.Run("a counter that is no number grants nothing", func(t *testing.T) {
		for _, value := range []string{"abc", "nan", "inf", ""} {
			require.NoError(t, client.Del(t.Context(), lock).Err())
			require.NoError(t, client.Set(t.Context(), counter, value, 0).Err())
			_, err := iss.Acquire(t.Context(), resource, "a", long)
			require.Error(t, err, value)
			require.NotErrorIs(t, err, token.ErrHeld)
			require.Zero(t, client.Exists(t.Context(), lock).Val(), value)
		}
	})
}
