package process

import (
	"context"
	"time"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// do is what runs under the lock.
func (u *unit) do(ctx context.Context) error {
	u.pass(stepDo)
	u.wrote, u.last = time.Time{}, nil
	open := u.recorder.Begin(u.op(history.Unit))
	do := u.subject.Do
	if u.unfenced() {
		do = u.subject.Unguarded
	}
	began := u.recorder.Now()
	u.err = do(ctx)
	u.outcome = simulations.Outcome(u.err)
	u.close(began)
	open.End(u.outcome, nil)
	u.pass(stepDone)
	return u.err
}

// close ends the writes of a unit. Where nobody told of one, the unit itself is
// taken for it.
func (u *unit) close(began time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last != nil {
		u.last.End(u.outcome, nil)
	}
	if u.wrote.IsZero() {
		u.wrote = u.recorder.Started().Add(began)
		op := u.op(history.Write)
		op.Outcome, op.Began, op.Ended = u.outcome, began, u.recorder.Now()
		u.recorder.Add(op)
	}
}

// claim is the subject's, on the record, except the twin's: those admit nothing.
func (u *unit) claim(ctx context.Context, tok token.Token) error {
	if u.subject.Claim == nil || u.unfenced() {
		return nil
	}
	u.enter(claiming)
	began := u.recorder.Now()
	err := u.subject.Claim(ctx, tok)
	u.enter("")
	if err != nil || !u.Twin {
		op := u.op(history.Claim)
		op.Outcome, op.Began, op.Ended = simulations.Outcome(err), began, u.recorder.Now()
		u.recorder.Add(op)
	}
	if err == nil {
		u.pass(stepClaimed)
	}
	return err
}

// op is one of this writer, under its token.
func (u *unit) op(k history.Kind) history.Op {
	return history.Op{
		Kind: k, Writer: u.Name, Resource: u.subject.Resource,
		Number: u.tok.Number, Holder: u.tok.Holder,
	}
}
