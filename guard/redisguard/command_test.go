package redisguard_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
)

func TestSet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	t.Run("writes what go-redis's Set writes", func(t *testing.T) {
		for _, value := range []any{"", "text", "a\x00\xff\r\n", []byte("bytes"), 42, 1.5, true, time.Hour, time.Unix(1, 0).UTC()} {
			require.NoError(t, e.client.Set(ctx, e.key+":plain", value, 0).Err())
			require.NoError(t, e.guard.Set(ctx, resource, e.key, value, 0))
			require.Equal(t, e.client.Get(ctx, e.key+":plain").Val(), e.written(), "%v", value)
		}
	})
	t.Run("knows the expiries", func(t *testing.T) {
		ttl := func() time.Duration { return e.client.PTTL(ctx, e.key).Val() }
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 1, time.Hour))
		require.InDelta(t, time.Hour, ttl(), float64(time.Minute))
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 1, 1500*time.Second+time.Millisecond))
		require.InDelta(t, 1500*time.Second, ttl(), float64(time.Minute))
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 2, redis.KeepTTL))
		require.Positive(t, ttl())
		require.NoError(t, e.guard.Set(ctx, resource, e.key, 3, 0))
		require.Equal(t, time.Duration(-1), ttl())
	})
	t.Run("sends nothing that go-redis cannot write", func(t *testing.T) {
		require.NoError(t, e.guard.Set(ctx, resource, e.key, "before", 0))
		err := e.guard.Set(with(t.Context(), 34, "b"), resource, e.key, struct{ a chan int }{}, 0)
		require.ErrorContains(t, err, "can't marshal")
		require.Empty(t, outcomes(err))
		require.Equal(t, "before", e.written())
		require.Equal(t, "33 a", e.mark())
		require.NoError(t, e.guard.Set(ctx, resource, e.key, "after", 0), "the connection is good")
	})
	t.Run("panics where the value does, on the caller's goroutine", func(t *testing.T) {
		require.PanicsWithValue(t, "no", func() { _ = e.guard.Set(ctx, resource, e.key, panics{}, 0) })
		require.NoError(t, e.guard.Set(ctx, resource, e.key, "after", 0))
	})
}

type panics struct{}

func (panics) MarshalBinary() ([]byte, error) { panic("no") }

func TestHSet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	ctx := with(t.Context(), 33, "a")
	t.Run("takes fields as go-redis does, and counts the new ones", func(t *testing.T) {
		for _, c := range []struct {
			values []any
			added  int64
		}{
			{[]any{"a", 1, "b", 2}, 2}, {[]any{"a", 3}, 0}, {[]any{map[string]any{"c": 4}}, 1},
			{[]any{[]string{"d", "5", "e", "6"}}, 2},
		} {
			added, err := e.guard.HSet(ctx, resource, e.key, c.values...)
			require.NoError(t, err)
			require.Equal(t, c.added, added)
		}
		require.Equal(t, map[string]string{"a": "3", "b": "2", "c": "4", "d": "5", "e": "6"}, e.client.HGetAll(ctx, e.key).Val())
	})
	t.Run("of a key of another type fails, and nothing was applied", func(t *testing.T) {
		require.NoError(t, e.client.Set(ctx, e.key+":text", "x", 0).Err())
		_, err := e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key+":text", "a", 1)
		require.ErrorContains(t, err, "WRONGTYPE")
		require.ErrorAs(t, err, new(redis.Error))
		require.Empty(t, outcomes(err))
		require.Equal(t, "x", e.client.Get(ctx, e.key+":text").Val())
	})
	t.Run("of half a field, or of none, fails", func(t *testing.T) {
		for _, values := range [][]any{{}, {"a"}, {"a", 1, "b"}} {
			_, err := e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key, values...)
			require.ErrorContains(t, err, "redisguard: hset account/42: ")
			require.Empty(t, outcomes(err))
		}
	})
	t.Run("of more fields than a script passes on writes none", func(t *testing.T) {
		fields := strings.Fields(strings.Repeat("field value ", 5000))
		_, err := e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key+":many", fields)
		require.ErrorContains(t, err, "too many results to unpack")
		require.Empty(t, outcomes(err))
		require.Zero(t, e.client.Exists(ctx, e.key+":many").Val())
		_, err = e.guard.HSet(with(t.Context(), 34, "b"), resource, e.key+":many", fields[:6000])
		require.NoError(t, err)
	})
}

func TestARefusalWritesNothing(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	var told []error
	e.guard.Observer = guard.Observer{Refused: func(_ context.Context, err error) { told = append(told, err) }}
	require.NoError(t, e.guard.Admit(t.Context(), tok(34, "b")))
	for verb, do := range doors(e.guard, e.key, "x") {
		told = nil
		err := do(with(t.Context(), 33, "a"))
		require.Equal(t, &guard.StaleError{Token: tok(33, "a"), Mark: guard.Mark{Number: 34, Holder: "b"}}, err, verb)
		require.Equal(t, []error{err}, told)
	}
	require.Zero(t, e.client.Exists(t.Context(), e.key+":set", e.key+":hset", e.key+":eval").Val())
	require.Equal(t, "34 b", e.mark())
}
