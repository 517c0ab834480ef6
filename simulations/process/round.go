package process

import (
	"context"
	"fmt"
	"slices"
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
	o = order{Pause: s.Pause, Step: s.At, Nth: 1}
	switch {
	case s.At == Anytime:
		o.Step = ""
		return o, 1 + time.Duration(s.random.Int64N(int64(3*s.normal/2))), nil
	case s.At == Everywhere:
		n := s.count.Rounds % len(s.count.Steps)
		o.Step, o.Nth = s.count.Steps[n], 0
		for _, step := range s.count.Steps[:n+1] {
			if step == o.Step {
				o.Nth++
			}
		}
	case !slices.Contains(s.count.Steps, s.At):
		return o, 0, fmt.Errorf("process: A comes by no step %q, but by %q", s.At, s.count.Steps)
	}
	return o, 0, nil
}
