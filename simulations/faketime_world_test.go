package simulations_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/memtoken"
)

// The proportions of a run. Their scale does not matter, since time is fake.
const (
	disputed = "account/42"
	leaseTTL = 200 * time.Millisecond
	latency  = 20 * time.Millisecond // the longest, one way
	troubled = 5 * leaseTTL          // faults begin before this time
	calm     = troubled + 3*leaseTTL // and have ended by this time
	horizon  = calm + 2*leaseTTL     // work begins before this time, and until there was a write since calm
	patience = calm + 15*leaseTTL    // but not after this time
	slack    = 10 * leaseTTL         // the longest legitimate wait: lost grants that must end, then slow handlers
)

// faults is a set of faults. Each run draws about half of them: events that are rare among
// all faults are common among few (Groce et al., Swarm Testing, ISSTA 2012).
type faults uint64

const (
	pauses     faults = 1 << iota // a holder is stopped for up to three TTL
	dies                          // a holder dies; another takes its place
	loses                         // requests and replies are lost
	delays                        // requests arrive up to a TTL late
	duplicates                    // requests arrive twice, the second up to a TTL later
	cuts                          // for a while no request leaves a holder, or no reply reaches it
	ahead                         // the issuer's clock was ahead once, so its numbers are too
	forgets                       // the issuer restarts without its memory
	promotes                      // a replica without its memory takes its place; some holders still use the old one
	jumps                         // the issuer's clock jumps by up to an hour, ahead or back (Redis)
)

// dishonest are the faults that make an issuer break its own promises. Half of the runs
// have none of them, so that every rule is judged often.
const dishonest = forgets | promotes | jumps

// judges reports whether a run is judged by a rule. The rules of the resource always
// apply. The others do not if a fault makes them impossible to keep:
//
//	the issuer forgot, or its     numbers, owner,      They are promises about the issuer's
//	replica took over             mutual-exclusion,    memory. The mark protects the resource
//	                              number-reuse         when that fails.
//	the issuer's clock jumped     mutual-exclusion     A lease is a duration, and two clocks
//	                                                   do not agree on it.
func (w *world) judges(r history.Rule) bool {
	switch {
	case w.has(forgets | promotes):
		return r.At != history.AtLock
	case w.has(jumps):
		return r.ID != "mutual-exclusion"
	}
	return true
}

// has reports whether one of those dishonest faults has happened.
func (w *world) has(some faults) bool { return faults(w.did.Load())&some != 0 }

// world is one run.
type world struct {
	*store
	seed   uint64
	ctx    context.Context
	site   *site
	faults faults
	did    atomic.Uint64 // the dishonest faults that have happened
	queued bool          // waiters wait in the issuer; otherwise they poll
	served bool          // holders write through the service

	events    sync.Mutex // of what faults change
	processes []*process
	current   *link
	stop      context.CancelCauseFunc // ends current

	ending     sync.Mutex
	tried      []*unit
	recoveries atomic.Int64
}

func newWorld(ctx context.Context, seed uint64, s *site) *world {
	w := &world{store: newStore(history.NewRecorder(), newRandomSource(seed, 1)), seed: seed, ctx: ctx, site: s}
	w.link()
	return w
}

// site is where issuers keep their state.
type site struct {
	issuer func() token.Issuer
	forget func()
	jump   func(time.Duration) // nil: its clock cannot jump
}

// inMemory is one issuer for all processes.
func inMemory(*testing.T) *site {
	far := new(memtoken.Issuer)
	return &site{issuer: func() token.Issuer { return far }, forget: func() { far = new(memtoken.Issuer) }}
}

// link makes an issuer that processes reach from now on.
func (w *world) link() {
	ctx, stop := context.WithCancelCause(context.WithoutCancel(w.ctx))
	w.current, w.stop = &link{w.site.issuer(), ctx}, stop
}

// process returns a process with a random source of its own for each goroutine. A process
// that takes the place of another has its name, and another life.
func (w *world) process(name string, life uint64) *process {
	salt := uint64(name[0])<<8 | life<<1
	p := &process{world: w, name: name, work: newRandomSource(w.seed, salt), renewals: newRandomSource(w.seed, salt+1)}
	p.far.Store(w.current)
	return p
}

// crowd is a set of processes that compete for the store in fake time.
type crowd struct {
	seed   uint64
	site   func(t *testing.T) *site
	twin   bool
	polls  bool         // no waiter waits in the issuer
	broken func(*world) // makes a mistake; nil makes none
}

