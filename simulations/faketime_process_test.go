package simulations_test

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

var errCut = errors.New("connection cut")

// process is a program in fake time, with a network between it and its issuer.
type process struct {
	name     string
	far      token.Issuer
	recorder *history.Recorder
	latency  time.Duration // the longest, one way
	faults   int           // of a hundred questions, and of a hundred answers, those that are lost

	work, renewals *dice        // of the goroutine that works, and of the one that renews
	thaws          atomic.Int64 // in nanoseconds: until then the process is paused
}

func newProcess(name string, far token.Issuer, recorder *history.Recorder, seed uint64) *process {
	salt := uint64(name[0])
	return &process{
		name: name, far: far, recorder: recorder, latency: 20 * time.Millisecond,
		work: newDice(seed, salt), renewals: newDice(seed, salt+1000),
	}
}

// freeze pauses the whole process, and so its goroutine that calls. Timers of
// the library fire meanwhile, but whom they tell does not listen; what it
// sends is not sent, and what it is answered is not heard.
func (p *process) freeze(d time.Duration) {
	p.thaws.Store(time.Now().Add(d).UnixNano())
	p.thaw()
}

func (p *process) thaw() { time.Sleep(time.Duration(p.thaws.Load() - time.Now().UnixNano())) }

// carry takes one question to the issuer and its answer back. Where the caller
// leaves, the question arrives all the same, only nobody listens: what came of
// it is taken down, as Unknown.
func (p *process) carry(ctx context.Context, draw *dice, op history.Op, ask func(context.Context, *history.Op) error) (history.Op, error) {
	p.thaw()
	there, back := draw.upTo(p.latency), draw.upTo(p.latency)
	deaf, mute := draw.chance(p.faults), draw.chance(p.faults)
	op.Writer, op.Resource, op.Began = p.name, resource, p.recorder.Now()
	answers := make(chan answer, 1)
	go func() {
		a := answer{op, errCut}
		time.Sleep(there)
		if !deaf {
			err := ask(context.WithoutCancel(ctx), &a.op)
			time.Sleep(back)
			if !mute {
				a.err = err
			}
		}
		p.takeDown(ctx, a)
		answers <- a
	}()
	select {
	case a := <-answers:
		p.thaw()
		return a.op, a.err
	case <-ctx.Done():
		return op, context.Cause(ctx)
	}
}

type answer struct {
	op  history.Op
	err error
}

func (p *process) takeDown(ctx context.Context, a answer) {
	a.op.Ended = p.recorder.Now()
	switch {
	case errors.Is(a.err, token.ErrHeld):
		return // and asks again: of no interest
	case ctx.Err() == nil && errors.Is(a.err, token.ErrLost):
		a.op.Outcome, a.op.Until = history.Refused, 0
	case ctx.Err() != nil || a.err != nil:
		a.op.Outcome, a.op.Until = history.Unknown, 0
	default:
		a.op.Outcome = history.Accepted
	}
	p.recorder.Add(a.op)
}
