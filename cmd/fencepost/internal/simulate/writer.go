package simulate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// Serve is a writer's process: it reads the setup and then orders from in, and writes
// events to out, until in ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	w := &writer{parent: subprocess.NewParent(in, out)}
	if err := w.parent.Receive(&w.setup); err != nil {
		return err
	}
	if err := w.connect(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	w.report(Event{Kind: Ready})
	return subprocess.Each(w.parent, func(o order) error {
		if err := w.work(ctx, o); err != nil {
			w.report(Event{Kind: Failed, Text: fmt.Sprintf("%s on %s: %v", o.Way, o.Resource, err)})
		}
		return nil
	})
}

// writer is A or B, in its own process.
type writer struct {
	setup
	parent *subprocess.Parent
	redis  *redis.Client
	issuer *pausableIssuer
	store  *store
}

func (w *writer) connect(ctx context.Context) (err error) {
	if w.redis, err = connectRedis(ctx, w.Redis); err != nil {
		return err
	}
	w.issuer = &pausableIssuer{Issuer: &redistoken.Issuer{Client: w.redis, Prefix: w.Prefix}}
	w.store, err = openStore(ctx, w.setup)
	return err
}

func (w *writer) close() error { return errors.Join(w.store.close(), w.redis.Close()) }

// report sends e to the parent.
func (w *writer) report(e Event) {
	e.At, e.Writer = time.Now(), w.Name
	w.parent.Report(e)
}

// answer reports the outcome of a write.
func (w *writer) answer(balance int64, err error) {
	switch {
	case err == nil:
		w.report(Event{Kind: Accepted, Balance: balance})
	case errors.Is(err, guard.ErrStale):
		w.report(Event{Kind: Refused, Balance: balance, Text: err.Error()})
	default:
		w.report(Event{Kind: Failed, Balance: balance, Text: err.Error()})
	}
}

// work holds the lock and writes. On a machine that is too busy for the ttl, the lock can be
// lost before the write: then work acquires it again. The loss after the write is what a
// round shows.
func (w *writer) work(ctx context.Context, o order) error {
	locker := lock.Locker{Issuer: w.issuer, Name: "writer-" + w.Name, TTL: w.TTL, Claim: w.claim(o)}
	for {
		w.report(Event{Kind: Asks})
		wrote := false
		err := locker.Hold(ctx, o.Resource, func(ctx context.Context) (err error) {
			wrote, err = w.write(ctx, o)
			return err
		})
		if wrote {
			return nil
		}
		if !errors.Is(err, token.ErrLost) {
			return err
		}
	}
}

// claim returns the function that raises the mark before the first read, if there is a
// guard. It completes even if the lease ends first.
func (w *writer) claim(o order) func(context.Context, token.Token) error {
	return func(ctx context.Context, tok token.Token) error {
		w.report(Event{Kind: Holds, Number: tok.Number})
		if o.Way != Guarded {
			return nil
		}
		if err := w.store.fence.Admit(context.WithoutCancel(ctx), tok); err != nil {
			return err
		}
		w.report(Event{Kind: Claims, Number: tok.Number})
		return nil
	}
}

// write is the work under the lock: it reads, computes, is stopped if o.Stop is set,
// writes, and reports the answer. wrote is true if it sent its write.
//
// The lease's context is checked for the last time before the pause: a driver that is
// sending a statement does not check it either. The write runs on a context that has the
// token and does not end.
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

// prepare returns the row to write.
func (w *writer) prepare(ctx context.Context, o order) (account, error) {
	tok, err := token.FromContext(ctx, o.Resource)
	if err != nil {
		return account{}, err
	}
	row, err := w.store.read(ctx, o.Resource)
	if err != nil {
		return account{}, err
	}
	w.report(Event{Kind: Reads, Balance: row.balance})
	row = row.plus(w.Name, o.Amount, guard.Mark{Number: tok.Number, Holder: tok.Holder})
	return row, w.check(ctx, o, tok)
}

// check is the check of [Recheck] and [CheckThenWrite] before their write.
func (w *writer) check(ctx context.Context, o order, tok token.Token) error {
	switch o.Way {
	case Recheck:
		// A renewal is Redis's strongest answer: the lock is held for a whole ttl from now.
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
	w.report(Event{Kind: Checked})
	return nil
}

// pause stops the writer if o.Stop is set. No transaction is open here: a process that
// is stopped inside one would block all other writers of an SQLite file.
func (w *writer) pause(o order) error {
	if !o.Stop {
		return nil
	}
	w.report(Event{Kind: Pauses})
	if w.Pause == subprocess.InProcess {
		defer w.issuer.pause()()
	}
	return w.parent.Pause(w.Pause)
}

// pausableIssuer blocks renewals while its writer is paused inside the process, as if the
// process were stopped.
type pausableIssuer struct {
	token.Issuer
	paused sync.RWMutex
}

// pause blocks renewals until wake is called.
func (i *pausableIssuer) pause() (wake func()) {
	i.paused.Lock()
	return i.paused.Unlock
}

// Renew implements [token.Issuer].
func (i *pausableIssuer) Renew(ctx context.Context, tok token.Token, ttl time.Duration) (time.Time, error) {
	i.paused.RLock()
	defer i.paused.RUnlock()
	return i.Issuer.Renew(ctx, tok, ttl)
}
