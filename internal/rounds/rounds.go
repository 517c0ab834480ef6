package rounds

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
)

const (
	// stepTimeout limits one step of a round.
	stepTimeout = 2 * time.Minute
	// Slack is how late a busy machine may be without a broken rule.
	Slack = time.Minute
	// twinWait is how long B waits for a stopped A in the twin, if A's steps are known to
	// block.
	twinWait = 500 * time.Millisecond
)

// Values of Options.At that are not the name of a step.
const (
	Everywhere = ""        // stops A at each of its steps in turn, one for each round
	Anytime    = "anytime" // stops A at a random moment of its work
)

// Pause is how A is stopped.
type Pause string

// The pauses.
const (
	SIGSTOP Pause = "SIGSTOP" // stops the process, if the system can
	SIGKILL Pause = "SIGKILL" // ends the process; a new one replaces it
)

// Options configure a run. Conf, Twin, By, MaxBlocking, At and Seed may be zero.
type Options struct {
	Writer        subprocess.Command // starts a writer, whose process must call [Serve]
	Subject, Conf string             // for [Open], in the writers
	Twin          bool               // the refusals of guards are ignored

	Resource         string // the subject's, as TTL and MaxBlocking
	TTL, MaxBlocking time.Duration

	Pause  Pause
	By     subprocess.Pause // how A stops itself at a step; zero: the best way there is
	At     string           // the step at which A is stopped, or Everywhere or Anytime
	Nth    int              // selects among steps of the same name, from 1
	Rounds int
	Seed   uint64 // of the random moments

	Recorder *history.Recorder // gets the requests of both writers, when Run returns, and A's pauses
	// Observe is called at each moment of a round. If it returns an error, so does Run.
	Observe func(ctx context.Context, at Moment, r Round) error
}

// Moment is a moment of a round.
type Moment int

// The moments, in their order.
const (
	Begins    Moment = iota // neither writer works
	Stopped                 // A is stopped, and B does not work yet
	Succeeded               // B has answered, and A is stopped; not if A blocks B
	Ended                   // both have answered
)

// Round is one round, as far as it has come.
type Round struct {
	Number  int    // from 1
	A, B    Answer // that of a killed A is Unknown
	Missed  bool   // A's unit ended before it reached its step
	Blocked bool   // B could not finish before A was resumed
}

// Answer is what a writer reports about its unit.
type Answer struct {
	At      time.Time // when it was sent, by the machine's clock, as Wrote
	Wrote   time.Time // when its last write began
	Outcome history.Outcome
	Number  int64 // of the token
	Steps   []string
	Text    string // of the error
}

// stage is the state of a run.
type stage struct {
	Options
	random *rand.Rand
	a, b   *peer
	normal time.Duration // how long an undisturbed A takes
	steps  []string      // of an undisturbed A
	round  Round

	blocked, complete bool // B was blocked in a round; all rounds were performed
}

// Run performs all rounds. It returns the steps of an undisturbed A.
func Run(ctx context.Context, o Options) (steps []string, err error) {
	s := &stage{Options: o, random: rand.New(rand.NewPCG(o.Seed, 0))}
	defer func() { s.end(ctx) }()
	if err := s.rehearse(ctx); err != nil {
		return nil, err
	}
	for n := range o.Rounds {
		s.round = Round{Number: n + 1}
		if err := s.perform(ctx); err != nil {
			return s.steps, fmt.Errorf("round %d of %s: %w", n+1, o.Pause, err)
		}
	}
	s.complete = true
	return s.steps, errors.Join(s.a.tell(s.Recorder), s.b.tell(s.Recorder))
}

// end ends the writers. If a round was interrupted it does not wait for them.
func (s *stage) end(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	if !s.complete {
		cancel()
	}
	defer cancel()
	for _, p := range []*peer{s.a, s.b} {
		if p != nil {
			p.end(ctx)
		}
	}
}

// within takes one step of a round.
func (s *stage) within(ctx context.Context, step func(context.Context) error) error {
	ctx, cancel := subprocess.Within(ctx, stepTimeout+s.MaxBlocking+3*s.TTL+10*s.normal)
	defer cancel()
	return step(ctx)
}

// rehearse starts the writers and lets each do a unit undisturbed, A twice: its first
// unit includes what pools and drivers do only once.
func (s *stage) rehearse(ctx context.Context) (err error) {
	if s.a, err = s.start(ctx, "A"); err != nil {
		return err
	}
	if s.b, err = s.start(ctx, "B"); err != nil {
		return err
	}
	for _, p := range []*peer{s.a, s.b, s.a} {
		began := time.Now()
		a, err := s.ask(ctx, p)
		if err != nil {
			return err
		}
		s.steps, s.normal = a.Steps, time.Since(began)
	}
	return nil
}

