package simulations

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/internal/tokenuse"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// The steps of a writer besides those of its transactions and requests.
const (
	stepAcquire = "acquire" // before it requests the lock
	stepHeld    = "held"    // another writer has the lock; does not count as a step
	stepGranted = "granted" // it has the lock, and has done nothing yet
	stepClaimed = "claimed" // it has raised the mark
	stepMinted  = "minted"  // it has minted a number for its own lock
	stepDo      = "do"      // before its unit of work
	stepDone    = "done"    // after its unit of work
	stepRelease = "release" // before it releases the lock
)

var (
	errCrashed = errors.New("simulations: the writer has crashed")
	errEndless = errors.New("simulations: the writer was refused again and again")
)

// writer is one holder: a goroutine that holds the resource and does one unit of work.
type writer struct {
	*breakpoint
	name       string
	stage      *stage
	claimsOnly bool // it holds the resource and writes nothing
	cancel     context.CancelCauseFunc
	facts      facts
	notes      *tokenuse.Notes // the resources that its guards looked up

	pauses            bool          // it will be paused: its guards' transactions are limited
	dropReplyAt       int           // the reply that is lost, counted from 1; 0 for none
	dropReplyRandomly func() bool   // whether a reply is lost, at random
	dropCommitAt      int           // the COMMIT that is not sent, counted from 1; 0 for none
	commits           atomic.Int32  // that could be lost
	answers           atomic.Int32  // that could be lost
	held              chan struct{} // another writer has the lock
	done              chan struct{}
	err               error // how Hold ended, once done

	returned bool            // Hold has returned
	broken   error           // Hold will never return
	did      bool            // its unit was acknowledged
	tries    int             // the number of attempts of an undisturbed writer
	outcome  history.Outcome // of its unit
	said     error           // of its unit

	offer *tokenctx.Offer[token.Token] // the lock that Do takes; nil if Do does not take it itself

	tok        atomic.Pointer[token.Token]
	endless    atomic.Pointer[endlessError]
	asked      atomic.Bool
	since      atomic.Int64 // on the stage's clock, when it first requested the lock
	asleep     atomic.Bool  // it renews nothing
	lost       atomic.Bool  // the lock was taken from it, and it must not notice
	gone       atomic.Bool  // the issuer has confirmed that
	dead       atomic.Bool  // its requests are not sent
	kept       atomic.Bool  // its lease lasts until it has expired
	dropsGrant atomic.Bool  // the reply to its acquisition is lost
	again      atomic.Bool  // it has released the lock, and acquires it itself
	claims     atomic.Bool  // it is claiming
	traced     atomic.Bool  // its writes have been reported
}

// start starts a writer that stops at the steps that stop selects.
func (st *stage) start(name string, stop func(int, string) bool) *writer {
	return st.begin(&writer{name: name, breakpoint: newBreakpoint(stop)})
}

// startPaused is start for a writer that is stopped for long.
func (st *stage) startPaused(name string, stop func(int, string) bool) *writer {
	return st.begin(&writer{name: name, breakpoint: newBreakpoint(stop), pauses: true})
}

// startClaimOnly starts a writer that holds the resource, claims it and writes nothing.
func (st *stage) startClaimOnly(name string) *writer {
	return st.begin(&writer{name: name, breakpoint: newBreakpoint(nowhere), claimsOnly: true})
}

func (st *stage) begin(w *writer) *writer {
	w.stage, w.held, w.done = st, make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancelCause(st.ctx)
	w.cancel = cancel
	ctx, w.notes = tokenuse.Track(failpoint.Listen(ctx, &listener{writer: w, open: map[any]time.Duration{}}))
	go func() {
		defer close(w.done)
		defer cancel(nil)
		defer w.rescue()
		w.err = w.hold(ctx)
		w.returned = true
	}()
	st.writers = append(st.writers, w)
	return w
}

// has records that w has acquired or minted tok.
func (w *writer) has(tok token.Token) {
	w.tok.Store(&tok)
	w.facts.have(tok.Number)
}

