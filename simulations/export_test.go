package simulations

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// Interleavings returns the names of all interleavings of a plan.
func Interleavings(steps []string, answers int) []string {
	var names []string
	two, three := interleavings(steps, answers, 1, false)
	for _, i := range append(two, three...) {
		names = append(names, i.String())
	}
	return names
}

// Within limits the interleavings of two holders, of three, and random ones; zero means
// all. The first seed is constant unless s has one. A late machine breaks no rule about
// delays.
func Within(ofTwo, others int, s Subject) Subject {
	s.extent, s.slack, s.Seed = extent{ofTwo, others}, 10*time.Minute, cmp.Or(s.Seed, 1)
	return s
}

// Outliving is for a subject that leaves a goroutine running. The verdict waits for its
// write, however late the machine is.
func Outliving(s Subject) Subject {
	s.strays = 2 * time.Minute
	return s
}

// Impatient makes a delay of five seconds more than the limit break the rule about delays.
func Impatient(s Subject) Subject {
	s.slack = 5 * time.Second
	return s
}

// Cover is Check, and also returns what the run covers.
func Cover(ctx context.Context, s Subject) (string, error) {
	s, err := s.complete()
	if err != nil {
		return "", err
	}
	covered, err := examine(ctx, s)
	return covered.String(), err
}

// Shuffle performs the random interleaving of seed, and returns the operations of all
// writers.
func Shuffle(ctx context.Context, s Subject, seed uint64) ([]string, error) {
	s, err := s.complete()
	if err != nil {
		return nil, err
	}
	x, err := scout(ctx, s, false, &coverage{})
	if err != nil {
		return nil, err
	}
	st, err := newStage(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer st.close()
	x.moves(st, seed)
	err = st.judge()
	var did []string
	for _, op := range st.recorder.History().Ops {
		did = append(did, fmt.Sprintf("%s: %s %s", op.Writer, op.Kind, op.Outcome))
	}
	return did, err
}

// TwinGoesOn returns whether the random interleavings of a twin go on after some of them,
// in a run of s that begins now.
func TwinGoesOn(s Subject) func(performed int) bool {
	s, _ = s.complete()
	return func(performed int) bool { return s.twinGoesOn(s.begun, performed) }
}

// Stuck returns the error text for a writer that does not end.
func Stuck(writer string, steps ...string) string {
	return stuck(writer, stuckTimeout, steps).Error()
}

// Breakpoint is a breakpoint that stops every step.
type Breakpoint struct{ *breakpoint }

// NewBreakpoint returns one.
func NewBreakpoint() Breakpoint { return Breakpoint{newBreakpoint(everywhere)} }

// Pass is a caller's step.
func (b Breakpoint) Pass(step string) { b.pass(step) }

// Next waits until a caller is stopped, and returns its step.
func (b Breakpoint) Next() string { return <-b.parked }

// Resume releases one caller that is stopped.
func (b Breakpoint) Resume() { b.resumeOne() }

// Disable releases all callers that are stopped, and stops no more.
func (b Breakpoint) Disable() { b.disable() }

// NewVerdict returns a verdict with violations.
func NewVerdict(v Verdict, violations ...history.Violation) *Verdict {
	v.violations = violations
	return &v
}

// Violations returns the broken rules.
func Violations(v *Verdict) []history.Violation { return v.violations }

// History returns the recorded history of the interleaving.
func History(v *Verdict) history.History { return v.history }
