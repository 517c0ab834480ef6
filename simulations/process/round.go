package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/internal/history"
	"github.com/fencepost/fencepost/internal/subprocess"
	"github.com/fencepost/fencepost/simulations"
)

// stage runs the rounds of a guarded subject, or of its twin.
type stage struct {
	Options
	twin     bool
	subject  simulations.Subject // in the test's process, to count
	recorder *history.Recorder
	random   *rand.Rand
	a, b     *peer
	normal   time.Duration // how long an undisturbed A takes
	count    Counts
	base     int
}

// run runs all rounds and checks the history.
func run(ctx context.Context, o Options, twin bool) (c Counts, err error) {
	began := time.Now()
	defer func() { c.Duration = time.Since(began) }()
	subject, end, err := open(ctx, o.Subject, o.Conf)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, end()) }()
	s := &stage{
		Options: o, twin: twin, subject: subject, recorder: history.NewRecorder(),
		random: rand.New(rand.NewPCG(o.Seed, 0)),
	}
	defer s.end(ctx)
	if err := s.rehearse(ctx); err != nil {
		return c, err
	}
	for s.count.Rounds < o.Rounds {
		if err := s.round(ctx); err != nil {
			return s.count, fmt.Errorf("round %d of %s: %w", s.count.Rounds+1, o.Pause, err)
		}
	}
	return s.judge(ctx)
}

// end ends the writers. If a round was interrupted it does not wait for them.
func (s *stage) end(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	if s.count.Rounds < s.Rounds {
		cancel()
	}
	defer cancel()
	for _, p := range []*peer{s.a, s.b} {
		if p != nil {
			p.end(ctx)
		}
	}
}

// limit bounds one step of a round.
func (s *stage) limit() time.Duration {
	return stepTimeout + s.subject.MaxBlocking + 3*s.subject.TTL + 10*s.normal
}

// rehearse starts the writers and lets each do a unit undisturbed, A twice: its first
// unit includes what pools and drivers do only once.
func (s *stage) rehearse(ctx context.Context) (err error) {
	if s.base, err = s.subject.Count(ctx); err != nil {
		return fmt.Errorf("process: Count: %w", err)
	}
	if s.a, err = s.start(ctx, "A"); err != nil {
		return err
	}
	if s.b, err = s.start(ctx, "B"); err != nil {
		return err
	}
	for _, p := range []*peer{s.a, s.b, s.a} {
		began := time.Now()
		e, err := s.ask(ctx, p)
		if err != nil {
			return err
		}
		s.count.Steps, s.normal = e.Steps, time.Since(began)
	}
	return nil
}

func (s *stage) start(ctx context.Context, name string) (*peer, error) {
	ctx, cancel := subprocess.Within(ctx, s.limit())
	defer cancel()
	return start(ctx, setup{Name: name, Subject: s.Subject, Conf: s.Conf, Twin: s.twin})
}

// ask lets p do an undisturbed unit.
func (s *stage) ask(ctx context.Context, p *peer) (event, error) {
	ctx, cancel := subprocess.Within(ctx, s.limit())
	defer cancel()
	if err := p.Send(order{}); err != nil {
		return event{}, err
	}
	e, err := p.await(ctx, answered)
	if err == nil && e.Outcome != history.Accepted {
		err = fmt.Errorf("process: Do fails although nothing disturbs it: %s: %s", e.Outcome, e.Text)
	}
	return e, err
}

// round performs one round: A stops, B does its unit, A resumes.
func (s *stage) round(ctx context.Context) error {
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	o, moment, err := s.draw()
	if err != nil {
		return err
	}
	a, b, err := s.perform(ctx, o, moment)
	if err != nil {
		return err
	}
	after, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.count.add(a, b, after-before)
	return nil
}

