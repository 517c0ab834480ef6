package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/bench/measure"
	"github.com/fencepost/fencepost/bench/peer"
	"github.com/fencepost/fencepost/token"
)

// mostRefused is the most that being told who has it, and for how long, may cost
// beside being told nothing.
const mostRefused = 1.12

// held is the resource that somebody else has all the time.
const held = "account/1"

// refused is one try for what somebody else has.
func (g *Group) refused() []measure.Figure {
	figures := []measure.Figure{
		{Name: "refused, a/a", Ours: g.refusedRaw},
		{Name: "refused Acquire", Ours: g.refusedAcquire, Target: mostRefused},
		{Name: "refused TryHold", Ours: g.refusedHold},
		{Name: "refused redislock", Ours: tried(peer.Redislock(g.client))},
		{Name: "refused redsync", Ours: tried(peer.Redsync(g.client))},
		{Name: "refused rueidislock, one key", Ours: tried(g.rueidis)},
	}
	for i := range figures {
		figures[i].Baseline, figures[i].Plain, figures[i].Setup = "refused SET NX", g.refusedRaw, g.take
	}
	return figures
}

// take is somebody else, for longer than all that is measured.
func (g *Group) take(ctx context.Context) error {
	const somebody, long = "somebody:4711:1:035be17d64c2f1a9", time.Hour
	_, err := g.issuer.Acquire(ctx, held, somebody, long)
	for _, key := range []string{"raw:" + held, "redislock:" + held, "redsync:" + held, "rueidislock:0:" + held} {
		err = errors.Join(err, g.client.Set(ctx, key, somebody, long).Err())
	}
	return err
}

func (g *Group) refusedRaw(ctx context.Context, _ int) error {
	ok, err := g.client.SetNX(ctx, "raw:"+held, holder, peer.TTL).Result()
	if err == nil && ok {
		err = errGranted
	}
	return err
}

func (g *Group) refusedAcquire(ctx context.Context, _ int) error {
	_, err := g.issuer.Acquire(ctx, held, holder, peer.TTL)
	return refusal(err, token.ErrHeld)
}

func (g *Group) refusedHold(ctx context.Context, _ int) error {
	return refusal(g.ours.TryHold(ctx, held, func(context.Context) error { return nil }), token.ErrHeld)
}

func tried(lock peer.Lock) measure.Op {
	return func(ctx context.Context, _ int) error {
		_, err := lock.Try(ctx, held)
		return refusal(err, peer.ErrHeld)
	}
}

var errGranted = errors.New("what somebody else has was granted")

// refusal makes an error of everything but a refusal.
func refusal(err, want error) error {
	switch {
	case err == nil:
		return errGranted
	case errors.Is(err, want):
		return nil
	}
	return fmt.Errorf("refused for another reason: %w", err)
}
