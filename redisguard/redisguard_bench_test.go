package redisguard_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/internal/test/benchratio"
	"github.com/fencepost/fencepost/internal/test/testenv"
	"github.com/fencepost/fencepost/redisguard"
)

// Each baseline is the same write without a guard.
func BenchmarkWrite(b *testing.B) {
	client, prefix := testenv.Redis(b)
	g := &redisguard.Guard{Client: client, MarkKey: func(resource string) string { return prefix + ":mark:{" + resource + "}" }}
	ctx, key := with(b.Context(), 33, "billing:4711:1:c2f1a3b4d5e6f708"), prefix+":written"
	b.Run("Set", func(b *testing.B) {
		benchratio.Report(b,
			func() error { return client.Set(ctx, key, "value", 0).Err() },
			func() error { return g.Set(ctx, resource, key, "value", 0) })
	})
	b.Run("HSet", func(b *testing.B) {
		benchratio.Report(b,
			func() error { return client.HSet(ctx, key+":hash", "field", "value").Err() },
			func() error { _, err := g.HSet(ctx, resource, key+":hash", "field", "value"); return err })
	})
	b.Run("Eval", func(b *testing.B) {
		plain := redis.NewScript(increment)
		benchratio.Report(b,
			func() error { return plain.Run(ctx, client, []string{key + ":counter"}).Err() },
			func() error { _, err := g.Eval(ctx, resource, increment, []string{key + ":counter"}); return err })
	})
	b.Run("Set with a new token each time", func(b *testing.B) {
		number := int64(33)
		benchratio.Report(b,
			func() error { return client.Set(ctx, key, "value", 0).Err() },
			func() error {
				number++
				return g.Set(with(ctx, number, "a"), resource, key, "value", 0)
			})
	})
}
