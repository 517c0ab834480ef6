package simulate

import (
	"context"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// write is the work under the lock: read, compute, be stopped if so ordered,
// write, and report the answer. It returns whether it came to its write.
//
// The lease's context is looked at for the last time before the pause, like
// everything else: a statement that a driver has in hand does not ask again.
// So the write runs on a context that carries the token and does not end.
func (w *writer) write(ctx context.Context, o order) (wrote bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	ctx = context.WithoutCancel(ctx)
	row, err := w.prepare(ctx, o)
	if err != nil {
		return false, err
	}
	if err := w.pause(o); err != nil {
		return false, err
	}
	write := w.store.write
	if o.Way == Guarded {
		write = w.store.writeGuarded
	}
	err = write(ctx, row)
	w.answer(row.balance, err)
	return true, err
}

// prepare returns the row as it is to be written.
func (w *writer) prepare(ctx context.Context, o order) (account, error) {
	tok, err := token.FromContext(ctx, o.Resource)
	if err != nil {
		return account{}, err
	}
	row, err := w.store.read(ctx, o.Resource)
	if err != nil {
		return account{}, err
	}
	w.say(Event{Kind: Reads, Balance: row.balance})
	row = row.plus(w.Name, o.Amount, guard.Mark{Number: tok.Number, Holder: tok.Holder})
	return row, w.check(ctx, o, tok)
}

// check is what the naive ways do for safety.
func (w *writer) check(ctx context.Context, o order, tok token.Token) error {
	switch o.Way {
	case Recheck:
		// Redis's own answer, and the strongest there is: yes, for a whole ttl
		// from now.
		if _, err := w.issuer.Renew(ctx, tok, w.TTL); err != nil {
			return err
		}
	case CheckThenWrite:
		row, err := w.store.read(ctx, o.Resource)
		if err != nil {
			return err
		}
		if err := row.mark.Admits(tok); err != nil {
			return err
		}
	default:
		return nil
	}
	w.say(Event{Kind: Checked})
	return nil
}

// pause stops the writer. No transaction is open here: a process that is
// stopped inside one would block all others of an SQLite file for ever.
func (w *writer) pause(o order) error {
	if !o.Stop {
		return nil
	}
	w.say(Event{Kind: Pauses})
	if w.Pause == InProcess {
		defer w.issuer.sleep()()
	}
	return w.Pause.asleep(w.orders)
}
