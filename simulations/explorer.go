package simulations

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/failpoint"
)

// explorer performs interleavings of one subject, guarded or as its twin.
type explorer struct {
	subject Subject
	twin    bool
	steps   []string  // of an undisturbed holder
	answers int       // the number of replies to its writes that can be lost
	commits int       // the number of its COMMITs that can be lost
	shape   []*writer // the undisturbed writers
	refused bool      // a paused writer's unit was refused, in an interleaving that passed
	covered *coverage
	normal  time.Duration // how long an undisturbed Hold takes
	blocked map[int]bool  // the steps at which a paused holder blocks others
}

// scout lets two holders work one after the other, undisturbed, to record the steps. The
// first holder's steps may differ from later ones: pools connect, drivers prepare. What it
// and the explorer perform counts in covered.
func scout(ctx context.Context, s Subject, twin bool, covered *coverage) (*explorer, error) {
	st, err := newStage(ctx, s, twin)
	if err != nil {
		return nil, err
	}
	defer st.close()
	st.unit = "" // so that both do a unit, and have all of its steps
	x := &explorer{subject: s, twin: twin, covered: covered, blocked: map[int]bool{}}
	var failed error
	for _, name := range []string{"A", "B"} {
		begun := time.Now()
		w, err := st.undisturbed(name)
		if err != nil {
			return nil, x.explain(st, named(err, undisturbedName))
		}
		x.steps, x.normal, x.answers, x.commits = w.seen(), time.Since(begun), int(w.answers.Load()), int(w.commits.Load())
		x.shape = append(x.shape, w)
		failed = errors.Join(failed, w.failed())
	}
	err = also(st.sum(), failed)
	if err == nil && !twin {
		err = st.unseen()
	}
	x.covered.observe(st)
	return x, x.explain(st, named(err, undisturbedName))
}

// plan calls perform with the interleavings of the plan, until it returns false or half
// of the subject's budget is used up for those of three holders. It reports whether
// perform always returned true.
func (x *explorer) plan(perform func(interleaving) bool) bool {
	two, three := interleavings(x.steps, x.answers, x.commits, x.subject.kept())
	x.covered.planned = len(two) + len(three)
	for n, i := range sample(two, len(x.steps), x.subject.extent.ofTwo) {
		if x.covered.performed > 0 && x.subject.spent(2) {
			x.covered.ended, x.covered.ofTwo = n, len(two)
			break
		}
		if !perform(i) {
			return false
		}
	}
	begun := time.Now()
	for n, i := range sample(three, len(x.steps), x.subject.extent.others) {
		if !x.subject.goesOn(begun, n) {
			break
		}
		if !perform(i) {
			return false
		}
	}
	return true
}

// perform returns nil if every rule holds.
func (x *explorer) perform(ctx context.Context, i interleaving) error {
	st, err := newStage(ctx, x.subject, x.twin)
	if err != nil {
		return err
	}
	defer st.close()
	st.timed, st.delayed = true, x.blocked[i.at]
	p := &performance{stage: st, interleaving: i, pace: x.pace(i.at), inside: len(x.steps) - 2}
	p.perform()
	if !i.unanswered() {
		x.blocked[i.at] = p.pace.isBlocked
	}
	err = st.judge()
	x.covered.count(p)
	return x.explain(st, named(err, i.String()))
}

func (x *explorer) pace(at int) pace {
	pace := pace{normal: x.normal, slack: x.subject.slack, isBlocked: x.blocked[at]}
	if !x.twin {
		pace.limit = x.subject.MaxBlocking
	}
	return pace
}

// also adds said, an error of an undisturbed Do, to a verdict. It returns said if err is
// nil.
func also(err, said error) error {
	var v *Verdict
	if errors.As(err, &v) {
		v.Err = said
		return v
	}
	return errors.Join(err, said)
}

// named adds the interleaving's name to a verdict.
func named(err error, name string) error {
	var v *Verdict
	switch {
	case err == nil:
		return nil
	case errors.As(err, &v):
		v.Interleaving = name
		return v
	}
	return fmt.Errorf("%s: %w", name, err)
}

