package rounds

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// unit is one order in progress.
type unit struct {
	*writer
	order order

	mu      sync.Mutex
	prefix  string // of the steps' names
	steps   []string
	seen    map[string]int
	stopped bool

	paused sync.RWMutex  // locked while the writer is paused and its process is not
	asked  time.Duration // when it first requested the lock that it does not have yet; zero: not yet

	tok     token.Token
	writes  map[any]*history.Open // transactions that are open
	last    *history.Open         // the write that ends with its unit
	wrote   time.Time             // when the last write began
	outcome history.Outcome       // empty if Do has not run
	err     error
}

// work holds the resource and does one unit. On a busy machine the lease can expire
// before the writer reaches its unit. If the writer was not stopped, it then acquires the
// lock again, as after an error by which nothing was applied.
func (w *writer) work(ctx context.Context, o order) error {
	u := &unit{writer: w, order: o, seen: map[string]int{}, writes: map[any]*history.Open{}}
	if w.Twin && w.subject.Unguarded == nil {
		ctx = failpoint.Unguarded(ctx)
	}
	ctx = failpoint.Listen(ctx, failpoint.Func(u.listen))
	locker := lock.Locker{Issuer: &issuer{unit: u}, Name: w.Name, TTL: w.subject.TTL, Claim: u.claim}
	for {
		err := locker.Hold(ctx, w.subject.Resource, u.do)
		switch {
		case u.outcome == "" && !again(err):
			return err
		case u.outcome != "" && (u.outcome != history.Failed || u.wasStopped()):
			w.say(u.answer())
			return nil
		}
		u.outcome = ""
	}
}

func (u *unit) wasStopped() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.stopped
}

func (u *unit) answer() event {
	e := event{answered, Answer{Outcome: u.outcome, Number: u.tok.Number, Wrote: u.wrote, Steps: u.steps}}
	if u.err != nil {
		e.Text = u.err.Error()
	}
	return e
}

// unfenced reports whether the twin is code of its own, which claims nothing.
func (u *unit) unfenced() bool { return u.Twin && u.subject.Unguarded != nil }

// do runs under the lock.
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
	u.outcome = history.OutcomeOf(u.err)
	u.close(began)
	open.End(u.outcome, nil)
	u.pass(stepDone)
	return u.err
}

// close ends the writes of a unit. A unit without reported writes counts as one write.
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

// claim calls the subject's Claim and records it, except for the twin, whose claims admit
// nothing.
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
		op.Outcome, op.Began, op.Ended = history.OutcomeOf(err), began, u.recorder.Now()
		u.recorder.Add(op)
	}
	if err == nil {
		u.pass(stepClaimed)
	}
	return err
}

// op returns an operation of this writer under its token.
func (u *unit) op(k history.Kind) history.Op {
	return history.Op{
		Kind: k, Writer: u.Name, Resource: u.subject.Resource,
		Number: u.tok.Number, Holder: u.tok.Holder,
	}
}

// listen records each transaction that writes, from its start to its reply, and stops the
// writer at the ordered step.
func (u *unit) listen(_ context.Context, step failpoint.Step, key any) {
	if r, ok := key.(record); ok {
		u.add(r)
		return
	}
	switch step {
	case failpoint.Begin, failpoint.Request:
		// Recorded when the writer resumes: while it is stopped here, the operation
		// has not begun.
		u.pass(string(step))
		u.begin(step, key)
		return
	case failpoint.Applied:
		u.end(key, history.Accepted)
	case failpoint.Unknown:
		u.end(key, history.Unknown)
	case failpoint.Undone:
		u.end(key, history.Failed)
	}
	u.pass(string(step))
}

// Note is the key of a [failpoint.Begin] that has no other, for a write that people read about.
type Note string

// record is the key of a step at which nothing stops, and an operation is recorded.
type record struct {
	began time.Time
	op    history.Op
}

// Record records op, which the unit of ctx began at began and which was accepted now. Its
// Until, if any, counts from began.
func Record(ctx context.Context, began time.Time, op history.Op) {
	failpoint.At(ctx, "", record{began, op})
}

func (u *unit) add(r record) {
	op := u.op(r.op.Kind)
	op.Note, op.Outcome = r.op.Note, history.Accepted
	op.Began, op.Ended = r.began.Sub(u.recorder.Started()), u.recorder.Now()
	if r.op.Until > 0 {
		op.Until = op.Began + r.op.Until
	}
	if op.Kind == history.Mark { // the mark's
		op.Number, op.Holder = r.op.Number, r.op.Holder
	}
	u.recorder.Add(op)
}

// begin records the start of an operation that may write. An operation without a key,
// such as a request or a write that code reports by simulations.Failpoint, ends with its
// unit and has the unit's outcome.
func (u *unit) begin(step failpoint.Step, key any) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.prefix != "" || step == failpoint.Request && safe(key) {
		return // the writes of a claim do not count
	}
	note, noted := key.(Note)
	if noted {
		key = nil
	}
	before, outcome := u.writes[key], history.Failed // it is retried
	if step == failpoint.Request || key == nil {
		before, outcome = u.last, history.Unknown // the unit's outcome is the last one's
	}
	if before != nil {
		before.End(outcome, nil)
	}
	op := u.op(history.Write)
	op.Note = string(note)
	began := u.recorder.Begin(op)
	if step == failpoint.Request || key == nil {
		u.last = began
	} else {
		u.writes[key] = began
	}
	u.wrote = time.Now()
}

// safe reports whether key is a request with a safe method (RFC 9110 §9.2.1).
func safe(key any) bool {
	req, ok := key.(*http.Request)
	return ok && slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, ""}, req.Method)
}

func (u *unit) end(key any, outcome history.Outcome) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if open := u.writes[key]; open != nil {
		open.End(outcome, nil)
		delete(u.writes, key)
	}
}

// The steps of a writer besides those of its transactions and requests. The steps of a
// claim have the prefix "claim ".
const (
	stepAcquire = "acquire" // before it requests the lock
	stepGranted = "granted" // it has the lock, and has done nothing yet
	stepClaimed = "claimed" // it has raised the mark
	stepDo      = "do"      // before its unit of work
	stepDone    = "done"    // after its unit of work
	stepRelease = "release" // before it releases the lock
	claiming    = "claim "
)

// enter sets the prefix of the names of steps.
func (u *unit) enter(prefix string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.prefix = prefix
}

// pass returns at once, or after the writer was stopped here and resumed.
func (u *unit) pass(step string) {
	u.mu.Lock()
	step = u.prefix + step
	u.steps = append(u.steps, step)
	u.seen[step]++
	stop := !u.stopped && u.order.Step == step && u.order.Nth == u.seen[step]
	u.stopped = u.stopped || stop
	u.mu.Unlock()
	if stop {
		u.stop()
	}
}

// stop returns after the writer was stopped and resumed. A writer that will be killed is
// stopped first, so that it does nothing before that.
func (u *unit) stop() {
	u.say(event{Kind: stopping})
	by := u.order.by()
	if by == subprocess.InProcess {
		u.paused.Lock()
		defer u.paused.Unlock()
	}
	if err := u.parent.Pause(by); err != nil { // the round must not count
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
