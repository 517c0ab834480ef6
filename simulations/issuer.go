package simulations

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/token"
)

// ages is what a writer takes its lease's duration to be: the worst holder never notices
// by itself that it has lost the lock.
const ages = time.Hour

var errReplyLost = errors.New("simulations: the reply was lost")

// issuer is the subject's Issuer for one writer.
type issuer struct{ w *writer }

var _ token.Issuer = (*issuer)(nil)

// Unwrap makes a Hold in the subject's code a nested one.
func (i *issuer) Unwrap() token.Issuer { return i.w.stage.subject.Issuer }

func (i *issuer) Acquire(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	w := i.w
	if w.asked.CompareAndSwap(false, true) {
		w.pass(stepAcquire)
		w.since.Store(int64(w.now()))
	}
	for {
		if w.dead.Load() {
			return token.Grant{}, errCrashed
		}
		grant, err := i.ask(ctx, resource, holder, ttl)
		if !errors.Is(err, token.ErrHeld) {
			return grant, err
		}
		if !w.wait(stepHeld) { // otherwise it retries when the director resumes it
			select {
			case w.held <- struct{}{}:
			default:
			}
			return grant, err
		}
	}
}

// ask records every answer except that another writer has the lock. A whole wait is one
// operation.
func (i *issuer) ask(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	w := i.w
	op := history.Op{Kind: history.Acquire, Holder: holder, Began: time.Duration(w.since.Load())}
	sent, counted := time.Now(), w.stage.recorder.Now()
	grant, err := i.Unwrap().Acquire(failpoint.Untraced(ctx), resource, holder, ttl)
	if errors.Is(err, token.ErrHeld) {
		return grant, err
	}
	op.Number, op.Outcome = grant.Token.Number, history.OutcomeOf(err)
	if err == nil {
		op.Until = counted + grant.Until.Sub(sent)
	}
	if err == nil && w.dropsGrant.Load() {
		op.Outcome, op.Until, err = history.Unknown, 0, errReplyLost
	}
	w.record(op)
	if op.Number > 0 {
		w.has(grant.Token) // also if the reply is lost
	}
	if err != nil {
		return token.Grant{}, err
	}
	w.pass(stepGranted)
	return token.Grant{Token: grant.Token, Until: time.Now().Add(ages)}, nil
}

func (i *issuer) Release(ctx context.Context, tok token.Token) error {
	w := i.w
	w.pass(stepRelease)
	if w.dead.Load() {
		return errCrashed
	}
	outcome, err := w.release(failpoint.Untraced(ctx), tok, "")
	w.kept.Store(outcome == history.Unknown)
	return err
}

// Renew blocks for a paused writer, and for one that must not notice that its lock is lost.
func (i *issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	w := i.w
	if w.asleep.Load() || w.lost.Load() || w.dead.Load() {
		return time.Time{}, w.hang(ctx)
	}
	err := w.renew(failpoint.Untraced(ctx), tok, ttl)
	if w.lost.Load() {
		return time.Time{}, w.hang(ctx) // the lock was taken away meanwhile
	}
	return time.Now().Add(ages), err
}

// hang blocks until ctx or the writer has ended.
func (w *writer) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.done: // there is no caller any more
		return errCrashed
	}
}

// renew calls the subject's issuer and records the operation.
func (w *writer) renew(ctx context.Context, tok token.Token, ttl time.Duration) error {
	op := history.Op{Kind: history.Renew, Number: tok.Number, Holder: tok.Holder, Began: w.now()}
	sent, counted := time.Now(), w.stage.recorder.Now()
	until, err := w.stage.subject.Issuer.Renew(ctx, tok, ttl)
	op.Outcome = history.LockOutcomeOf(err)
	if err == nil {
		op.Until = counted + until.Sub(sent)
	}
	w.record(op)
	return err
}
