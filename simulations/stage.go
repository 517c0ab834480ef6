package simulations

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
	"github.com/fencepost/fencepost/internal/history"
)

const (
	// stuckTimeout is how long a run waits without any progress before it fails.
	stuckTimeout = time.Minute
	// longestAnswer is how long the director waits for an issuer.
	longestAnswer = time.Second
)

// stage is the state of one interleaving.
type stage struct {
	subject  Subject
	twin     bool
	ctx      context.Context
	recorder *history.Recorder
	clock    *clock
	writers  []*writer
	base     int
	timed    bool  // only the paused holders are stopped in the middle
	delayed  bool  // Expire was, by stopped writers
	broken   error // why the interleaving could not be performed
	unheard  *unheard
	unit     string // the key of the one unit that all writers do, for DoOnce; "" if each does its own
}

func newStage(ctx context.Context, s Subject, twin bool) (*stage, error) {
	st := &stage{subject: s, twin: twin, recorder: history.NewRecorder(), ctx: failpoint.Untraced(ctx)}
	st.clock = &clock{now: st.recorder.Now}
	if twin && s.Unguarded == nil {
		st.ctx = failpoint.Unguarded(st.ctx)
	}
	base, err := s.Count(st.ctx)
	if err != nil {
		return nil, fmt.Errorf("simulations: Count: %w", err)
	}
	st.base = base
	if s.DoOnce != nil {
		st.unit = rand.Text()
	}
	if err := st.look(); err != nil {
		return nil, err
	}
	st.unheard = watchUnheard()
	return st, nil
}

// close ends the stage. Every stage must be closed.
func (st *stage) close() { st.unheard.stop() }

// unfenced reports whether the twin is code of its own, which claims nothing.
func (st *stage) unfenced() bool { return st.twin && st.subject.Unguarded != nil }

func (st *stage) do(ctx context.Context, key string) error {
	switch {
	case st.unfenced():
		return st.subject.Unguarded(ctx)
	case st.subject.DoOnce != nil:
		return st.subject.DoOnce(ctx, key)
	}
	return st.subject.Do(ctx)
}

// keys returns the key of a writer's unit in the history, and the key for DoOnce. The twin
// does not recognize a repeat.
func (st *stage) keys() (unit, key string) {
	switch {
	case st.subject.DoOnce == nil:
		return "", ""
	case st.unit == "":
		key = rand.Text()
		return key, key
	case st.twin:
		return st.unit, rand.Text()
	}
	return st.unit, st.unit
}

func (st *stage) add(op history.Op) { st.recorder.Add(op) }

// look records the guard's mark.
func (st *stage) look() error {
	if st.subject.Mark == nil {
		return nil
	}
	op := history.Op{
		Kind: history.Mark, Writer: "judge", Resource: st.subject.Resource,
		Outcome: history.Accepted, Began: st.clock.tick(),
	}
	mark, err := st.subject.Mark(st.ctx)
	if err != nil {
		return fmt.Errorf("simulations: Mark: %w", err)
	}
	op.Number, op.Holder, op.Ended = mark.Number, mark.Holder, st.clock.tick()
	st.add(op)
	return nil
}

// finish lets all writers continue, one after the other unless they wait for each other,
// and returns when all have ended.
func (st *stage) finish() error {
	for _, w := range st.writers {
		w.asleep.Store(false)
		w.disable()
		w.leave()
	}
	limit := stuckTimeout + st.subject.MaxBlocking + 2*st.subject.TTL
	over := time.After(limit)
	for _, w := range st.writers {
		if !st.outlast(w, over) {
			for _, w := range st.writers { // nothing waits for them
				w.cancel(errCrashed)
			}
			return stuck(w.name, limit, w.seen())
		}
	}
	return st.clear()
}

// outlast reports whether w ended before the limit. It ends a lock of the subject's own
// that was not released, as its expiry would: w may wait for it. If nothing disturbs w, all
// such locks have ended before it started, and a slow w would lose its own. Then outlast
// waits for longer: only a lock that a crashed writer has acquired since can block w.
func (st *stage) outlast(w *writer, limit <-chan time.Time) bool {
	patience := max(longestAnswer, st.subject.TTL)
	if w.tries > 0 {
		patience = max(stuckTimeout/4, st.subject.TTL)
	}
	for {
		var expires <-chan time.Time
		if st.subject.kept() {
			expires = time.After(patience)
		}
		select {
		case <-w.done:
			return true
		case <-limit:
			return false
		case <-expires:
			_ = st.expireWithin(longestAnswer)
		}
	}
}

