package redisguard

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/point"
	"github.com/fencepost/fencepost/token"
)

// Admit implements [guard.Store]: it is a claim, for token.Locker, and raises
// the mark without a write. From then on no older token writes through a Guard
// of this server. What is written to another place after Admit has returned is
// not fenced: see the package's comment.
//
// It returns when ctx ends, with its cause; the mark may be raised even so. What
// the client sends again by itself does no harm. [guard.ErrRetryable] means that
// the server was busy with somebody else's script, or moving the mark's slot.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	err := tok.Check()
	if err == nil {
		err = g.admit(ctx, tok)
	}
	return guard.WithLoss(ctx, g.Observer.Judge(ctx, err, g.DangerouslyObserve))
}

func (g *Guard) admit(ctx context.Context, tok token.Token) error {
	key, err := g.markKey(tok.Resource)
	if err != nil {
		return err
	}
	value, err := g.ask(ctx, admitScript, key, "enforce", text(tok))
	if err != nil {
		return failed("admit", tok.Resource, err)
	}
	switch r := parse(value); r.word {
	case "admitted":
		return nil
	case "refused":
		return stale(tok, r.values[0])
	}
	return failed("admit", tok.Resource, unexpected(key, value))
}

// ask runs a script that does no harm where it runs twice.
func (g *Guard) ask(ctx context.Context, s *redis.Script, key string, args ...any) (any, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	claim := new(point.Step) // a key of its own
	point.At(ctx, point.Begin, claim)
	defer point.At(ctx, point.Undone, claim)
	return await(ctx, func(ctx context.Context) (any, error) {
		return s.Run(ctx, g.Client, []string{key}, args...).Result()
	}, func(cause error) error { return cause })
}
