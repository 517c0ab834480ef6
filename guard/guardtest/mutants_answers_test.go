package guardtest_test

import (
	"context"
	"errors"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

var answerFaults = []fault{
	// hazard G16
	{"incomplete tokens", []string{incomplete}, func(m *mutant) {
		m.complete = func(token.Token) error { return nil }
		m.admits = func(mark guard.Mark, tok token.Token) bool {
			return tok.Number > mark.Number || tok.Number == mark.Number && tok.Holder == mark.Holder
		}
	}},
	// hazard G16
	{"a token without a holder", []string{incomplete}, func(m *mutant) {
		m.complete = func(tok token.Token) error {
			if tok.Holder == "" {
				tok.Holder = "anybody"
			}
			return tok.Check()
		}
	}},
	{"an incomplete token is called stale", []string{incomplete}, func(m *mutant) {
		m.complete = func(tok token.Token) error {
			if tok.Check() != nil {
				return &guard.StaleError{Token: tok}
			}
			return nil
		}
	}},
	{"a refusal without a type", []string{told}, func(m *mutant) {
		m.answer = func(error) error { return errors.New("stale") }
	}},
	{"a refusal without a mark", []string{told}, func(m *mutant) {
		m.answer = func(err error) error { return &guard.StaleError{Token: staleToken(err)} }
	}},
	{"a refusal without a token", []string{told}, func(m *mutant) {
		m.answer = func(err error) error {
			var stale *guard.StaleError
			errors.As(err, &stale)
			return &guard.StaleError{Mark: stale.Mark}
		}
	}},
	{"an ended context is called stale", []string{cancelled}, func(m *mutant) {
		m.enter = func(ctx context.Context, tok token.Token) error {
			if ctx.Err() != nil {
				return &guard.StaleError{Token: tok, Mark: m.marks[tok.Resource]}
			}
			return nil
		}
	}},
	{"an ended context forgets the mark", []string{cancelled}, func(m *mutant) {
		m.enter = func(ctx context.Context, tok token.Token) error {
			if ctx.Err() != nil {
				delete(m.marks, tok.Resource)
			}
			return ctx.Err()
		}
	}},
}

func staleToken(err error) token.Token {
	var stale *guard.StaleError
	errors.As(err, &stale)
	return stale.Token
}