func (s *stage) start(ctx context.Context, name string) (p *peer, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		p, err = start(ctx, s.Writer, setup{Name: name, Subject: s.Subject, Conf: s.Conf, Twin: s.Twin})
		return err
	})
	return p, err
}

// ask lets p do an undisturbed unit.
func (s *stage) ask(ctx context.Context, p *peer) (a Answer, err error) {
	err = s.within(ctx, func(ctx context.Context) error {
		if err := p.Send(order{}); err != nil {
			return err
		}
		a, err = p.answer(ctx)
		return err
	})
	if err == nil && a.Outcome != history.Accepted {
		err = fmt.Errorf("writer %s: Do fails although nothing disturbs it: %s: %s", p.name, a.Outcome, a.Text)
	}
	return a, err
}

// draw returns the step or the moment at which A is stopped.
func (s *stage) draw() (o order, moment time.Duration, err error) {
	o = order{Pause: s.Pause, By: s.By, Step: s.At, Nth: s.Nth}
	switch {
	case s.At == Anytime:
		o.Step = ""
		return o, 1 + time.Duration(s.random.Int64N(int64(3*s.normal/2))), nil
	case s.At == Everywhere:
		n := (s.round.Number - 1) % len(s.steps)
		o.Step = s.steps[n]
		o.Nth = times(o.Step, s.steps[:n+1])
	case times(s.At, s.steps) < s.Nth:
		return o, 0, fmt.Errorf("writer A does not come by step %q %d times, but by %q", s.At, s.Nth, s.steps)
	}
	return o, 0, nil
}

func times(step string, steps []string) (n int) {
	for _, s := range steps {
		if s == step {
			n++
		}
	}
	return n
}

func (s *stage) observe(ctx context.Context, at Moment) error { return s.Observe(ctx, at, s.round) }

// perform performs one round: A stops, B does its unit, A resumes.
func (s *stage) perform(ctx context.Context) error {
	if err := s.observe(ctx, Begins); err != nil {
		return err
	}
	o, moment, err := s.draw()
	if err != nil {
		return err
	}
	suspend := func(ctx context.Context) error {
		stands, err := s.a.suspend(ctx, o, moment)
		s.round.Missed = !stands
		return err
	}
	resume := func(ctx context.Context) error { return s.wake(ctx, o) }
	for _, step := range []func(context.Context) error{suspend, s.succeed, resume} {
		if err := s.within(ctx, step); err != nil {
			return err
		}
	}
	if b := s.round.B; b.Outcome != history.Accepted {
		return fmt.Errorf("writer B, undisturbed: %s: %s", b.Outcome, b.Text)
	}
	return s.observe(ctx, Ended)
}

// succeed lets B do its unit, while A is stopped.
func (s *stage) succeed(ctx context.Context) error {
	fault := s.Recorder.Begin(history.Op{Kind: history.Fault, Writer: "A", Resource: s.Resource})
	defer fault.End(history.Accepted, nil)
	if err := s.observe(ctx, Stopped); err != nil {
		return err
	}
	if err := s.awaitB(ctx); err != nil || s.round.Blocked {
		return err
	}
	return s.observe(ctx, Succeeded)
}

var errKept = errors.New("kept waiting")

// awaitB waits for B's answer, no longer than A may block B.
func (s *stage) awaitB(ctx context.Context) (err error) {
	bound := 2*s.TTL + 3*s.normal
	switch {
	case s.Twin && (s.At == Everywhere || s.At == Anytime || s.blocked): // some of its steps block, and no server evicts
		bound += twinWait
	default:
		bound += Slack + s.MaxBlocking
	}
	if err := s.b.Send(order{}); err != nil {
		return err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, bound, errKept)
	defer cancel()
	s.round.B, err = s.b.answer(waiting)
	if errors.Is(err, errKept) {
		s.round.Blocked, s.blocked = true, true
		return nil
	}
	return err
}

// wake resumes A, and waits for its answer, and for B's if B had to wait for A. If A is dead,
// wake starts a successor.
func (s *stage) wake(ctx context.Context, o order) (err error) {
	s.round.A = Answer{Outcome: history.Unknown}
	switch dead := s.Pause == SIGKILL; {
	case s.round.Missed:
		s.round.A, err = s.a.answer(ctx)
	case dead:
		err = s.replace(ctx)
	default:
		if err = s.a.resume(o); err == nil {
			s.round.A, err = s.a.answer(ctx)
		}
	}
	if err == nil && s.round.Blocked {
		s.round.B, err = s.b.answer(ctx)
	}
	return err
}

// replace starts a process in the place of A's, which is dead.
func (s *stage) replace(ctx context.Context) (err error) {
	if err := s.a.tell(s.Recorder); err != nil {
		return err
	}
	s.a.end(ctx)
	s.a, err = s.start(ctx, "A")
	return err
}
