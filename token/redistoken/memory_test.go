package redistoken_test

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/token/pgtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R2
// hazard R12
func TestNumbersRiseAcrossLossOfMemory(t *testing.T) {
	t.Parallel()
	client := testenv.OwnRedis(t).Client()
	iss := &redistoken.Issuer{Client: client}
	first := acquire(t, iss, "first")
	naive := client.Incr(t.Context(), "naive").Val() + client.Incr(t.Context(), "naive").Val()
	require.NoError(t, client.FlushAll(t.Context()).Err())
	second := acquire(t, iss, "second")

	require.Greater(t, second.Number, first.Number)
	require.Less(t, client.Incr(t.Context(), "naive").Val(), naive, "a bare INCR must start again at 1")
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
	require.Less(t, naive, first.Number, "a bare INCR must be refused by every guard for ever")
}

// hazard R3
func TestALostQueueIsRebuiltInItsOrder(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	queue := queueKey("fencepost", resource)
	first := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "first", long)
	require.Positive(t, client.TTL(t.Context(), queue).Val(), "an abandoned queue expires")
	require.NoError(t, client.Del(t.Context(), queue).Err())
	second := startWait(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "second", long)
	order := func() (holders []string) {
		for _, member := range client.ZRange(t.Context(), queue, 0, -1).Val() {
			holder, _, _ := strings.Cut(member, "\n")
			holders = append(holders, holder)
		}
		return holders
	}
	require.Equal(t, []string{"second"}, order(), "the first has lost its place")
	// A waiter that may have missed a notification polls again, with its ticket.
	require.NoError(t, client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	require.Eventually(t, func() bool { return len(order()) == 2 }, testTimeout, time.Millisecond)
	require.Equal(t, []string{"first", "second"}, order())
	require.NoError(t, holder.Release(t.Context(), tok))
	require.NoError(t, holder.Release(t.Context(), awaitGrant(t, first).Token))
	awaitGrant(t, second)
}

// hazard R4
func TestCountersAreBoundedHoweverManyResources(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	iss := &redistoken.Issuer{Client: server.Client()}
	const resources = 2 * 256
	var buckets [256]int
	for n, done := 0, 0; done < resources; n++ { // two of each bucket
		name := fmt.Sprint("account/", n)
		if bucket := crc32.ChecksumIEEE([]byte(name)) % 256; buckets[bucket] < 2 {
			buckets[bucket]++
			done++
			grant, err := iss.Acquire(t.Context(), name, "a", long)
			require.NoError(t, err)
			require.NoError(t, iss.Release(t.Context(), grant.Token))
		}
	}
	require.EqualValues(t, 256, server.Client().DBSize(t.Context()).Val(), "all buckets' counters, and nothing else")

	for n := range resources {
		require.NoError(t, server.Client().Incr(t.Context(), fmt.Sprint("naive/", n)).Err())
	}
	require.EqualValues(t, 256+resources, server.Client().DBSize(t.Context()).Val(), "a counter each must stay for ever")
}