// clear waits for the leases that were not released, so that no writer waits for them
// later without a request from the director.
func (st *stage) clear() error {
	if st.subject.kept() { // no paused writer keeps its lock
		if err := st.expireWithin(stuckTimeout); err != nil && st.broken == nil {
			st.broken = fmt.Errorf("simulations: Expire has not returned for %s: %w", stuckTimeout, err)
		}
	}
	if st.broken != nil {
		return st.broken
	}
	kept := false
	for _, w := range st.writers {
		if w.broken != nil {
			return w.broken
		}
		if endless := w.endless.Load(); endless != nil {
			return endless
		}
		kept = w.kept.Swap(false) || kept
	}
	if kept {
		pause(st.ctx, st.subject.TTL)
	}
	return nil
}

// leave waits briefly for w, which is not stopped, to end.
func (w *writer) leave() {
	select {
	case <-w.done:
	case <-w.held:
	case <-time.After(20 * time.Millisecond):
	}
}

// judge ends the interleaving: all writers end, a new holder writes, the units are
// counted, and the history is checked.
func (st *stage) judge() error {
	if err := st.finish(); err != nil {
		return err
	}
	after, err := st.undisturbed("Z")
	if err != nil {
		return err
	}
	if st.twin {
		return st.sum()
	}
	return also(st.sum(), after.failed())
}

// sum counts the units and checks the history.
func (st *stage) sum() error {
	if err := st.count(); err != nil {
		return err
	}
	if err := st.look(); err != nil {
		return err
	}
	return st.verdict()
}

// countNow counts right after a writer of the one unit was acknowledged: a later writer may
// apply the unit, and so hide that it had not been applied. An error is left to count.
func (st *stage) countNow() { _ = st.count() }

func (st *stage) count() error {
	op := history.Op{
		Kind: history.Read, Writer: "judge", Resource: st.subject.Resource,
		Outcome: history.Accepted, Began: st.clock.tick(),
	}
	counted, err := st.subject.Count(st.ctx)
	if err != nil {
		return fmt.Errorf("simulations: Count: %w", err)
	}
	op.Counted, op.Ended = counted-st.base, st.clock.tick()
	st.add(op)
	return nil
}

// verdict returns nil if every rule holds, otherwise a *Verdict.
func (st *stage) verdict() error {
	h := st.recorder.History()
	h.Slack = st.subject.slack
	if !st.twin {
		h.TTL = st.subject.TTL
	}
	if st.timed && !st.twin {
		h.Bound = st.subject.MaxBlocking
	}
	broken, err := history.Check(h)
	if err != nil {
		return fmt.Errorf("simulations: %w", err)
	}
	if len(broken) > 0 {
		return &Verdict{violations: broken, history: h}
	}
	return nil
}

// stuck returns the error for a writer that is not stopped, and does not end.
func stuck(writer string, waited time.Duration, steps []string) error {
	return fmt.Errorf("simulations: %s has not ended for more than %s; its steps: %s", writer, waited, lastOf(steps))
}

// lastOf returns the last steps of a long list.
func lastOf(steps []string) string {
	const most = 20
	if n := len(steps) - most; n > 0 {
		return fmt.Sprintf("%d, and then %s", n, strings.Join(steps[n:], ", "))
	}
	return strings.Join(steps, ", ")
}

// endlessError is returned for a Do that goes on after many refusals, when its context
// has been cancelled.
type endlessError struct {
	writer   string
	refusals int
	last     error
	steps    []string
}

func (e *endlessError) Error() string {
	return fmt.Sprintf("simulations: Do of %s was refused %d times and went on; its steps: %s; the last refusal: %v",
		e.writer, e.refusals, lastOf(e.steps), e.last)
}

func (e *endlessError) Unwrap() error { return e.last }

// clock returns a later time at each call, also if the machine's clock is coarse, or
// stands still, as in a synctest bubble while a goroutine runs. Operations in order must
// not appear simultaneous.
type clock struct {
	now func() time.Duration

	mu   sync.Mutex
	last time.Duration
}

func (c *clock) tick() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last+1, c.now())
	return c.last
}
