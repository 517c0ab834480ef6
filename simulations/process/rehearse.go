package process

import (
	"context"
	"fmt"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// rehearse starts the writers and lets each do a unit undisturbed, A twice:
// what it does first is what pools and drivers do first.
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
	ctx, cancel := s.patient(ctx)
	defer cancel()
	return start(ctx, setup{Name: name, Subject: s.Subject, Conf: s.Conf, Twin: s.twin})
}

// ask has p do a unit that nobody disturbs.
func (s *stage) ask(ctx context.Context, p *peer) (event, error) {
	ctx, cancel := s.patient(ctx)
	defer cancel()
	if err := p.Send(order{}); err != nil {
		return event{}, err
	}
	e, err := p.await(ctx, answered)
	if err == nil && e.Outcome != history.Accepted {
		err = fmt.Errorf("process: Do fails although nobody disturbs it: %s: %s", e.Outcome, e.Text)
	}
	return e, err
}
