package simulations_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// onRedis is a Redis in memory, with its scripts and expiries in fake time, and
// a client for each process.
func onRedis(t *testing.T) func() token.Issuer {
	t.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	t.Cleanup(server.Close)
	return func() token.Issuer {
		client := redis.NewClient(&redis.Options{
			Addr:       "127.0.0.1:6379", // a name would be looked up, outside of the bubble
			Dialer:     func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
			MaxRetries: -1,
			// Who waits for a connection takes a timer from a pool that all
			// bubbles share.
			PoolSize: 1000,
		})
		t.Cleanup(func() { client.Close() })
		iss := &redistoken.Issuer{Client: client}
		t.Cleanup(func() { require.NoError(t, iss.Close()) }) // in a bubble what rests counts as left behind
		return iss
	}
}

func TestInFakeTimeRedisToo(t *testing.T) {
	t.Parallel()
	const seeds = 10
	corrupted, began := 0, time.Now()
	for seed := range uint64(seeds) {
		c := crowd{seed: seed, names: "ABC", rounds: 4, issuer: onRedis}
		p := c.fight(t)
		diary := p.diary()
		require.NoError(t, p.judge(), "seed %d", seed)
		require.Equal(t, diary, c.fight(t).diary(), "seed %d", seed)
		c.twin = true
		if c.fight(t).judge() != nil {
			corrupted++
		}
	}
	t.Logf("%d seeds in %s; the unguarded twin broke rules under %d of them", seeds, time.Since(began), corrupted)
	require.Positive(t, corrupted, "toothless")
}
