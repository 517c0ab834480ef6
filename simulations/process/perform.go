package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// perform returns the answers of A and B.
func (s *stage) perform(ctx context.Context, o order, moment time.Duration) (a, b event, err error) {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	stands, err := s.a.suspend(ctx, o, moment)
	if err != nil {
		return a, b, err
	}
	fault := s.fault()
	if b, err = s.succeed(ctx); err != nil {
		return a, b, err
	}
	fault.End(history.Accepted, nil)
	if a, err = s.wake(ctx, o, stands); err != nil {
		return a, b, err
	}
	if b.Kind == "" { // it had to wait for A
		s.count.Blocked++
		b, err = s.b.await(ctx, answered)
	}
	if err == nil && b.Outcome != history.Accepted {
		err = fmt.Errorf("process: B, whom nobody disturbs: %s: %s", b.Outcome, b.Text)
	}
	return a, b, err
}

var errKept = errors.New("process: kept waiting")

// succeed returns B's answer, or an empty one where A keeps B waiting for longer
// than it may.
func (s *stage) succeed(ctx context.Context) (event, error) {
	bound := 2*s.subject.TTL + 3*s.normal + slack/2
	switch {
	case s.twin: // nothing bounds it there
		bound -= slack/2 - slack/20
	case s.subject.Bound > 0:
		bound += s.subject.Bound + slack/2
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

// wake returns A's answer. The dead have none, and a successor.
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
