package adopt_test

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/redispoint"
)

// A holder is paused between its read and its pipeline. Meanwhile its lock ends, and
// another holder writes.
func TestALatePipelineIsRefused(t *testing.T) {
	t.Parallel()
	type write func(change func(balance int64) int64) error
	for name, fenced := range map[string]bool{"refused": true, "the twin without a guard is corrupted": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, client := t.Context(), testenv.OwnRedis(t).Client() // the example has fixed keys
			locks := redislock.New(client)
			require.NoError(t, client.Set(ctx, "balance:{account/42}", 100, 0).Err())
			guarded := func(change func(balance int64) int64) error { return adopt.Pipeline(ctx, locks, client, change) }
			twin := func(change func(balance int64) int64) error {
				seen, err := client.Get(ctx, "balance:{account/42}").Int64()
				require.NoError(t, err)
				balance := change(seen)
				_, err = client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.Set(ctx, "balance:{account/42}", balance, 0)
					pipe.RPush(ctx, "history:{account/42}", balance)
					return nil
				})
				return err
			}
			late := map[bool]write{true: guarded, false: twin}[fenced](func(balance int64) int64 {
				require.NoError(t, client.Del(ctx, "account/42").Err()) // the lock ends
				require.NoError(t, guarded(func(balance int64) int64 { return balance + 10 }))
				return balance - 50
			})
			balance, history := client.Get(ctx, "balance:{account/42}").Val(), client.LRange(ctx, "history:{account/42}", 0, -1).Val()
			if !fenced {
				require.NoError(t, late)
				require.Equal(t, "50", balance, "the successor's value is overwritten")
				require.Equal(t, []string{"110", "50"}, history)
				return
			}
			require.ErrorIs(t, late, guard.ErrStale)
			require.Equal(t, "110", balance, "the successor's value is kept")
			require.Equal(t, []string{"110"}, history, "none of its commands ran")
		})
	}
}

// The lock and the data have one client. A pipeline may also be filled before the guard's.
func TestAPipelineSurvivesThePause(t *testing.T) {
	t.Parallel()
	filled := func(ctx context.Context, locks *redislock.Client, client *redis.Client, change func(balance int64) int64) error {
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
		pipe := client.TxPipeline()
		pipe.Set(ctx, "balance:{account/42}", change(balance), 0)
		_, err = fence.TxPipelined(ctx, "account/42", func(p redis.Pipeliner) error { return p.BatchProcess(ctx, pipe.Cmds()...) })
		return err
	}
	for name, do := range map[string]func(context.Context, *redislock.Client, *redis.Client, func(int64) int64) error{
		"the example": adopt.Pipeline, "a pipeline that was filled before": filled,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain := testenv.OwnRedis(t).Client()
			require.NoError(t, plain.Set(t.Context(), "balance:{account/42}", 0, 0).Err())
			client := redis.NewClient(plain.Options())
			t.Cleanup(func() { require.NoError(t, client.Close()) })
			client.AddHook(&redispoint.Hook{Lock: "account/42"})
			simulations.Run(t, simulations.Subject{
				Expire:   func(ctx context.Context) error { return plain.Del(ctx, "account/42").Err() },
				Resource: "account/42",
				Do: func(ctx context.Context) error {
					return do(ctx, redislock.New(client), client, func(balance int64) int64 { return balance + 1 })
				},
				Count: func(ctx context.Context) (int, error) { return plain.Get(ctx, "balance:{account/42}").Int() },
			})
		})
	}
}
