package guardtest

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

func reported(ctx context.Context, s guard.Store) error {
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
			return fmt.Errorf("%v must be ErrStale, and ErrCollision if and only if the numbers are equal", err)
		}
	}
	return nil
}

func incomplete(ctx context.Context, s guard.Store) error {
	r := fresh()
	long := strings.Repeat("x", token.MaxNameBytes+1)
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

// cancelled accepts both results: a store that does not wait may admit a token although
// the context has ended.
func cancelled(ctx context.Context, s guard.Store) error {
	r := fresh()
	if err := admits(ctx, s, tok(r, 33, "a")); err != nil {
		return err
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if err := s.Admit(ended, tok(r, 34, "b")); guard.IsRefusal(err) {
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

// unchanged compares two resources, one with a refusal and one without. Each later call
// must have the same result on both, whether or not that result is right.
func unchanged(ctx context.Context, s guard.Store) error {
	late := []token.Token{{Number: 31, Holder: "b"}, {Number: 32, Holder: "a"}, {Number: 33, Holder: "b"}}
	questions := []token.Token{
		{Number: 32, Holder: "c"}, {Number: 33, Holder: "a"}, {Number: 33, Holder: "c"},
		{Number: 33, Holder: "b"}, {Number: 34, Holder: "c"},
	}
	for _, late := range late {
		for _, question := range questions {
			if err := asksTwice(ctx, s, question, late); err != nil {
				return err
			}
		}
	}
	return nil
}

func asksTwice(ctx context.Context, s guard.Store, question, late token.Token) error {
	alone, interrupted := fresh(), fresh()
	if err := admits(ctx, s, tok(alone, 33, "a"), tok(interrupted, 33, "a")); err != nil {
		return err
	}
	if admit(ctx, s, tok(interrupted, late.Number, late.Holder)) == nil {
		return nil // no refusal: other rules check whether it should be one
	}
	want := verdict(admit(ctx, s, tok(alone, question.Number, question.Holder)))
	got := verdict(admit(ctx, s, tok(interrupted, question.Number, question.Holder)))
	if got != want {
		return fmt.Errorf("after 33 by a, %d by %s is %s; once %d by %s was refused in between, it is %s",
			question.Number, question.Holder, want, late.Number, late.Holder, got)
	}
	return nil
}

func verdict(err error) string {
	switch {
	case err == nil:
		return "admitted"
	case errors.Is(err, guard.ErrStale):
		return "refused"
	}
	return "an error"
}
