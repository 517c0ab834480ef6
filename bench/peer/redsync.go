package peer

import (
	"context"
	"errors"
	"math"

	"github.com/go-redsync/redsync/v4"
	pool "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// Redsync is github.com/go-redsync/redsync over the clients, of which a majority
// has to grant: one is one server.
func Redsync(clients ...redis.UniversalClient) Lock {
	var pools []pool.Pool
	for _, client := range clients {
		pools = append(pools, goredis.NewPool(client))
	}
	sync := redsync.New(pools...)
	mutex := func(resource string) *redsync.Mutex {
		return sync.NewMutex("redsync:"+resource, redsync.WithExpiry(TTL), redsync.WithTries(math.MaxInt))
	}
	return Lock{
		Wait: func(ctx context.Context, resource string) (Unlock, error) {
			m := mutex(resource)
			return unlockRedsync(m), m.LockContext(ctx)
		},
		Try: func(ctx context.Context, resource string) (Unlock, error) {
			m := mutex(resource)
			err := m.TryLockContext(ctx)
			if taken := new(redsync.ErrTaken); errors.As(err, &taken) {
				err = errors.Join(ErrHeld, err)
			}
			return unlockRedsync(m), err
		},
	}
}

func unlockRedsync(m *redsync.Mutex) Unlock {
	return func(ctx context.Context) error {
		ok, err := m.UnlockContext(ctx)
		if err == nil && !ok {
			err = errors.New("redsync: the lock was not there")
		}
		return err
	}
}
