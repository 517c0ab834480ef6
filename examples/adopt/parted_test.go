package adopt_test

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// partedTTL is the TTL of the locks whose holder is cut off from Redis.
const partedTTL = time.Second

// parted is a lock that is held and renewed.
type parted struct {
	told    func(context.Context) // returns when the holder detects the loss
	release func(context.Context)
}

// taking takes a lock as soon as it is free.
type taking func(ctx context.Context, key string) (parted, error)

// library returns a function that takes locks on the Redis at addr.
type library func(t *testing.T, addr string) taking

var libraries = map[string]library{
	"fencepost": func(t *testing.T, addr string) taking {
		t.Helper()
		iss := &redistoken.Issuer{Client: testenv.RedisAt(t, addr)}
		t.Cleanup(func() { require.NoError(t, iss.Close()) })
		expected := func(context.Context, token.Token, time.Duration, error) {} // keeps expected losses out of the log
		locker := lock.Locker{
			Issuer: iss, TTL: partedTTL, SafetyMargin: partedTTL / 4, Hooks: lock.Hooks{RenewFailed: expected},
			DangerouslyWithoutClaim: true,
		}
		return func(ctx context.Context, key string) (parted, error) {
			lease, err := locker.Acquire(ctx, key)
			if err != nil {
				return parted{}, err
			}
			return parted{
				told:    func(context.Context) { <-lease.Context().Done() },
				release: func(ctx context.Context) { _ = lease.Release(ctx) },
			}, nil
		}
	},
	"redsync": func(t *testing.T, addr string) taking {
		t.Helper()
		locks := redsync.New(goredis.NewPool(testenv.RedisAt(t, addr)))
		return func(ctx context.Context, key string) (parted, error) {
			mutex := locks.NewMutex(key, redsync.WithExpiry(partedTTL),
				redsync.WithTries(10_000), redsync.WithRetryDelay(10*time.Millisecond))
			return parted{
				told:    extended(func(ctx context.Context) error { _, err := mutex.ExtendContext(ctx); return err }),
				release: func(ctx context.Context) { _, _ = mutex.UnlockContext(ctx) },
			}, mutex.LockContext(ctx)
		}
	},
	"redislock": func(t *testing.T, addr string) taking {
		t.Helper()
		locks := redislock.New(testenv.RedisAt(t, addr))
		return func(ctx context.Context, key string) (parted, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // otherwise Obtain waits for one TTL only
			defer cancel()
			retry := redislock.LinearBackoff(10 * time.Millisecond)
			lock, err := locks.Obtain(ctx, key, partedTTL, &redislock.Options{RetryStrategy: retry})
			return parted{
				told:    extended(func(ctx context.Context) error { return lock.Refresh(ctx, partedTTL, nil) }),
				release: func(ctx context.Context) { _ = lock.Release(ctx) },
			}, err
		}
	},
}

// extended detects the loss if the library has no signal of its own: it extends the lock
// in time, until that fails.
func extended(extend func(context.Context) error) func(context.Context) {
	return func(ctx context.Context) {
		for time.Sleep(partedTTL / 3); extend(ctx) == nil; time.Sleep(partedTTL / 3) {
		}
	}
}
