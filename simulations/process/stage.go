package process

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fencepost/fencepost/simulations"
	"github.com/fencepost/fencepost/simulations/history"
)

// stage is where the rounds of a guarded subject, or of its twin, are run.
type stage struct {
	Options
	twin     bool
	subject  simulations.Subject // the test's own, to count
	recorder *history.Recorder
	random   *rand.Rand
	a, b     *peer
	normal   time.Duration // how long A takes whom nobody disturbs
	count    Count
	base     int
}

// run runs all rounds and judges them.
func run(ctx context.Context, o Options, twin bool) (c Count, err error) {
	began := time.Now()
	defer func() { c.Took = time.Since(began) }()
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

// end ends the writers. Where a round was left in the middle they are not
// waited for.
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

func (s *stage) patient(ctx context.Context) (context.Context, context.CancelFunc) {
	bound := patience + s.subject.Bound + 3*s.subject.TTL + 10*s.normal
	return context.WithTimeoutCause(ctx, bound, fmt.Errorf("process: nothing happened within %s", bound))
}
