package simulations

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
)

// performance is one interleaving in progress.
type performance struct {
	*stage
	interleaving
	pace   pace
	inside int  // the last step at which a writer has the lock, if Do takes its own
	waited bool // a writer waited for another, perhaps a stopped one
}

// perform performs the interleaving as far as the writers can follow it: a writer that
// waits for a paused holder keeps waiting.
func (p *performance) perform() {
	if p.unanswered() {
		p.performLostAnswer()
		return
	}
	var pausedWriters []*writer
	for _, name := range p.pausedNames() {
		w := p.startPaused(name, atStep(p.at))
		if p.settle(w) == ended {
			return // A did not reach that step this time; the history is checked anyway
		}
		w.asleep.Store(true)
		pausedWriters = append(pausedWriters, w)
		if p.successor != never || p.free {
			p.lose(w)
		}
	}
	p.pace.isBlocked, p.waited = p.pace.isBlocked || p.delayed, p.waited || p.delayed
	fell := p.clock.tick()
	last := p.succeed()
	woke := p.clock.tick()
	for _, w := range pausedWriters {
		p.add(history.Op{
			Kind: history.Fault, Writer: w.name, Resource: p.subject.Resource,
			Outcome: history.Accepted, Began: fell, Ended: woke, Note: "asleep",
		})
	}
	p.wakeAll(pausedWriters)
	if last != nil {
		last.disable()
		p.brief(last)
	}
	if p.successor == after && p.free {
		p.brief(p.start(p.last()+"2", nowhere))
	}
}

// performLostAnswer drops the reply to one of A's writes, or the write itself. A goes on,
// at once or after its successor has written.
func (p *performance) performLostAnswer() {
	stop := nowhere
	if p.sleeps {
		stop = atName(string(failpoint.Unknown))
	}
	a := p.begin(&writer{name: "A", breakpoint: newBreakpoint(stop), dropReplyAt: p.answer, dropCommitAt: p.commit})
	if p.settle(a) == parked {
		a.asleep.Store(true)
		p.lose(a)
		p.settle(p.start("B", nowhere))
		a.asleep.Store(false)
		a.disable()
		p.brief(a)
		return
	}
	p.brief(p.start("B", nowhere))
}

// settle waits until w is parked or has ended, at most as long as a paused holder may
// block it.
func (p *performance) settle(w *writer) state {
	bound := p.pace.bound()
	if p.pace.limit == 0 && !p.pace.isBlocked && slices.ContainsFunc(p.writers, func(o *writer) bool { return o != w && o.facts.now().evictable() }) {
		bound = 50 * evictAfter // the server ends the paused holder's transaction; w may wait for something else
	}
	return p.note(w.await(bound))
}

// brief waits for w, which may wait for a parked writer that has the lock.
func (p *performance) brief(w *writer) { p.note(w.await(p.pace.short())) }

// note records that a writer waits here.
func (p *performance) note(s state) state {
	p.pace.isBlocked = p.pace.isBlocked || s == waiting
	p.waited = p.waited || s == waiting
	return s
}

// succeed performs the part of the successor that comes before the paused holders wake.
func (p *performance) succeed() *writer {
	var w *writer
	switch {
	case p.successor == never:
		return nil
	case p.successor == before && p.free:
		w = p.start(p.last(), nowhere)
	case p.successor == before:
		w = p.start(p.last(), p.held())
	case p.successor == meanwhile:
		w = p.startPaused(p.last(), atStep(p.at))
	case p.free:
		w = p.startClaimOnly(p.last())
	default:
		w = p.start(p.last(), atName(choose(p.subject.kept(), stepMinted, stepDo)))
	}
	p.settle(w)
	return w
}

// held returns the condition that stops a writer after its unit while it still has the
// lock. A lock that Do takes itself is released with the unit.
func (p *performance) held() func(int, string) bool {
	if p.subject.kept() {
		return atStep(p.inside)
	}
	return atName(stepRelease)
}

func (p *performance) wakeAll(pausedWriters []*writer) {
	if p.reversed {
		pausedWriters[0], pausedWriters[1] = pausedWriters[1], pausedWriters[0]
	}
	for _, w := range pausedWriters {
		if p.dies && w.name == "A" {
			p.crash(w)
		} else {
			p.insist(w)
			w.asleep.Store(false)
			w.disable()
		}
		p.brief(w)
	}
}

// losesLock is the note of an operation that takes the lock from its holder.
const losesLock = "loses the lock"

// lose takes the lock from w without its knowledge, as an operator or a failover does. It
// waits for an issuer that refuses: no writer renews meanwhile. It also waits for one
// that blocks because w is stopped on the only connection.
func (st *stage) lose(w *writer) {
	if st.subject.kept() {
		st.expire(w)
		return
	}
	tok := w.tok.Load()
	if tok == nil || w.over() {
		return
	}
	w.lost.Store(true)
	ctx, cancel := context.WithTimeout(st.ctx, min(st.subject.TTL, longestAnswer))
	defer cancel()
	if outcome, _ := w.release(ctx, *tok, losesLock); outcome == history.Unknown {
		pause(st.ctx, st.subject.TTL)
		return
	}
	w.gone.Store(true)
}

