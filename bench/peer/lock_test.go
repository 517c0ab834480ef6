package peer_test

import (
	"context"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/bench/wire"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/memtoken"
	"github.com/fencepost/fencepost/token/redistoken"
)

// each calls test with every lock there is.
func each(t *testing.T, test func(t *testing.T, lock peer.Lock, resource string)) {
	client, prefix := testenv.Redis(t)
	var sent wire.Counter
	one, closeOne, err := peer.Rueidislock(testenv.RedisURL(t), 1, &sent)
	require.NoError(t, err)
	t.Cleanup(closeOne)
	three, closeThree, err := peer.Rueidislock(testenv.RedisURL(t), 3, &sent)
	require.NoError(t, err)
	t.Cleanup(closeThree)
	ours := &redistoken.Issuer{Client: client, Prefix: prefix}
	t.Cleanup(func() { ours.Close() })
	for name, lock := range map[string]peer.Lock{
		"redsync": peer.Redsync(client), "redislock": peer.Redislock(client),
		"rueidislock with one key": one, "rueidislock with three": three,
		"fencepost": peer.Fencepost(ours), "in memory": peer.Fencepost(&memtoken.Issuer{}),
	} {
		t.Run(name, func(t *testing.T) { test(t, lock, prefix+":"+name) })
	}
}

func TestWhatIsHeldIsRefusedAndFreeAfterwards(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, lock peer.Lock, resource string) {
		for range 2 {
			unlock, err := lock.Wait(t.Context(), resource)
			require.NoError(t, err)
			_, err = lock.Try(t.Context(), resource)
			require.ErrorIs(t, err, peer.ErrHeld)
			require.NoError(t, unlock(t.Context()))
			unlock, err = lock.Try(t.Context(), resource)
			require.NoError(t, err)
			require.NoError(t, unlock(t.Context()))
		}
	})
}

func TestAWaiterIsGrantedWhatIsGivenBack(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, lock peer.Lock, resource string) {
		unlock, err := lock.Wait(t.Context(), resource)
		require.NoError(t, err)
		var waiting sync.WaitGroup
		var granted error
		waiting.Go(func() {
			var unlock peer.Unlock
			if unlock, granted = lock.Wait(t.Context(), resource); granted == nil {
				granted = unlock(t.Context())
			}
		})
		require.NoError(t, unlock(t.Context()))
		waiting.Wait()
		require.NoError(t, granted)
	})
}

func TestWhoIsCalledAwayWaitsNoLonger(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, lock peer.Lock, resource string) {
		unlock, err := lock.Wait(t.Context(), resource)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = lock.Wait(ctx, resource)
		require.Error(t, err)
		require.NoError(t, unlock(t.Context()))
	})
}

// A majority of servers is needed, of which one may be away.
func TestRedsyncTakesAMajority(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	gone := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer gone.Close()
	unlock, err := peer.Redsync(client, gone, testenv.SpareRedis(t)).Try(t.Context(), prefix)
	require.NoError(t, err)
	_ = unlock(t.Context()) // it says that one is away
}
