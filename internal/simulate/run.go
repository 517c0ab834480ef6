package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Run runs all rounds of all ways, one after another, and returns what was
// counted. Where anything could not be carried out there is an error and no
// report. Whatever it made is removed when it returns: processes, folder,
// schema, keys. When ctx ends it returns its cause, after the same.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	servers, err := startServers(ctx, o)
	if err != nil {
		return nil, orCause(ctx, err)
	}
	s := &simulation{options: o, servers: servers}
	report, err = s.run(ctx)
	err = errors.Join(orCause(ctx, err), servers.stop(ctx))
	if err != nil {
		return nil, err
	}
	return report, nil
}

// orCause prefers the reason why everything ended to what ended in its wake.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// simulation is a run under way.
type simulation struct {
	options Options
	servers *servers
	a, b    *process
	now     Progress
}

func (s *simulation) run(ctx context.Context) (report *Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.a, err = s.start("A"); err != nil {
		return nil, err
	}
	defer func() { s.end(ctx, cancel, s.a, err) }()
	if s.b, err = s.start("B"); err != nil {
		return nil, err
	}
	defer func() { s.end(ctx, cancel, s.b, err) }()
	for _, p := range []*process{s.a, s.b} {
		if err := s.step(ctx, &Round{}, func(ctx context.Context, r *Round) error {
			_, err := s.until(ctx, r, p, Ready)
			return err
		}); err != nil {
			return nil, err
		}
	}
	return s.ways(ctx)
}

func (s *simulation) start(name string) (*process, error) {
	setup := s.servers.setup
	setup.Name = name
	return startProcess(s.options.Writer, setup)
}

// end does not wait for a writer in the middle of something, or stopped.
func (s *simulation) end(ctx context.Context, cancel func(), p *process, err error) {
	if err != nil {
		cancel()
	}
	p.End(ctx)
}

func (s *simulation) ways(ctx context.Context) (*Report, error) {
	report := &Report{
		Rounds: s.options.Rounds, TTL: s.options.TTL.Milliseconds(),
		Issuer: s.servers.issuer, Store: s.servers.name, Pause: s.servers.setup.Pause.String(),
	}
	for _, way := range Ways() {
		count := Count{Name: way}
		for number := range s.options.Rounds {
			s.now = Progress{Way: way, Round: number + 1}
			round, err := s.round(ctx, way, number+1)
			if err != nil {
				return nil, err
			}
			count.add(round)
		}
		report.Runs = append(report.Runs, count)
	}
	return report, nil
}

// order sends p to work and waits for what is to come of it.
func (s *simulation) order(ctx context.Context, r *Round, p *process, amount int64, expected Kind) error {
	err := p.Send(order{Way: r.Way, Resource: r.Resource, Amount: amount, Stop: p == s.a})
	if err != nil {
		return err
	}
	_, err = s.until(ctx, r, p, expected)
	return err
}

// until notes p's events up to an expected one. An answer that was not expected
// is an error.
func (s *simulation) until(ctx context.Context, r *Round, p *process, expected ...Kind) (Event, error) {
	for {
		e, err := p.Next(ctx)
		if err != nil {
			return e, err
		}
		s.note(r, e)
		if slices.Contains(expected, e.Kind) {
			return e, nil
		}
		if slices.Contains([]Kind{Accepted, Refused, Failed}, e.Kind) {
			return e, fmt.Errorf("simulate: writer %s: %s, not %s: %s", p.name, e.Kind, expected[0], e.Text)
		}
	}
}

func (s *simulation) note(r *Round, e Event) {
	r.Events = append(r.Events, e)
	if s.options.Observe != nil && s.now.Round > 0 {
		s.now.Event = e
		s.options.Observe(s.now)
	}
}
