package simulations

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// claim is the subject's, on the record.
func (w *writer) claim(ctx context.Context, tok token.Token) error {
	claim := w.stage.subject.Claim
	if claim == nil || w.stage.unfenced() {
		return nil
	}
	began := w.now()
	w.claims.Store(true)
	err := claim(ctx, tok)
	w.claims.Store(false)
	if err != nil || !w.stage.twin { // the twin's claims admit nothing
		w.record(history.Op{Kind: history.Claim, Outcome: Outcome(err), Began: began, Number: tok.Number, Holder: tok.Holder})
	}
	if err == nil {
		w.pass(stepClaimed)
	}
	return err
}

func (w *writer) work(ctx context.Context) error {
	if w.visits {
		return nil
	}
	w.pass(stepDo)
	tok := w.tok.Load()
	op := history.Op{Kind: history.Unit, Began: w.now(), Number: tok.Number, Holder: tok.Holder}
	err := w.stage.do(ctx)
	if op.Outcome = Outcome(err); w.dead.Load() {
		op.Outcome = history.Unknown
	}
	w.record(op)
	if op.Outcome == history.Accepted && !w.traced.Load() {
		op.Kind = history.Write // a unit whose writes nobody reports is one
		w.record(op)
	}
	w.did = err == nil
	w.pass(stepDone)
	return err
}

func (w *writer) now() time.Duration { return w.stage.clock.tick() }

// record adds an op of this writer that has just ended.
func (w *writer) record(op history.Op) {
	op.Writer, op.Resource, op.Ended = w.name, w.stage.subject.Resource, w.now()
	w.stage.add(op)
}
