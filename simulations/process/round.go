package process

import (
	"context"
	"fmt"
	"time"
)

// round carries one round out: A stands, B does its unit, A goes on.
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

// draw returns where A is to be stopped, or when.
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