// corrupted reports whether err means that the resource was corrupted. Breaking a rule
// about locks or delays corrupts nothing.
func corrupted(err error) bool {
	var v *Verdict
	if !errors.As(err, &v) {
		return false
	}
	return slices.ContainsFunc([]string{"order", "holder", "once", "trace", "versions"}, v.Breaks)
}

// pace limits how long the director waits for a writer that does not move: it may be
// slow, or wait for a stopped holder.
type pace struct {
	normal    time.Duration // how long an undisturbed Hold takes
	limit     time.Duration // how long a paused holder may block others; zero: not checked
	slack     time.Duration // how late the machine may be
	isBlocked bool          // a writer has been blocked here
}

// lateStart is how much later than the writer the work that it waits for may begin.
const lateStart = 5 * time.Second

// bound is how long the director waits for a writer that may be blocked by a paused
// holder. It is longer than the rule allows, even if the writer's work begins late.
func (p pace) bound() time.Duration {
	if p.limit > 0 && !p.isBlocked {
		return p.limit + p.slack + lateStart
	}
	return p.short()
}

// short is how long the director waits for a writer that no paused holder blocks.
func (p pace) short() time.Duration {
	if p.isBlocked {
		return max(20*time.Millisecond, 4*p.normal)
	}
	return max(250*time.Millisecond, 20*p.normal)
}

// tries is the number of attempts on a busy machine, where a lease can expire or a server
// can end a transaction that was idle for a moment.
const tries = 10

// leastTries is the minimum number of attempts, however long they take.
const leastTries = 3

// undisturbedName is the name of the interleaving before all others.
const undisturbedName = "undisturbed"

// undisturbed starts a writer and waits until it has ended. If it has not done its unit,
// it starts another.
func (st *stage) undisturbed(name string) (*writer, error) {
	begun := time.Now()
	for n := 1; ; n++ {
		w := st.start(name, nowhere)
		w.tries = n
		if err := st.finish(); err != nil || n == tries || w.did || n >= leastTries && time.Since(begun) > st.subject.slack/2 {
			return w, err
		}
	}
}

// failed returns why w, an undisturbed writer, has not done its unit. An error of its
// lease after the unit is not Do's.
func (w *writer) failed() error {
	if w.did {
		return nil
	}
	return fmt.Errorf("simulations: Do fails although nothing disturbs it, %d times: %w", w.tries, w.err)
}

// unseenError is returned for a Do that was acknowledged although none of its observed
// transactions wrote.
type unseenError struct{ steps []string }

func (e *unseenError) Error() string {
	return fmt.Sprintf("simulations: no tracer saw Do write, only begin: its steps: %q. "+
		"Its write bypasses the guard, or uses a connection without a tracer: see pgxpoint, sqlpoint and redispoint. "+
		"If neither can be changed, call simulations.Failpoint in Do with \"begin\" before the write, and \"applied\" after it", e.steps)
}

// unseen returns an error if guards and tracers reported transactions of an undisturbed
// unit, perhaps only the claim's, and none that wrote. An unguarded write could then go
// unnoticed, because the claim is refused in its place. For a request, only its service
// has the result. If Do takes its own lock, there must be a token, or a write that a
// tracer observed. If it takes the Locker's, a unit must have held that.
func (st *stage) unseen() error {
	if st.subject.Holds && !slices.ContainsFunc(st.writers, (*writer).heldItself) {
		return fmt.Errorf("simulations: Do does not take the lock %q, and Subject.Holds says that it does", st.subject.Resource)
	}
	for _, w := range st.writers {
		if name := w.facts.now().misnamed(st.subject.Resource); name != "" && st.subject.kept() {
			return fmt.Errorf("simulations: Do mints for %q, and Subject.Resource is %q", name, st.subject.Resource)
		}
		if st.subject.kept() && w.tok.Load() == nil && !w.traced.Load() {
			return &unseenError{w.seen()}
		}
		steps := w.seen()
		steps = steps[slices.Index(steps, stepDo)+1:]
		if slices.Contains(steps, string(failpoint.Begin)) && !slices.Contains(steps, string(failpoint.Request)) && !w.traced.Load() && !w.facts.now().admitted {
			return &unseenError{steps}
		}
	}
	return nil
}
