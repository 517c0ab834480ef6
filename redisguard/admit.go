package redisguard

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/writectx"
	"github.com/fencepost/fencepost/token"
)

// Admit implements [guard.Store]. It is a claim, for lock.Locker: it raises the mark
// without a write. After it has returned nil, no older token writes through a Guard of
// this server. Writes to other systems after Admit are not fenced: see the package
// documentation.
//
// Admit returns a [*guard.StaleError] if the mark refuses tok, and [token.ErrInvalid] if
// tok is incomplete. If ctx ends, it returns the cause; the mark may be raised even then.
// A retry by go-redis is harmless. Admit returns [guard.ErrRetryable] if the server was
// running another client's script, or was moving the mark's slot to another node.
func (g *Guard) Admit(ctx context.Context, tok token.Token) error {
	err := tok.Validate()
	if err == nil {
		err = g.admit(ctx, tok)
	}
	return guard.WithCause(ctx, g.Hooks.Outcome(ctx, err, g.DangerouslyReportOnly))
}

func (g *Guard) admit(ctx context.Context, tok token.Token) error {
	key, err := g.markKey(tok.Resource)
	if err != nil {
		return err
	}
	value, err := g.runScript(ctx, admitScript, key, "enforce", text(tok))
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

// runScript runs a script that go-redis may safely run twice.
func (g *Guard) runScript(ctx context.Context, s *redis.Script, key string, args ...any) (any, error) {
	if err := writectx.CheckSend(ctx); err != nil {
		return nil, notSent(err)
	}
	inner, ended := claimSteps(ctx)
	defer ended()
	return await(inner, func(ctx context.Context) (any, error) {
		return s.Run(ctx, g.Client, []string{key}, args...).Result()
	}, func(cause error) error { return cause })
}

// Mint issues a number for an acquisition of a lock that does not number its holders.
// Call it right after you acquire the lock, and before you read. In one step it chooses a
// number above the mark, at least the server's clock in units of 10 µs, raises the mark
// to it, and returns ctx with the token: write under the returned context. From then on
// every older token is refused, whatever the lock's state, so data that is read after
// Mint is safe to write back. [token.FromContext] returns the token itself. holder must be
// unique to this acquisition.
//
// Mint returns [token.ErrInvalid] if a name is invalid, and [token.ErrExhausted] if the
// mark is already the greatest number. After any other error the mark may have been
// raised: call Mint again.
//
// The context beside an error has a token of resource without a number: under it, every
// guarded write returns [token.ErrInvalid], even if ctx has an older token of resource.
func (g *Guard) Mint(ctx context.Context, resource, holder string) (context.Context, error) {
	number, err := g.mint(ctx, resource, holder)
	return token.NewContext(ctx, token.Token{Resource: resource, Number: number, Holder: holder}), err
}

// mint returns 0 beside an error.
func (g *Guard) mint(ctx context.Context, resource, holder string) (number int64, err error) {
	if _, err := token.New(resource, token.MaxNumber, holder); err != nil {
		return 0, err
	}
	key, err := g.markKey(resource)
	if err != nil {
		return 0, err
	}
	value, err := g.runScript(asClaim(ctx), mintScript, key, holder)
	if err == nil {
		number, err = minted(key, value)
	}
	if err != nil {
		return 0, guard.WithCause(ctx, failed("mint", resource, err))
	}
	return number, nil
}

func minted(key string, value any) (int64, error) {
	switch r := parse(value); r.word {
	case "minted":
		digits, _ := r.values[0].(string)
		number, err := strconv.ParseInt(digits, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("server minted %q: %w", digits, err)
		}
		return number, nil
	case "exhausted":
		return 0, token.ErrExhausted
	}
	return 0, unexpected(key, value)
}