// play makes each process wait, acquire, read, work and write, until the horizon.
func (c crowd) play(t *testing.T) (w *world) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		// A Locker's list of recoveries is the process's. Each run has minutes of its own.
		time.Sleep(time.Duration(c.seed) * 2 * time.Minute)
		ctx := t.Context()
		if c.twin {
			ctx = failpoint.Unguarded(ctx)
		}
		w = newWorld(ctx, c.seed, c.site(t))
		draw := newRandomSource(c.seed, 0)
		if c.broken != nil {
			c.broken(w)
		}
		w.faults = faults(draw.random.Uint64())
		if draw.chance(50) {
			w.faults &^= dishonest
		}
		w.queued, w.served = draw.chance(50) && !c.polls, draw.chance(50)
		var working sync.WaitGroup
		w.events.Lock()
		for i := range 2 + draw.random.IntN(2) {
			p := w.process(string(rune('A'+i)), 0)
			w.processes = append(w.processes, p)
			w.disturb(draw, &working, p)
			working.Go(p.run)
		}
		w.plan(draw)
		w.events.Unlock()
		time.Sleep(horizon)
		working.Wait()
		time.Sleep(time.Minute) // for messages that are still in the network
		w.stop(nil)
		for _, u := range w.tried {
			u.op.Traced, u.op.Counted = true, u.applied
			w.Add(u.op)
		}
	})
	return w
}

// disturb plans the faults of one process.
func (w *world) disturb(draw *randomSource, working *sync.WaitGroup, p *process) {
	if w.faults.has(pauses) {
		for range 1 + draw.random.IntN(3) {
			at, d := draw.upTo(troubled), draw.upTo(3*leaseTTL)
			time.AfterFunc(at, func() {
				w.named(p.name).freeze(d)
				w.fault(p.name, "paused", d)
			})
		}
	}
	if w.faults.has(dies) && draw.chance(50) {
		at, d := draw.upTo(troubled), draw.upTo(leaseTTL)
		time.AfterFunc(at, func() {
			p.dead.Store(true)
			w.fault(p.name, "crashed", d)
			time.Sleep(d)
			w.events.Lock()
			defer w.events.Unlock()
			next := w.process(p.name, 1)
			w.processes[p.name[0]-'A'] = next
			working.Go(next.run)
		})
	}
	if w.faults.has(cuts) {
		from, d := draw.upTo(troubled), draw.upTo(2*leaseTTL)
		cut, what := &p.mute, "no request leaves it"
		if draw.chance(50) {
			cut, what = &p.deaf, "no reply reaches it"
		}
		*cut = span{from, from + d}
		time.AfterFunc(from, func() { w.fault(p.name, what, d) })
	}
}

// plan plans what happens to the issuer and to the store. Whatever the faults, marks are
// pruned, even those of a live lease, by a clock that may be ahead of the issuer's, and the
// service gets a forged token.
func (w *world) plan(draw *randomSource) {
	if w.faults.has(ahead) { // a holder of that time has left its number at the mark
		tok := token.Token{Resource: disputed, Number: numberAt(time.Now().Add(draw.upTo(time.Hour))), Holder: "past"}
		_ = w.current.Issuer.(token.Recoverer).Recover(w.ctx, disputed, tok.Number)
		_ = w.marks.Admit(w.ctx, tok)
		for _, kind := range []history.Kind{history.Acquire, history.Claim} {
			op := opOf(kind, tok)
			op.Writer, op.Outcome = tok.Holder, history.Accepted
			w.note(op)
		}
	}
	for _, f := range []faults{forgets, promotes} {
		for range draw.random.IntN(3) {
			at, lag := draw.upTo(troubled), draw.upTo(3*leaseTTL)
			if w.faults.has(f) {
				time.AfterFunc(at, func() { w.replace(f, lag) })
			}
		}
	}
	for range draw.random.IntN(4) {
		at, d := draw.upTo(troubled), draw.upTo(time.Hour)
		if draw.chance(50) {
			d = -d
		}
		if w.faults.has(jumps) && w.site.jump != nil {
			time.AfterFunc(at, func() {
				w.did.Or(uint64(jumps))
				w.fault("issuer", "its clock jumps", 0)
				w.site.jump(d)
			})
		}
	}
	for range draw.random.IntN(6) {
		at, skew := draw.upTo(horizon), draw.upTo(leaseTTL)-leaseTTL*9/10
		time.AfterFunc(at, func() { w.prune(numberAt(time.Now().Add(skew))) })
	}
	at, number := draw.upTo(troubled), numberAt(time.Now().Add(365*24*time.Hour))
	if w.served && !failpoint.IsUnguarded(w.ctx) { // the twin would be broken by this alone
		time.AfterFunc(at, func() { w.forge(w.ctx, number) })
	}
	if w.faults&(loses|delays|duplicates) != 0 {
		w.fault("network", "messages are lost, late or doubled", troubled)
	}
}

