package adopt

import (
	"context"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/redisguard"
)

// Pipeline keeps redislock for a program whose data is in Redis too. It reads the balance,
// and writes the new one and its history in one pipeline behind the admission.
func Pipeline(ctx context.Context, locks *redislock.Client, client *redis.Client, change func(balance int64) int64) error {
	lock, err := locks.Obtain(ctx, "account/42", 10*time.Second, nil)
	if err != nil {
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	fence := &redisguard.Guard{Client: client}
	ctx, err = fence.Mint(ctx, "account/42", lock.Token())
	if err != nil {
		return err
	}
	balance, err := client.Get(ctx, "balance:{account/42}").Int64()
	if err != nil {
		return err
	}
	balance = change(balance)
	_, err = fence.TxPipelined(ctx, "account/42", func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "balance:{account/42}", balance, 0)
		pipe.RPush(ctx, "history:{account/42}", balance)
		return nil
	})
	return err
}
