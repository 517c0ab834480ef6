package redisguard

import (
	"context"
	"fmt"
	"strconv"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// Mint makes a token for people who have a lock already that does not number
// its holders. Call it right after the lock was acquired: its number is above
// the mark, at least the server's clock in units of 10 us, and the mark is raised
// to it, in one step. Whoever minted last is the writer from then on, however
// slow it was, and what it reads after Mint is safe to write back. holder names
// this one acquisition: two must never share it. [token.ErrInvalid] means that a
// name is not one, and [token.ErrExhausted] that the mark is the greatest number
// there is. After any other error the mark may be raised: mint again.
func (g *Guard) Mint(ctx context.Context, resource, holder string) (token.Token, error) {
	tok, err := token.New(resource, token.MaxNumber, holder)
	if err != nil {
		return token.Token{}, err
	}
	key, err := g.markKey(resource)
	if err != nil {
		return token.Token{}, err
	}
	value, err := g.ask(ctx, mintScript, key, holder)
	if err == nil {
		tok.Number, err = minted(key, value)
	}
	if err != nil {
		return token.Token{}, guard.WithLoss(ctx, failed("mint", resource, err))
	}
	return token.New(resource, tok.Number, holder)
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
