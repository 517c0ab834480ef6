package redistoken_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R2
// hazard R12
func TestNumbersRiseAcrossLossOfMemory(t *testing.T) {
	t.Parallel()
	client := testenv.SpareRedis(t)
	iss := &redistoken.Issuer{Client: client}
	first := acquire(t, iss, "first")
	naive := client.Incr(t.Context(), "naive").Val() + client.Incr(t.Context(), "naive").Val()
	require.NoError(t, client.FlushAll(t.Context()).Err())
	second := acquire(t, iss, "second")

	require.Greater(t, second.Number, first.Number)
	require.Less(t, client.Incr(t.Context(), "naive").Val(), naive, "a bare INCR must begin anew")
	var store guard.Memory
	require.NoError(t, store.Admit(t.Context(), second))
	require.ErrorIs(t, store.Admit(t.Context(), first), guard.ErrStale)
}

// hazard R3
func TestCounterNeverEnds(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	first := cycle(t, iss, "first")
	key := counterKey(prefix, resource)
	require.Equal(t, time.Duration(-1), client.TTL(t.Context(), key).Val(), "no expiry, after the release")

	require.EqualValues(t, 1, client.Del(t.Context(), key).Val())
	require.Greater(t, cycle(t, iss, "second").Number, first.Number)
}

// hazard R12
func TestNumbersCompareAcrossIssuers(t *testing.T) {
	t.Parallel()
	pool, schema := testenv.Postgres(t)
	client, prefix := testenv.Redis(t)
	onPostgres := &pgtoken.Issuer{DB: pool, Schema: schema}
	onRedis := &redistoken.Issuer{Client: client, Prefix: prefix}

	first := cycle(t, onPostgres, "first")
	second := cycle(t, onRedis, "second")
	third := cycle(t, onPostgres, "third")
	var store guard.Memory
	require.NoError(t, store.Admit(t.Context(), first))
	require.NoError(t, store.Admit(t.Context(), second), "moved to Redis")
	require.NoError(t, store.Admit(t.Context(), third), "and back")
	require.ErrorIs(t, store.Admit(t.Context(), second), guard.ErrStale)

	naive := client.Incr(t.Context(), prefix+":naive").Val()
	require.Less(t, naive, first.Number, "a bare INCR must be refused by everybody for ever")
}
