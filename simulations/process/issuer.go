package process

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// ages is what a writer believes its lease to last: the worst holder there is
// never notices that it has lost the lock.
const ages = time.Hour

// issuer is the subject's, on the record.
type issuer struct {
	*unit
	lost atomic.Int64 // the number of the token that is known to be lost
}

var _ token.Issuer = (*issuer)(nil)

// Unwrap makes a Hold of the subject's own a re-entry.
func (i *issuer) Unwrap() token.Issuer { return i.subject.Issuer }

func (i *issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	if i.seen[stepAcquire] == 0 {
		i.pass(stepAcquire)
	}
	op := i.op(history.Acquire)
	op.Number, op.Holder, op.Began = 0, holder, i.recorder.Now()
	sent := time.Now()
	grant, err := i.subject.Issuer.Acquire(simulations.Unheard(ctx), resource, holder, ttl)
	if errors.Is(err, token.ErrHeld) {
		return grant, err // again soon, and of no interest
	}
	if op.Number = grant.Token.Number; err == nil {
		op.Until = op.Began + grant.Until.Sub(sent)
	}
	op.Outcome, op.Ended = simulations.LockOutcome(err), i.recorder.Now()
	i.recorder.Add(op)
	if err != nil {
		return grant, err
	}
	i.tok = grant.Token
	i.pass(stepGranted)
	return token.Grant{Token: grant.Token, Until: time.Now().Add(ages)}, nil
}

// Renew hangs for a token that is lost: its holder must not hear of that.
func (i *issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	if i.lost.Load() == tok.Number {
		<-ctx.Done()
		return time.Time{}, context.Cause(ctx)
	}
	open := i.ask(history.Renew, tok)
	sent := time.Now()
	until, err := i.subject.Issuer.Renew(simulations.Unheard(ctx), tok, ttl)
	open.End(simulations.LockOutcome(err), func(op *history.Op) {
		if err == nil {
			op.Until = op.Began + until.Sub(sent)
		}
	})
	switch {
	case errors.Is(err, token.ErrLost):
		i.lost.Store(tok.Number)
		return i.Renew(ctx, tok, ttl)
	case err != nil:
		return time.Time{}, err
	}
	return time.Now().Add(ages), nil
}

func (i *issuer) Release(ctx context.Context, tok token.Token) error {
	i.pass(stepRelease)
	open := i.ask(history.Release, tok)
	err := i.subject.Issuer.Release(simulations.Unheard(ctx), tok)
	open.End(simulations.LockOutcome(err), nil)
	return err
}

// ask puts the question down before it is asked: its answer may be lost with
// the writer.
func (i *issuer) ask(k history.Kind, tok token.Token) *history.Open {
	return i.recorder.Begin(history.Op{
		Kind: k, Writer: i.Name, Resource: tok.Resource, Number: tok.Number, Holder: tok.Holder,
	})
}
