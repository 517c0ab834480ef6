package peer

import (
	"context"
	"errors"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// backoff is how long redislock pauses between two tries: it has no default that
// waits.
const backoff = 5 * time.Millisecond

// Redislock is github.com/bsm/redislock.
func Redislock(client redis.UniversalClient) Lock {
	locker := redislock.New(client)
	obtain := func(ctx context.Context, resource string, options *redislock.Options) (Unlock, error) {
		lock, err := locker.Obtain(ctx, "redislock:"+resource, TTL, options)
		if errors.Is(err, redislock.ErrNotObtained) {
			err = errors.Join(ErrHeld, err)
		}
		if err != nil {
			return nil, err
		}
		return lock.Release, nil
	}
	return Lock{
		Wait: func(ctx context.Context, resource string) (Unlock, error) {
			return obtain(ctx, resource, &redislock.Options{RetryStrategy: redislock.LinearBackoff(backoff)})
		},
		Try: func(ctx context.Context, resource string) (Unlock, error) { return obtain(ctx, resource, nil) },
	}
}
