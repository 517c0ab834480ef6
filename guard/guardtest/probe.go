package guardtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// fresh names a resource that nobody has used before, of a kind of its own.
func fresh() string { return rand.Text()[:12] + "/1" }

func tok(resource string, number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

// admit asks until the store answers something other than that it was busy.
func admit(ctx context.Context, s guard.Store, tok token.Token) error {
	for {
		err := s.Admit(ctx, tok)
		if !errors.Is(err, guard.ErrRetryable) || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// admits returns nil if the store admits the tokens, one after the other.
func admits(ctx context.Context, s guard.Store, toks ...token.Token) error {
	for i, tok := range toks {
		if err := admit(ctx, s, tok); err != nil {
			return fmt.Errorf("after %s, %s must be admitted: got %w", show(toks[:i]...), show(tok), err)
		}
	}
	return nil
}

// refuses returns nil if the store does not admit tok. What the refusal looks
// like is the business of one rule alone.
func refuses(ctx context.Context, s guard.Store, tok token.Token) error {
	if admit(ctx, s, tok) == nil {
		return fmt.Errorf("%s must be refused: it was admitted", show(tok))
	}
	return nil
}

func show(toks ...token.Token) string {
	if len(toks) == 0 {
		return "nothing"
	}
	text := ""
	for i, tok := range toks {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%q#%d by %q", tok.Resource, tok.Number, tok.Holder)
	}
	return text
}