// numberAt returns the least number that an issuer may mint at that time.
func numberAt(t time.Time) int64 { return t.UnixMicro() / 10 }

func (f faults) has(one faults) bool { return f&one != 0 }

// replace replaces the issuer by one without memory: at once, or after a lag for some
// holders if its replica takes over.
func (w *world) replace(why faults, lag time.Duration) {
	w.did.Or(uint64(why))
	w.fault("issuer", "its memory is lost", lag)
	w.events.Lock()
	w.site.forget()
	old := w.stop
	w.link()
	for i, p := range w.processes {
		if why == forgets || i%2 != 0 {
			p.far.Store(w.current)
		}
	}
	w.events.Unlock()
	if why == promotes {
		time.Sleep(lag)
	}
	old(errCut)
	w.events.Lock()
	defer w.events.Unlock()
	for _, p := range w.processes {
		p.far.Store(w.current)
	}
}

// named returns the process that has that name now.
func (w *world) named(name string) *process {
	w.events.Lock()
	defer w.events.Unlock()
	return w.processes[name[0]-'A']
}

// run works until the horizon, or until the process has crashed.
func (p *process) run() {
	for !p.dead.Load() && (p.Now() < horizon || p.lastWrite() < calm && p.Now() < patience) {
		p.round()
	}
}

func (p *process) round() {
	time.Sleep(p.work.upTo(leaseTTL / 2))
	locker := lock.Locker{Issuer: p, Name: p.name, TTL: leaseTTL, Claim: p.Claim}
	locker.Hooks.RenewFailed = func(context.Context, token.Token, time.Duration, error) {} // without it, it is logged
	locker.Hooks.Recovered = func(context.Context, token.Token, int64) { p.recoveries.Add(1) }
	if p.queued {
		locker.Issuer = queueing{p}
	}
	if p.work.chance(30) {
		locker.WaitTimeout = p.work.upTo(2 * leaseTTL)
	}
	// The result is in the history.
	_ = locker.Hold(p.ctx, disputed, func(ctx context.Context) error {
		tok, err := token.FromContext(ctx, disputed)
		alive := context.AfterFunc(ctx, func() { p.relies(tok) })
		for i := 0; i < 2 && err == nil; i++ {
			err = p.unit(context.WithoutCancel(ctx), tok)
		}
		if alive() {
			p.relies(tok)
		}
		return err
	})
}

// unit reads, works, and writes what it has read plus one. Its ctx never ends: it works like
// a writer that has not noticed its pause. It repeats an attempt without a reply, and ends
// the hold if none has one: under the same token, a late copy of an unknown write could
// arrive between the next unit's read and write.
func (p *process) unit(ctx context.Context, tok token.Token) (err error) {
	u := &unit{op: opOf(history.Unit, tok)}
	u.op.Writer, u.op.Resource, u.op.Began = p.name, disputed, p.Now()
	u.op.Outcome, err = p.attempts(ctx, tok, u)
	u.op.Ended = p.Now()
	p.ending.Lock()
	defer p.ending.Unlock()
	p.tried = append(p.tried, u)
	return err
}

func (p *process) attempts(ctx context.Context, tok token.Token, u *unit) (outcome history.Outcome, err error) {
	var seen row
	if !p.served {
		if seen, err = p.read(ctx); err != nil {
			return history.Failed, err
		}
		time.Sleep(p.work.think())
	}
	outcome = history.Failed
	for range 3 {
		if p.served {
			err = p.post(ctx, u)
		} else {
			err = p.write(ctx, tok, u, seen)
		}
		if now := history.OutcomeOf(err); now == history.Accepted || outcome != history.Unknown {
			outcome = now // a refusal of one attempt tells nothing about another that had no reply
		}
		if history.OutcomeOf(err) != history.Unknown {
			break
		}
	}
	return outcome, err
}

// post sends an attempt to the service.
func (p *process) post(ctx context.Context, u *unit) error {
	ctx = context.WithValue(ctx, attemptKey{}, &attempt{unit: u})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank/42", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := httpguard.Transport{Base: p, Hosts: []string{"bank"}, Keyring: keyring}.RoundTrip(req)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		err = guard.ErrRetryable
	}
	return err
}
