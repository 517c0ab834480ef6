package simulate

import (
	"context"
	"fmt"
	"time"
)

// The increments: what is missing in the end tells whose it was.
const (
	amountA = 50
	amountB = 20
)

// Round is one round as it happened.
type Round struct {
	Way      Way
	Resource string
	Events   []Event
	// Between is the balance when B's write was acknowledged and A still stood;
	// Final is the balance in the end.
	Between, Final int64

	row     account // in the end
	looks   []look  // at the balance, by the parent
	answerA Event
}

// round carries one round out. Where a step does not come out as drawn the
// error says which, and there is no Round.
func (s *simulation) round(ctx context.Context, way Way, number int) (*Round, error) {
	r := &Round{Way: way, Resource: fmt.Sprintf("account/%s-%d", way, number)}
	if err := s.servers.store.insert(ctx, r.Resource); err != nil {
		return nil, err
	}
	for _, step := range []func(context.Context, *Round) error{s.stopA, s.sendB, s.continueA} {
		if err := s.step(ctx, r, step); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Resource, err)
		}
	}
	return r, r.asDrawn()
}

// step bounds a step's time: it waits for one lease at most.
func (s *simulation) step(ctx context.Context, r *Round, do func(context.Context, *Round) error) error {
	bound := 3*s.options.TTL + patience
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("simulate: nothing happened within %s", bound))
	defer cancel()
	return do(ctx, r)
}

func (s *simulation) stopA(ctx context.Context, r *Round) error {
	if err := s.order(ctx, r, s.a, amountA, Pauses); err != nil {
		return err
	}
	if err := s.a.suspend(ctx); err != nil {
		return err
	}
	s.note(r, Event{At: time.Now(), Writer: s.a.name, Kind: Stopped})
	return nil
}

func (s *simulation) sendB(ctx context.Context, r *Round) error {
	if err := s.order(ctx, r, s.b, amountB, Accepted); err != nil {
		return err
	}
	row, err := s.servers.store.read(ctx, r.Resource)
	if err != nil {
		return err
	}
	r.looks = append(r.looks, look{time.Now(), row.balance})
	if r.Between = row.balance; !row.has(s.b.name, amountB) {
		return fmt.Errorf("simulate: B's write was acknowledged, and the row does not have it: %q", row.increments)
	}
	return nil
}

func (s *simulation) continueA(ctx context.Context, r *Round) error {
	s.note(r, Event{At: time.Now(), Writer: s.a.name, Kind: Continued})
	if err := s.a.resume(); err != nil {
		return err
	}
	var err error
	if r.answerA, err = s.until(ctx, r, s.a, Accepted, Refused); err != nil {
		return err
	}
	if r.row, err = s.servers.store.read(ctx, r.Resource); err != nil {
		return err
	}
	r.Final = r.row.balance
	r.looks = append(r.looks, look{time.Now(), r.Final})
	return nil
}

// asDrawn returns an error where the round does not show what it is to show: A
// with the older token, stopped between its read and its write.
func (r *Round) asDrawn() error {
	a, b := r.number("A"), r.number("B")
	if a == 0 || b == 0 || a >= b {
		return fmt.Errorf("simulate: %s: B's token %d is not newer than A's %d", r.Resource, b, a)
	}
	return nil
}

// Lost returns the increments that were acknowledged and that the row does not
// have in the end, as in "B+20".
func (r *Round) Lost() []string {
	var lost []string
	if r.answerA.Kind == Accepted && !r.row.has("A", amountA) {
		lost = append(lost, increment("A", amountA))
	}
	if !r.row.has("B", amountB) { // acknowledged, or there were no round
		lost = append(lost, increment("B", amountB))
	}
	return lost
}

// number is that of the writer's last token.
func (r *Round) number(writer string) (number int64) {
	for _, e := range r.Events {
		if e.Writer == writer && e.Kind == Holds {
			number = e.Number
		}
	}
	return number
}