// expire ends the subject's own lock, as its expiry would. An error ends the run, because
// the lock would still be held.
func (st *stage) expire(w *writer) {
	if w.over() {
		return
	}
	w.lost.Store(true)
	op := history.Op{Kind: history.Fault, Outcome: history.Accepted, Began: w.now(), Note: losesLock}
	if err := st.expireWithin(st.expiry()); err != nil {
		return // it waits for w, which is inside the transaction that takes the lock
	}
	w.record(op)
}

// expireWithin returns the error of an Expire that took longer than limit. Any other
// error ends the run.
func (st *stage) expireWithin(limit time.Duration) error {
	ctx, cancel := context.WithTimeout(failpoint.Untraced(st.ctx), limit)
	defer cancel()
	err := st.subject.Expire(ctx)
	if err != nil && ctx.Err() != nil && st.ctx.Err() == nil {
		st.delayed = true
		return err
	}
	if err != nil && st.broken == nil {
		st.broken = fmt.Errorf("simulations: Expire: %w", err)
	}
	return nil
}

// expiry is how long an Expire may take while writers are stopped: it may wait for one of
// them.
func (st *stage) expiry() time.Duration {
	if st.delayed {
		return longestAnswer / 10
	}
	return longestAnswer / 4
}

// insist renews the lease of w, which has lost the lock, as a resumed writer does. w does
// not get the reply.
func (st *stage) insist(w *writer) {
	if !w.gone.Load() {
		return
	}
	ctx, cancel := context.WithTimeout(st.ctx, min(st.subject.TTL, longestAnswer))
	defer cancel()
	_ = w.renew(ctx, *w.tok.Load(), st.subject.TTL)
}

// crash ends w at its step. What it still does is what a server does with the connections
// of a dead process: roll back.
func (st *stage) crash(w *writer) {
	w.dead.Store(true)
	w.cancel(errCrashed)
	w.disable()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// moves limits a random interleaving.
const moves = 100

// shuffle is a random interleaving in progress. Each move draws a writer, and what
// happens to it. Every writer is stopped at every step.
type shuffle struct {
	*stage
	draw  *rand.Rand
	pace  pace
	cast  []*writer // nil if it has not begun
	state []state
	seed  uint64
}

// loses draws which replies a writer does not get, one in twenty. It has its own random
// source: the director's draws must not depend on what a driver requests.
func (s *shuffle) loses(seed uint64) func() bool {
	if s.twin {
		return nil
	}
	draw := rand.New(rand.NewPCG(seed, 1))
	var mu sync.Mutex
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return draw.IntN(20) == 0
	}
}

// shuffle performs the random interleaving of seed.
func (x *explorer) shuffle(ctx context.Context, seed uint64) error {
	st, err := newStage(ctx, x.subject, x.twin)
	if err != nil {
		return err
	}
	defer st.close()
	x.moves(st, seed)
	err = st.judge()
	x.covered.observe(st)
	x.covered.drawn++
	return x.explain(st, named(err, fmt.Sprintf("random/seed_%d", seed)))
}

// moves makes the moves that seed draws.
func (x *explorer) moves(st *stage, seed uint64) {
	draw := rand.New(rand.NewPCG(seed, 0))
	n := 2 + draw.IntN(3)
	s := &shuffle{
		stage: st, draw: draw, cast: make([]*writer, n), state: make([]state, n),
		pace: pace{normal: x.normal, isBlocked: true}, seed: seed,
	}
	for range moves {
		s.move(draw.IntN(n))
	}
}

func (s *shuffle) move(i int) {
	w := s.cast[i]
	if w == nil {
		w = s.begin(&writer{
			name: string(rune('A' + i)), breakpoint: newBreakpoint(everywhere),
			pauses: s.seed%2 == 0, dropReplyRandomly: s.loses(s.seed + uint64(i)),
		})
		w.dropsGrant.Store(s.draw.IntN(10) == 0)
		s.cast[i], s.state[i] = w, w.await(s.pace.bound())
		return
	}
	fate := s.draw.IntN(100)
	if s.state[i] != parked && s.state[i] != ended {
		s.state[i] = w.await(0)
	}
	switch {
	case s.state[i] != parked:
	case fate < 8:
		s.lose(w)
	case fate < 11:
		if s.draw.IntN(8) > 0 || s.subject.TTL > time.Second { // otherwise all wait until its lease has expired
			s.lose(w)
		}
		s.crash(w)
		s.state[i] = w.await(s.pace.bound())
	default:
		s.step(i)
	}
}

// step wakes a writer for one step. A writer that is about to request a lock that another
// has would only wait for it, so that one usually loses it first.
func (s *shuffle) step(i int) {
	w := s.cast[i]
	if w.tok.Load() == nil {
		for j, other := range s.cast {
			if j != i && other != nil && other.tok.Load() != nil && !other.lost.Load() && s.draw.IntN(10) > 0 {
				s.lose(other)
			}
		}
	}
	if w.gone.Load() && s.draw.IntN(4) == 0 {
		s.insist(w)
	}
	w.wake(everywhere)
	s.state[i] = w.await(s.pace.bound())
}
