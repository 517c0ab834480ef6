package redisguard

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// Set is go-redis's Set of one key (https://redis.io/docs/latest/commands/set),
// if the token of resource in ctx is admitted. value and expiration are what
// they are there: zero means no expiry, [redis.KeepTTL] the one it has.
//
// nil means that it was applied. A refusal, [guard.ErrRetryable], and every
// other error but [guard.ErrUnknown] mean that nothing was; see there and in the
// package's comment for what is unknown. The mark may be raised in all of them
// but a refusal. It returns when ctx ends: with the cause alone where nothing was
// sent, and then never will be, and else with ErrUnknown and the cause. The loss
// of the lease alone does not end it.
func (g *Guard) Set(ctx context.Context, resource, key string, value any, expiration time.Duration) error {
	_, err := g.command(ctx, resource, func(p redis.Pipeliner) redis.Cmder {
		return p.Set(ctx, key, value, expiration)
	})
	return err
}

// HSet is go-redis's HSet (https://redis.io/docs/latest/commands/hset), if the
// token of resource in ctx is admitted, and returns how many fields are new. Its
// values are given as there. A few thousand fields are the most that a script
// can pass on; of more, nothing is written. Its errors are those of [Guard.Set].
func (g *Guard) HSet(ctx context.Context, resource, key string, values ...any) (int64, error) {
	value, err := g.command(ctx, resource, func(p redis.Pipeliner) redis.Cmder {
		return p.HSet(ctx, key, values...)
	})
	if err != nil {
		return 0, err
	}
	added, ok := value.(int64)
	if !ok {
		return 0, unknown("hset", resource, fmt.Errorf("server answered %v", value))
	}
	return added, nil
}

// command makes a write of the command that go-redis puts together, whose first
// argument is its one key.
func (g *Guard) command(ctx context.Context, resource string, put func(redis.Pipeliner) redis.Cmder) (any, error) {
	w, err := g.write(ctx, resource)
	if err != nil {
		return nil, err
	}
	cmd := put(g.Client.Pipeline()) // which is never executed
	args := cmd.Args()
	w.verb, w.script, w.keys = cmd.Name(), commandScript, []string{fmt.Sprint(args[1])}
	w.args = append([]any{args[0]}, args[2:]...)
	return w.do(ctx)
}
