package simulations

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// lose takes the lock from w behind its back, as an operator or a failover
// does. Issuers that will not are waited for, as nobody renews: also those that
// cannot, since w sleeps on the only connection there is.
func (st *stage) lose(w *writer) {
	tok := w.tok.Load()
	if tok == nil || w.over() {
		return
	}
	w.lost.Store(true)
	ctx, cancel := context.WithTimeout(st.ctx, min(st.subject.TTL, longestAnswer))
	defer cancel()
	op := history.Op{
		Kind: history.Release, Writer: w.name, Resource: tok.Resource,
		Number: tok.Number, Holder: tok.Holder, Began: st.clock.tick(),
		Note: "loses the lock",
	}
	err := st.subject.Issuer.Release(ctx, *tok)
	op.Outcome, op.Ended = LockOutcome(err), st.clock.tick()
	st.add(op)
	if op.Outcome == history.Unknown {
		pause(st.ctx, st.subject.TTL)
		return
	}
	w.gone.Store(true)
}

// insist has w, who has lost the lock, ask to renew its lease, as one that
// wakes up does. It does not hear the answer.
func (st *stage) insist(w *writer) {
	if !w.gone.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(st.ctx, min(st.subject.TTL, longestAnswer))
	defer cancel()
	_ = w.renew(ctx, *w.tok.Load(), st.subject.TTL)
}

// crash ends w where it is. What it still does is what a server does with the
// connections of the dead: it rolls back.
func (st *stage) crash(w *writer) {
	w.dead.Store(true)
	w.cancel(errCrashed)
	w.open()
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
