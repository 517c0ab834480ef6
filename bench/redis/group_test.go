package redis_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/redis"
	"github.com/fencepost/fencepost/internal/testenv"
)

// Every figure is measured on real servers, in as few rounds as there may be, of
// short blocks. Each of its operations checks that it did what it is named for.
func TestEveryFigureIsMeasured(t *testing.T) {
	t.Parallel()
	var urls []string
	for range 3 {
		urls = append(urls, "redis://"+testenv.OwnRedis(t).Addr())
	}
	g, err := redis.Open(t.Context(), urls...)
	require.NoError(t, err)
	defer g.Close()
	figures := g.Figures()
	for i := range figures {
		figures[i].Size = 4
	}
	rows := map[string]measure.Row{}
	var names []string
	require.NoError(t, measure.Plan{}.Run(t.Context(), "redis", measure.All(figures), func(r measure.Row) error {
		names, rows[r.Name] = append(names, r.Name), r
		return nil
	}))
	require.Equal(t, []string{
		"Acquire, Release: round trips", "Hold: round trips", "redislock: round trips", "redsync: round trips",
		"rueidislock, one key: round trips",
		"raw: allocations", "two PINGs: allocations", "Acquire, Release: allocations", "Hold: allocations",
		"redislock: allocations", "redsync: allocations", "rueidislock, one key: allocations",
		"a/a", "two PINGs", "Acquire, Release", "Hold", "redislock", "redsync",
		"rueidislock, one key", "rueidislock, three keys",
		"redsync, three servers", "Acquire, Release, three servers", "Acquire, Release, three servers",
		"a/a, 16 goroutines", "two PINGs, 16 goroutines", "Acquire, Release, 16 goroutines", "Hold, 16 goroutines",
		"redislock, 16 goroutines", "redsync, 16 goroutines", "rueidislock, one key, 16 goroutines",
		"rueidislock, three keys, 16 goroutines", "redsync, three servers, 16 goroutines",
		"Acquire, Release, three servers, 16 goroutines", "Acquire, Release, three servers, 16 goroutines",
		"a/a, 16 goroutines: in all", "Acquire, Release, 16 goroutines: in all",
		"refused, a/a", "refused Acquire", "refused TryHold", "refused redislock", "refused redsync", "refused rueidislock, one key",
	}, names)
	for name, r := range rows {
		require.Positive(t, r.Ratio, name)
		require.LessOrEqual(t, r.Q1, r.Ratio, name)
		require.GreaterOrEqual(t, r.Q3, r.Ratio, name)
	}
	require.Equal(t, 2.0, rows["Acquire, Release: round trips"].Ratio)
	require.Equal(t, 2.0, rows["Hold: round trips"].Ratio)
}
