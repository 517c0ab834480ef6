package adopt_test

import (
	"testing"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/examples/adopt"
	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/test/testenv"
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
