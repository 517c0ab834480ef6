package token

import (
	"context"
	"errors"
	"fmt"

	"github.com/fencepost/fencepost/internal/tenure"
)

// refusal is a guard's: this package knows no guards.
type refusal interface {
	error
	Stale() (tok Token, mark int64)
}

// heal is told that err came of the work, or of the claim. Where it is a
// guard's refusal of this lease's own token, the issuer is asked what it knows
// of the mark. If it had forgotten, it is raised past it, so that the next
// acquisition is admitted. If not, the lease was lost, which is joined to err.
func (l *lease) heal(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	mark, refused := highest(err, l.tok)
	if !refused {
		return err
	}
	l.observer.refused(l, err, mark == l.tok.Number)
	iss, ok := l.issuer.(Raiser)
	if !ok || !tenure.Suspects(l.tok.Number, mark, errors.Is(context.Cause(l.ctx), ErrLost)) {
		return err
	}
	if raised := l.raise(ctx, iss, mark); raised != nil {
		return errors.Join(err, raised)
	}
	l.healed = true
	l.observer.healed(l, mark)
	return err
}

// highest is the greatest mark among the refusals of tok that err is made of:
// errors.As would find the first alone.
func highest(err any, tok Token) (mark int64, refused bool) {
	if r, ok := err.(refusal); ok {
		if t, m := r.Stale(); t == tok {
			mark, refused = m, true
		}
	}
	var below []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		below = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		below = e.Unwrap()
	}
	for _, err := range below {
		m, ok := highest(err, tok)
		mark, refused = max(mark, m), refused || ok
	}
	return mark, refused
}

// raise asks the issuer to, and returns why it was not healed.
func (l *lease) raise(ctx context.Context, iss Raiser, mark int64) error {
	if !healings.allowed(l.issuer, l.tok.Resource) {
		return fmt.Errorf("token: %s: refused as stale again and again: do two issuers grant this resource?", l.tok)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.ttl)
	defer cancel()
	err := iss.Raise(ctx, l.tok.Resource, mark)
	loss := errors.Is(err, ErrLost)
	switch {
	case err != nil && !loss:
	case tenure.Healed(l.tok.Number, mark, loss):
		healings.note(l.issuer, l.tok.Resource)
		return nil
	default:
		return &LostError{Token: l.tok, Err: err}
	}
	return fmt.Errorf("token: raise of %s to %d: %w", l.tok.Resource, mark, err)
}
