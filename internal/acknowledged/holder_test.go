package acknowledged_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
	"github.com/fencepost/fencepost/token"
)

// holder takes one row's lock, again and again. It is one goroutine's.
type holder struct {
	*crew
	way    way
	issuer *drowsy
	key    string
	name   string
	random *rand.Rand

	asked time.Duration
	tok   token.Token // the last that it was granted
}

func (h *holder) work(ctx context.Context) {
	locker := token.Locker{
		Issuer: h.issuer, Name: h.name, TTL: ttl, Claim: h.claim,
		Observer: token.Observer{
			Acquired:   func(_ context.Context, tok token.Token, _ time.Duration) { h.granted(tok) },
			Endangered: func(context.Context, token.Token, time.Duration, error) {}, // expected: not for the log
			Healed:     func(context.Context, token.Token, int64) {},
		},
	}
	for n := 0; ctx.Err() == nil; n++ {
		h.asked, h.tok = h.recorder.Now(), token.Token{}
		_ = locker.Hold(ctx, resource(h.key), func(ctx context.Context) error { return h.doSome(ctx, n) })
		if h.tok.Number == 0 { // it may have been granted all the same
			h.add(history.Acquire, h.asked, history.Unknown)
		}
	}
}

func (h *holder) granted(tok token.Token) {
	h.tok = tok
	h.add(history.Acquire, h.asked, history.Accepted)
}

func (h *holder) claim(ctx context.Context, tok token.Token) error {
	began := h.recorder.Now()
	err := h.way.claim(h.site)(ctx, tok)
	h.add(history.Claim, began, simulations.Outcome(err))
	return err
}

// doSome is what is done under one lock, while all goes well.
func (h *holder) doSome(ctx context.Context, n int) (err error) {
	for i := range 1 + h.random.IntN(mostUnits) {
		if err == nil && ctx.Err() == nil {
			err = h.do(ctx, fmt.Sprintf("%s, %d.%d", h.name, n, i))
		}
	}
	return err
}

// do is one unit of work, whose outcome is what the guard says.
func (h *holder) do(ctx context.Context, unit string) error {
	asked := h.recorder.Begin(h.op(history.Unit, unit))
	w := &write{holder: h, open: h.recorder.Begin(h.op(history.Write, unit))}
	err := w.add(ctx, unit)
	outcome := outcomeOf(err)
	w.open.End(outcome, func(op *history.Op) {
		if outcome == history.Accepted {
			op.Seen, op.Made = int64(w.seen), int64(w.seen+1)
		}
	})
	asked.End(outcome, nil)
	if outcome == history.Accepted {
		h.say(said{Acknowledged: h.key})
	}
	return err
}

// outcomeOf takes a guard by its word: nothing was applied, unless it says that
// it does not know.
func outcomeOf(err error) history.Outcome {
	if outcome := simulations.Outcome(err); outcome != history.Unknown || errors.Is(err, guard.ErrUnknown) {
		return outcome
	}
	return history.Failed
}

func (h *holder) add(kind history.Kind, began time.Duration, outcome history.Outcome) {
	op := h.op(kind, "")
	op.Began, op.Ended, op.Outcome = began, h.recorder.Now(), outcome
	h.recorder.Add(op)
}

// op is one of this holder, under its token.
func (h *holder) op(kind history.Kind, unit string) history.Op {
	return history.Op{
		Kind: kind, Writer: h.name, Resource: resource(h.key), Number: h.tok.Number, Holder: h.tok.Holder, Note: unit,
	}
}
