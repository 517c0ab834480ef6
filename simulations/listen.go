package simulations

import (
	"context"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/tokenctx"
	"github.com/fencepost/fencepost/internal/tokenuse"
	"github.com/fencepost/fencepost/token"
)

// evictAfter is how long the transaction of a writer that will be paused may be idle, if
// its guard can have the server end it. Pauses are longer.
const evictAfter = 20 * time.Millisecond

// listener receives the steps of one writer. It records each transaction that wrote,
// from its beginning to its answer, and calls the breakpoint at every step.
type listener struct {
	*writer
	mu   sync.Mutex
	open map[any]time.Duration
}

var _ failpoint.Listener = (*listener)(nil)

// At implements [failpoint.Listener].
func (l *listener) At(ctx context.Context, step failpoint.Step, key any) {
	l.know(ctx)
	if step == failpoint.Begin {
		// Recorded when the writer goes on: while it is stopped here, the
		// operation has not begun.
		l.pass(string(step))
		began := l.now()
		l.facts.begin(ctx, key, l.claims.Load(), began)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[key] = began
		return
	}
	l.facts.at(step, key)
	if ended, outcome := result(step); ended {
		l.mu.Lock()
		began, known := l.open[key]
		delete(l.open, key)
		l.mu.Unlock()
		if known && outcome != "" && !l.claims.Load() {
			l.wrote(ctx, began, outcome, key)
		}
	}
	l.pass(string(step))
}

// result reports whether step ends a transaction, and returns the outcome of its write.
func result(step failpoint.Step) (ended bool, outcome history.Outcome) {
	switch step {
	case failpoint.Applied:
		return true, history.Accepted
	case failpoint.Unknown:
		return true, history.Unknown
	case failpoint.Undone:
		return true, ""
	}
	return false, ""
}

// know takes the token from ctx if the writer has acquired it itself.
func (l *listener) know(ctx context.Context) {
	kept := l.stage.subject.kept()
	if !kept && !l.again.Load() {
		return
	}
	had := l.tok.Load()
	tok, ok := carried(ctx, l.stage.subject.Resource)
	if !ok || had != nil && (kept || had.Number == tok.Number) || !kept && !tokenctx.Leased(ctx, tok.Resource, tok) {
		return
	}
	l.has(tok)
	if !kept {
		// The reply is not known here, only the token in it.
		l.record(history.Op{Kind: history.Acquire, Outcome: history.Unknown, Began: l.now(), Number: tok.Number, Holder: tok.Holder})
	}
}

// reclaim releases the writer's lock before the writer acquires it itself.
func (w *writer) reclaim(ctx context.Context) {
	w.again.Store(true)
	w.lost.Store(true)
	_, _ = w.release(failpoint.Untraced(ctx), *w.tok.Load(), "")
}

// wrote takes the token from the context of the write if it carries one, and otherwise
// the writer's. It takes none for a write before the writer's own Hold, or after it: in
// production there is none.
func (l *listener) wrote(ctx context.Context, began time.Duration, outcome history.Outcome, key any) {
	l.traced.Store(true)
	tok, ok := carried(ctx, l.stage.subject.Resource)
	held := l.tok.Load()
	if held == nil {
		held = &token.Token{}
	}
	if !ok {
		tok = *held
	}
	op := history.Op{
		Kind: history.Write, Outcome: outcome, Began: began,
		Number: tok.Number, Holder: tok.Holder,
	}
	op.Writer, op.Resource, op.Ended = l.name, l.stage.subject.Resource, l.now()
	if l.offer != nil && tok == *held {
		switch taken, inHold := l.offer.Use(); {
		case !taken:
			l.facts.outside(key, beforeHold)
			return
		case !inHold && !ok:
			l.facts.outside(key, afterHold)
			return
		}
	}
	l.recordWrite(op, key)
}

// heldItself reports whether the writer's unit has taken the lock.
func (w *writer) heldItself() bool {
	if w.offer == nil {
		return false
	}
	taken, _ := w.offer.Use()
	return taken
}

// recordWrite records a write under the token of op. If that is none, the count decides:
// no rule about numbers applies.
func (w *writer) recordWrite(op history.Op, key any) {
	w.facts.under(op.Number, key)
	if op.Number != 0 {
		w.stage.add(op)
	}
}

// carried returns the token of resource in ctx. The lookup does not count as the guard's.
func carried(ctx context.Context, resource string) (token.Token, bool) {
	for _, tok := range token.All(tokenuse.Untracked(ctx)) {
		if tok.Resource == resource {
			return tok, true
		}
	}
	return token.Token{}, false
}

// Note implements [failpoint.Listener].
func (l *listener) Note(_ context.Context, fact any) {
	subject := l.stage.subject
	switch fact := fact.(type) {
	case failpoint.Reentered:
		if fact.Resource == subject.Resource && !subject.Holds {
			l.facts.reenter()
		}
	case failpoint.Sent:
		l.stage.unheard.heard(fact.Source)
	case failpoint.Minted:
		switch {
		case fact.Resource != subject.Resource:
		case subject.kept():
			l.has(token.Token{Resource: fact.Resource, Number: fact.Number, Holder: fact.Holder})
			defer l.pass(stepMinted)
		default:
			l.facts.have(fact.Number)
		}
	case failpoint.Refused:
		defer l.refusedAgain(fact.Err)
	}
	l.facts.note(fact)
}

// endless is how often a unit may be refused before its context is cancelled.
const endless = 100

// refusedAgain ends a unit that repeats a refused write too often.
func (l *listener) refusedAgain(err error) {
	n := len(l.facts.now().refused)
	if n < endless || l.stage.twin {
		return
	}
	l.endless.CompareAndSwap(nil, &endlessError{l.name, n, err, l.seen()})
	l.cancel(errEndless)
}

// DropsReply implements [failpoint.Listener].
func (l *listener) DropsReply(context.Context, any) bool {
	if l.claims.Load() || l.dead.Load() {
		return false
	}
	n := int(l.answers.Add(1))
	if n != l.dropReplyAt && (l.dropReplyRandomly == nil || !l.dropReplyRandomly()) {
		return false
	}
	l.facts.lose()
	return true
}

// DropsCommit implements [failpoint.Listener].
func (l *listener) DropsCommit(context.Context, any) bool {
	if l.claims.Load() || l.dead.Load() || int(l.commits.Add(1)) != l.dropCommitAt {
		return false
	}
	l.facts.drop()
	return true
}

// IdleTimeout implements [failpoint.Listener]. A transaction that begins after the last pause
// has no bound: on a busy machine it could be idle for as long, in each of its tries.
func (l *listener) IdleTimeout() time.Duration {
	l.facts.bounded()
	if l.stage.subject.MaxBlocking > 0 || !l.pauses || l.isDisabled() {
		return 0
	}
	return evictAfter
}
