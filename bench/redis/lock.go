package redis

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/token"
)

// many is how many goroutines there are, where they are several. Each has a
// resource of its own.
const many = 16

// holder is as long as those of a Locker are.
const holder = "bench:4711:1:c2f1a9035be17d64"

var resources, keys [many]string

func init() {
	for worker := range many {
		resources[worker] = fmt.Sprintf("account/%d", 42+worker)
		keys[worker] = "raw:" + resources[worker]
	}
}

var deleteOwn = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`)

var errTaken = errors.New("raw: somebody else has it")

// raw is the lock that everybody writes.
func (g *Group) raw(ctx context.Context, worker int) error {
	ok, err := g.client.SetNX(ctx, keys[worker], holder, peer.TTL).Result()
	if err == nil && !ok {
		err = errTaken
	}
	if err != nil {
		return err
	}
	n, err := deleteOwn.Run(ctx, g.client, keys[worker:worker+1], holder).Int()
	if err == nil && n != 1 {
		err = errTaken
	}
	return err
}

// pings are two round trips, and nothing else.
func (g *Group) pings(ctx context.Context, worker int) error {
	if err := g.ping(ctx, worker); err != nil {
		return err
	}
	return g.ping(ctx, worker)
}

func (g *Group) ping(ctx context.Context, _ int) error { return g.client.Ping(ctx).Err() }

// issued asks an issuer itself.
func issued(iss token.Issuer) measure.Op {
	return func(ctx context.Context, worker int) error {
		grant, err := iss.Acquire(ctx, resources[worker], holder, peer.TTL)
		if err != nil {
			return err
		}
		return iss.Release(ctx, grant.Token)
	}
}

// hold runs nothing under the lock, as programs run something.
func (g *Group) hold(ctx context.Context, worker int) error {
	return g.ours.Hold(ctx, resources[worker], func(context.Context) error { return nil })
}

// locked is somebody else's lock.
func locked(lock peer.Lock) measure.Op {
	return func(ctx context.Context, worker int) error {
		unlock, err := lock.Wait(ctx, resources[worker])
		if err != nil {
			return err
		}
		return unlock(ctx)
	}
}