// hold does w's unit under the lock.
func (w *writer) hold(ctx context.Context) error {
	s := w.stage.subject
	if s.kept() {
		return w.work(ctx)
	}
	locker := lock.Locker{Issuer: &issuer{w}, Name: w.name, TTL: s.TTL, Claim: w.claim}
	return locker.Hold(ctx, s.Resource, w.work)
}

// claim calls the subject's Claim and records it.
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
		w.record(history.Op{Kind: history.Claim, Outcome: history.OutcomeOf(err), Began: began, Number: tok.Number, Holder: tok.Holder})
	}
	if err == nil {
		w.pass(stepClaimed)
	}
	return err
}

func (w *writer) work(ctx context.Context) error {
	if w.claimsOnly {
		return nil
	}
	w.pass(stepDo)
	unit, key := w.stage.keys()
	op := history.Op{Kind: history.Unit, Began: w.now(), Key: unit}
	if w.stage.subject.Holds {
		ctx, w.offer = tokenctx.NewOffer[token.Token](ctx, w.stage.subject.Resource, w.reclaim)
	}
	err := w.stage.do(ctx, key)
	w.facts.finish(op.Began, w.now())
	if tok := w.tok.Load(); tok != nil {
		op.Number, op.Holder = tok.Number, tok.Holder
	}
	switch op.Outcome = history.OutcomeOf(err); {
	case w.dead.Load():
		op.Outcome = history.Unknown
	case op.Outcome == history.Refused && w.overtaken(err):
		op.Outcome = history.Failed
	}
	w.outcome, w.said = op.Outcome, err
	w.record(op)
	if op.Outcome == history.Accepted && !w.traced.Load() && op.Number > 0 && op.Key == "" {
		op.Kind = history.Write // a unit without reported writes counts as one; a repeat writes nothing
		w.record(op)
	}
	w.did = err == nil
	if op.Key != "" && op.Outcome == history.Accepted {
		w.stage.countNow()
	}
	w.pass(stepDone)
	return err
}

// overtaken reports whether err may be the refusal of a service that has a newer request
// in flight. That promises that nothing was applied, and does not prove a mark:
//
//  1. 34 is in flight, and has not raised the mark yet;
//  2. 33 is refused;
//  3. 34 dies;
//  4. 32 is admitted.
func (w *writer) overtaken(err error) bool {
	var stale *guard.StaleError
	return errors.As(err, &stale) && stale.Mark.Number == 0 && slices.Contains(w.seen(), string(failpoint.Request))
}

// release takes w's lock back, or w gives it back, and records the operation.
func (w *writer) release(ctx context.Context, tok token.Token, note string) (history.Outcome, error) {
	op := history.Op{Kind: history.Release, Number: tok.Number, Holder: tok.Holder, Began: w.now(), Note: note}
	err := w.stage.subject.Issuer.Release(ctx, tok)
	op.Outcome = history.LockOutcomeOf(err)
	w.record(op)
	return op.Outcome, err
}

func (w *writer) now() time.Duration { return w.stage.clock.tick() }

// record adds an op of this writer that has just ended.
func (w *writer) record(op history.Op) {
	op.Writer, op.Resource, op.Ended = w.name, w.stage.subject.Resource, w.now()
	w.stage.add(op)
}

// rescue is deferred. It records that Do or Claim did not return: it panicked, or ended its
// goroutine, as t.FailNow does. A panic must not end the process before the interleaving's
// name is printed.
func (w *writer) rescue() {
	value := recover()
	if w.returned {
		return
	}
	steps := strings.Join(w.seen(), ", ")
	if value == nil {
		w.broken = fmt.Errorf("simulations: %s ended its goroutine, as t.FailNow and require do: Do must return an error; its steps: %s", w.name, steps)
		return
	}
	cause, isError := value.(error)
	if !isError {
		cause = fmt.Errorf("%v", value)
	}
	w.broken = fmt.Errorf("simulations: %s panicked: %w; its steps: %s\n%s", w.name, cause, steps, debug.Stack())
}
