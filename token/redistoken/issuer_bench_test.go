package redistoken_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/ratio"
	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token/redistoken"
)

// The baseline is the lock that everybody writes: SET NX PX, and a script that
// deletes if the value is ours. It is two round trips as well, and has no token.
func BenchmarkAcquireRelease(b *testing.B) {
	client, prefix := testenv.Redis(b)
	ctx, key := b.Context(), prefix+":raw"
	unlock := redis.NewScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	ratio.Report(b,
		func() error {
			if err := client.SetNX(ctx, key, "worker-1", 10*time.Second).Err(); err != nil {
				return err
			}
			return unlock.Run(ctx, client, []string{key}, "worker-1").Err()
		},
		func() error {
			grant, err := iss.Acquire(ctx, "account/42", "worker-1", 10*time.Second)
			if err != nil {
				return err
			}
			return iss.Release(ctx, grant.Token)
		})
}
