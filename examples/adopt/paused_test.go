package adopt_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"

	"github.com/fencepost/fencepost/internal/test/pausetest"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/sqlguard"
	"github.com/fencepost/fencepost/token"
)

func TestPausedWriterIsRefused(t *testing.T) {
	t.Parallel()
	pausetest.Run(t, func(t *testing.T, fence *sqlguard.Guard) pausetest.Lock {
		client, prefix := testenv.Redis(t)
		locks := redsync.New(goredis.NewPool(client))
		return func(ctx context.Context, resource, _ string) (token.Token, error) {
			mutex := locks.NewMutex(prefix+resource, redsync.WithExpiry(50*time.Millisecond), redsync.WithTries(10_000))
			if err := mutex.LockContext(ctx); err != nil {
				return token.Token{}, err
			}
			ctx, err := fence.Mint(ctx, resource, mutex.Value())
			if err != nil {
				return token.Token{}, err
			}
			return token.FromContext(ctx, resource)
		}
	})
}
