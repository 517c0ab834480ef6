package simulations_test

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

var _ token.Issuer = (*process)(nil)

// Acquire tells who is refused to come again in a millisecond. That is less than
// the Locker would ever draw for its pause, which is why its pauses repeat.
func (p *process) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	op := history.Op{Kind: history.Acquire, Holder: holder}
	op, err := p.carry(ctx, p.work, op, func(ctx context.Context, op *history.Op) error {
		grant, err := p.far.Acquire(ctx, resource, holder, ttl)
		op.Number, op.Until = grant.Token.Number, op.Began+ttl
		return err
	})
	var held *token.HeldError
	if errors.As(err, &held) {
		held.Remaining = time.Millisecond
	}
	tok := token.Token{Resource: resource, Number: op.Number, Holder: holder}
	return token.Grant{Token: tok, Until: p.recorder.Started().Add(op.Until)}, err
}

// Renew implements [token.Issuer].
func (p *process) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	op := history.Op{Kind: history.Renew, Number: tok.Number, Holder: tok.Holder}
	op, err := p.carry(ctx, p.renewals, op, func(ctx context.Context, op *history.Op) error {
		_, err := p.far.Renew(ctx, tok, ttl)
		if err == nil {
			op.Until = op.Began + ttl
		}
		return err
	})
	return p.recorder.Started().Add(op.Until), err
}

// Release implements [token.Issuer].
func (p *process) Release(ctx context.Context, tok token.Token) error {
	op := history.Op{Kind: history.Release, Number: tok.Number, Holder: tok.Holder}
	_, err := p.carry(ctx, p.work, op, func(ctx context.Context, _ *history.Op) error { return p.far.Release(ctx, tok) })
	return err
}
