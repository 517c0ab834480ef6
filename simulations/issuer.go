package simulations

import (
	"context"
	"errors"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// ages is what a writer believes its lease to last: the worst holder there is
// never notices by itself that it has lost the lock.
const ages = time.Hour

var errReplyLost = errors.New("simulations: the reply was lost")

// issuer is the subject's, as one writer sees it.
type issuer struct{ w *writer }

var _ token.Issuer = (*issuer)(nil)

// Unwrap makes a Hold of the subject's own a re-entry.
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
		if !w.wait(stepHeld) { // else it asks again when the director says so
			select {
			case w.held <- struct{}{}:
			default:
			}
			return grant, err
		}
	}
}

// ask puts down every answer but that another has the lock, and the whole
// waiting as one question.
func (i *issuer) ask(ctx context.Context, resource, holder string, ttl time.Duration) (token.Grant, error) {
	w := i.w
	op := history.Op{Kind: history.Acquire, Holder: holder, Began: time.Duration(w.since.Load())}
	sent, counted := time.Now(), w.stage.recorder.Now()
	grant, err := i.Unwrap().Acquire(Unheard(ctx), resource, holder, ttl)
	if errors.Is(err, token.ErrHeld) {
		return grant, err
	}
	op.Number, op.Outcome = grant.Token.Number, Outcome(err)
	if err == nil {
		op.Until = counted + grant.Until.Sub(sent)
	}
	if err == nil && w.mute.Load() {
		op.Outcome, op.Until, err = history.Unknown, 0, errReplyLost
	}
	w.record(op)
	if op.Number > 0 {
		w.tok.Store(&grant.Token) // the director knows what was lost on the way
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
	op := history.Op{Kind: history.Release, Number: tok.Number, Holder: tok.Holder, Began: w.now()}
	err := i.Unwrap().Release(Unheard(ctx), tok)
	op.Outcome = LockOutcome(err)
	w.record(op)
	w.kept.Store(op.Outcome == history.Unknown)
	return err
}
