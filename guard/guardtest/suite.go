package guardtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// bound is the time limit of a check, for a store that blocks.
const bound = 2 * time.Minute

// check is a rule and a function that returns nil if a new store follows it, or an error.
type check struct {
	rule string
	run  func(ctx context.Context, s guard.Store) error
}

var checks = []check{
	{"a resource without a mark admits every complete token", first},
	{"a greater number is admitted", greater},
	{"a lesser number is refused", lesser},
	{"the mark's own holder is admitted again", again},
	{"an equal number of another holder is refused", collision},
	{"numbers are compared as numbers", numeric},
	{"resources have marks of their own", apart},
	{"marks are not forgotten", remembered},
	{"a refusal changes nothing", unchanged},
	{"a refusal is a StaleError with the token and the mark", reported},
	{"an incomplete token is refused with its own error", incomplete},
	{"an ended context is no refusal and lowers no mark", cancelled},
	{"resources are compared byte by byte", resourceBytes},
	{"holders are compared byte by byte", holderBytes},
	{"names are kept whole", whole},
	{"compare and raise are one step", oneStep},
	{"contention refuses only stale tokens", noSpuriousRefusal},
}

// TestStore runs one subtest for each rule of [guard.Store], in parallel, each with a
// store from newStore. newStore may return the same store each time. If the store returns
// [guard.ErrRetryable], TestStore repeats the call.
func TestStore(t *testing.T, newStore func(t *testing.T) guard.Store) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.rule, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), bound)
			defer cancel()
			if err := c.run(ctx, newStore(t)); err != nil {
				t.Errorf("guardtest: the store breaks the rule %q: %v", c.rule, err)
			}
		})
	}
}

// fresh returns an unused resource name. Its kind is unused too.
func fresh() string { return rand.Text()[:12] + "/1" }

func tok(resource string, number int64, holder string) token.Token {
	return token.Token{Resource: resource, Number: number, Holder: holder}
}

// admit repeats Admit while the store returns [guard.ErrRetryable].
func admit(ctx context.Context, s guard.Store, tok token.Token) error {
	for {
		err := s.Admit(ctx, tok)
		if !errors.Is(err, guard.ErrRetryable) || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// admits returns nil if the store admits all tokens, in this order.
func admits(ctx context.Context, s guard.Store, toks ...token.Token) error {
	for i, tok := range toks {
		if err := admit(ctx, s, tok); err != nil {
			return fmt.Errorf("after %s, %s must be admitted: got %w", show(toks[:i]...), show(tok), err)
		}
	}
	return nil
}

// refuses returns nil if the store does not admit tok. It accepts any error: only the
// check named "reported" tests its type.
func refuses(ctx context.Context, s guard.Store, tok token.Token) error {
	if admit(ctx, s, tok) == nil {
		return fmt.Errorf("%s must be refused: it was admitted", show(tok))
	}
	return nil
}

// refusesAfter returns nil if the store admits the earlier tokens, in this order, and then
// refuses tok.
func refusesAfter(ctx context.Context, s guard.Store, tok token.Token, earlier ...token.Token) error {
	if err := admits(ctx, s, earlier...); err != nil {
		return err
	}
	if err := refuses(ctx, s, tok); err != nil {
		return fmt.Errorf("after %s, %w", show(earlier...), err)
	}
	return nil
}

func show(toks ...token.Token) string {
	if len(toks) == 0 {
		return "nothing"
	}
	texts := make([]string, len(toks))
	for i, tok := range toks {
		texts[i] = fmt.Sprintf("%q#%d by %q", tok.Resource, tok.Number, tok.Holder)
	}
	return strings.Join(texts, ", ")
}
