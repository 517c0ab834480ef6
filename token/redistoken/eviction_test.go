package redistoken_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R3
func TestALineThatIsLostIsFormedAgainInItsOrder(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	client := server.Client()
	holder := &redistoken.Issuer{Client: client}
	tok := acquire(t, holder, "holder")
	line := lineKey("fencepost", resource)
	first := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "first", long)
	require.Positive(t, client.TTL(t.Context(), line).Val(), "a line that is left ends by itself")
	require.NoError(t, client.Del(t.Context(), line).Err())
	second := waits(t.Context(), t, closing(t, &redistoken.Issuer{Client: client}), client, "second", long)
	order := func() (holders []string) {
		for _, member := range client.ZRange(t.Context(), line, 0, -1).Val() {
			holder, _, _ := strings.Cut(member, "\n")
			holders = append(holders, holder)
		}
		return holders
	}
	require.Equal(t, []string{"second"}, order(), "the first has lost its place")
	// Whoever may have missed something asks again, with its ticket.
	require.NoError(t, client.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	require.Eventually(t, func() bool { return len(order()) == 2 }, time.Minute, time.Millisecond)
	require.Equal(t, []string{"first", "second"}, order())
	require.NoError(t, holder.Release(t.Context(), tok))
	require.NoError(t, holder.Release(t.Context(), handed(t, first).Token))
	handed(t, second)
}

// hazard R4
func TestCountersAreBoundedHoweverManyResources(t *testing.T) {
	t.Parallel()
	server := testenv.OwnRedis(t)
	iss := &redistoken.Issuer{Client: server.Client()}
	const resources = 2000
	for n := range resources {
		grant, err := iss.Acquire(t.Context(), fmt.Sprint("account/", n), "a", long)
		require.NoError(t, err)
		require.NoError(t, iss.Release(t.Context(), grant.Token))
	}
	require.EqualValues(t, 256, server.Client().DBSize(t.Context()).Val(), "all buckets' counters, and nothing else")

	for n := range resources {
		require.NoError(t, server.Client().Incr(t.Context(), fmt.Sprint("naive/", n)).Err())
	}
	require.EqualValues(t, 256+resources, server.Client().DBSize(t.Context()).Val(), "a counter each must stay for ever")
}
