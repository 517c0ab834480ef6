package redistoken_test

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R5
func TestLargeNumbersKeepTheirDigits(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	t.Run("on Redis", func(t *testing.T) { keepsDigits(t, client, prefix) })
	t.Run("on miniredis", func(t *testing.T) { keepsDigits(t, embedded(t), "fencepost") })
}

func keepsDigits(t *testing.T, client *redis.Client, prefix string) {
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	key := counterKey(prefix, resource)
	require.NoError(t, client.Set(t.Context(), key, token.MaxNumber-3, 0).Err())
	for _, want := range []int64{token.MaxNumber - 2, token.MaxNumber - 1, token.MaxNumber} {
		require.Equal(t, want, cycle(t, iss, strconv.FormatInt(want, 10)).Number)
		require.Equal(t, strconv.FormatInt(want, 10), client.Get(t.Context(), key).Val())
	}

	_, err := iss.Acquire(t.Context(), resource, "one too many", long)
	require.ErrorIs(t, err, token.ErrExhausted)
	require.Equal(t, strconv.Itoa(token.MaxNumber), client.Get(t.Context(), key).Val(), "the counter stays")
	require.Zero(t, client.Exists(t.Context(), lockKey(prefix, resource)).Val(), "nobody holds it")
}

// hazard R5
func TestNaiveScriptLosesDigits(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	for _, write := range []string{"tostring(n)", "n .. ''"} {
		script := "local n = tonumber(ARGV[1]) + 1; redis.call('SET', KEYS[1], " + write + "); return redis.call('GET', KEYS[1])"
		first := run(t, client, script, []string{prefix + ":naive"}, "179516977481431")
		second := run(t, client, script, []string{prefix + ":naive"}, "179516977481432")
		require.Equal(t, first, second, "%s must write two numbers as one", write)
	}
}
