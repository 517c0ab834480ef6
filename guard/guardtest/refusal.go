package guardtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func told(ctx context.Context, s guard.Store) error {
	for _, late := range []token.Token{{Number: 32, Holder: "b"}, {Number: 33, Holder: "b"}} {
		late.Resource = fresh()
		mark := guard.Mark{Number: 33, Holder: hostile[0]}
		if err := admits(ctx, s, tok(late.Resource, mark.Number, mark.Holder)); err != nil {
			return err
		}
		err := admit(ctx, s, late)
		var stale *guard.StaleError
		switch {
		case !errors.As(err, &stale):
			return fmt.Errorf("%s must be refused by a *guard.StaleError: got %T, %v", show(late), err, err)
		case stale.Token != late:
			return fmt.Errorf("StaleError.Token must be %s: got %s", show(late), show(stale.Token))
		case stale.Mark != mark:
			return fmt.Errorf("StaleError.Mark must be %+v: got %+v", mark, stale.Mark)
		case !errors.Is(err, guard.ErrStale), errors.Is(err, guard.ErrCollision) != (late.Number == mark.Number):
			return fmt.Errorf("%v must be ErrStale, and ErrCollision exactly where the numbers are equal", err)
		}
	}
	return nil
}

func incomplete(ctx context.Context, s guard.Store) error {
	r := fresh()
	long := strings.Repeat("x", token.MaxName+1)
	toks := []token.Token{
		{}, tok("", 33, "a"), tok(r, 33, ""), tok(r, 0, "a"), tok(r, -1, "a"), tok(r, token.MaxNumber+1, "a"),
		tok(r+"\n", 33, "a"), tok(r+"\xff", 33, "a"), tok(long, 33, "a"),
		tok(r, 33, "a\x00"), tok(r, 33, "a\xff"), tok(r, 33, long),
	}
	for _, tok := range toks {
		err := admit(ctx, s, tok)
		if !errors.Is(err, token.ErrInvalid) || errors.Is(err, guard.ErrStale) {
			return fmt.Errorf("%s must be refused with token.ErrInvalid: got %w", show(tok), orNil(err))
		}
	}
	return admits(ctx, s, tok(r, 1, "a"))
}

// cancelled does not ask for an error: a store that needs no waiting may well
// answer a caller that has left.
func cancelled(ctx context.Context, s guard.Store) error {
	r := fresh()
	if err := admits(ctx, s, tok(r, 33, "a")); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Admit(ended, tok(r, 34, "b")); guard.Refusal(err) {
		return fmt.Errorf("after 33 by a, 34 by b under an ended context is not refused: got %w", err)
	}
	if s.Admit(ended, tok(r, 32, "c")) == nil {
		return errors.New("after 33 by a, 32 by c under an ended context must not be admitted")
	}
	return refuses(ctx, s, tok(r, 32, "c"))
}

var errNil = errors.New("nil")

func orNil(err error) error {
	if err == nil {
		return errNil
	}
	return err
}
