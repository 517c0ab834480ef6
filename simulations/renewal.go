package simulations

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// Renew hangs for those who sleep, and for those who must not hear that the
// lock is lost.
func (i *issuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	w := i.w
	if w.asleep.Load() || w.lost.Load() || w.dead.Load() {
		return time.Time{}, w.hang(ctx)
	}
	err := w.renew(Unheard(ctx), tok, ttl)
	if w.lost.Load() {
		return time.Time{}, w.hang(ctx) // it was taken away in the meantime
	}
	return time.Now().Add(ages), err
}

// hang gives no answer to a question that is asked under ctx.
func (w *writer) hang(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.done: // nobody listens any more
		return errCrashed
	}
}

// renew asks the subject's issuer, on the record.
func (w *writer) renew(ctx context.Context, tok token.Token, ttl time.Duration) error {
	op := history.Op{Kind: history.Renew, Number: tok.Number, Holder: tok.Holder, Began: w.now()}
	sent, counted := time.Now(), w.stage.recorder.Now()
	until, err := w.stage.subject.Issuer.Renew(ctx, tok, ttl)
	op.Outcome = LockOutcome(err)
	if err == nil {
		op.Until = counted + until.Sub(sent)
	}
	w.record(op)
	return err
}