// draw returns the step or the moment at which A is stopped.
func (s *stage) draw() (o order, moment time.Duration, err error) {
	o = order{Pause: s.Pause, Step: s.At, Nth: s.Nth}
	switch {
	case s.At == Anytime:
		o.Step = ""
		return o, 1 + time.Duration(s.random.Int64N(int64(3*s.normal/2))), nil
	case s.At == Everywhere:
		n := s.count.Rounds % len(s.count.Steps)
		o.Step = s.count.Steps[n]
		o.Nth = times(o.Step, s.count.Steps[:n+1])
	case times(s.At, s.count.Steps) < s.Nth:
		return o, 0, fmt.Errorf("process: A does not come by step %q %d times, but by %q", s.At, s.Nth, s.count.Steps)
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

// perform returns the answers of A and B.
func (s *stage) perform(ctx context.Context, o order, moment time.Duration) (a, b event, err error) {
	stands := false
	err = subprocess.Round{
		Pause: func(ctx context.Context) (err error) {
			stands, err = s.a.suspend(ctx, o, moment)
			return err
		},
		Act: func(ctx context.Context) (err error) {
			fault := s.fault()
			b, err = s.succeed(ctx)
			fault.End(history.Accepted, nil)
			return err
		},
		Resume: func(ctx context.Context) (err error) {
			a, err = s.wake(ctx, o, stands)
			if err == nil && b.Kind == "" { // it had to wait for A
				s.count.Blocked++
				b, err = s.b.await(ctx, answered)
			}
			return err
		},
	}.Run(ctx, s.limit())
	if err == nil && b.Outcome != history.Accepted {
		err = fmt.Errorf("process: B, undisturbed: %s: %s", b.Outcome, b.Text)
	}
	return a, b, err
}

var errKept = errors.New("process: kept waiting")

// succeed returns B's answer, or an empty event if A blocks B for longer than it may.
func (s *stage) succeed(ctx context.Context) (event, error) {
	bound := 2*s.subject.TTL + 3*s.normal
	switch {
	case s.twin && (s.At == Everywhere || s.At == Anytime || s.count.Blocked > 0): // some of its steps block, and no server evicts
		bound += twinWait
	default:
		bound += slack + s.subject.MaxBlocking
	}
	if err := s.b.Send(order{}); err != nil {
		return event{}, err
	}
	waiting, cancel := context.WithTimeoutCause(ctx, bound, errKept)
	defer cancel()
	b, err := s.b.await(waiting, answered)
	if errors.Is(err, errKept) {
		return event{}, nil
	}
	return b, err
}

// wake returns A's answer. If A is dead there is none, and wake starts a successor.
func (s *stage) wake(ctx context.Context, o order, stands bool) (a event, err error) {
	if stands && s.Pause == SIGKILL {
		if err := s.a.tell(s.recorder); err != nil {
			return a, err
		}
		s.a.end(ctx)
		s.a, err = s.start(ctx, "A")
		return event{Outcome: history.Unknown}, err
	}
	if stands {
		if err := s.a.resume(ctx, o); err != nil {
			return a, err
		}
	}
	return s.a.await(ctx, answered)
}

// fault records that A is stopped from now on.
func (s *stage) fault() *history.Open {
	return s.recorder.Begin(history.Op{Kind: history.Fault, Writer: "A", Resource: s.subject.Resource})
}

// look records the count of the resource, and the mark.
func (s *stage) look(ctx context.Context) (int, error) {
	read := history.Op{Kind: history.Read, Writer: "test", Resource: s.subject.Resource, Outcome: history.Accepted, Began: s.recorder.Now()}
	counted, err := s.subject.Count(ctx)
	if err != nil {
		return 0, fmt.Errorf("process: Count: %w", err)
	}
	read.Counted, read.Ended = counted-s.base, s.recorder.Now()
	s.recorder.Add(read)
	if s.subject.Mark == nil {
		return counted, nil
	}
	op := history.Op{Kind: history.Mark, Writer: "test", Resource: s.subject.Resource, Outcome: history.Accepted, Began: s.recorder.Now()}
	mark, err := s.subject.Mark(ctx)
	if err != nil {
		return 0, fmt.Errorf("process: Mark: %w", err)
	}
	op.Number, op.Holder, op.Ended = mark.Number, mark.Holder, s.recorder.Now()
	s.recorder.Add(op)
	return counted, nil
}

// judge checks the history by all rules. For the twin, delays are ignored, because no
// server evicts there.
func (s *stage) judge(ctx context.Context) (Counts, error) {
	for _, p := range []*peer{s.a, s.b} {
		if err := p.tell(s.recorder); err != nil {
			return s.count, err
		}
	}
	if _, err := s.look(ctx); err != nil {
		return s.count, err
	}
	h := s.recorder.History()
	h.Slack = slack
	if !s.twin {
		h.TTL, h.Bound = s.subject.TTL, s.subject.MaxBlocking
	}
	s.count.history = h
	var err error
	if s.count.violations, err = history.Check(h); err != nil {
		return s.count, fmt.Errorf("process: %w", err)
	}
	return s.count, nil
}
