package guardtest

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// unchanged asks each question twice, of a resource where somebody was refused
// before and of one where nobody was: the answers must be the same, whether or
// not they are right.
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
		return nil // no refusal: the other rules say whether it should be one
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
