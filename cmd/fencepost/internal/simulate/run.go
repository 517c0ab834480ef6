package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/subprocess"
)

// Run runs all rounds of all ways, one after another, and returns the figures. If a step
// fails, it returns an error and no report. When ctx ends, it returns ctx's cause. In each
// case it ends the processes and removes the folder, the schema and the keys before it
// returns.
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

// orCause returns ctx's cause instead of err, if ctx has ended: err follows from that.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return cause
	}
	return err
}

// simulation is the state of one run.
type simulation struct {
	options Options
	servers *servers
	a, b    *process
	now     Progress
}

func (s *simulation) run(ctx context.Context) (report *Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if s.a, err = s.start(ctx, "A"); err != nil {
		return nil, err
	}
	defer func() { s.end(ctx, cancel, s.a, err) }()
	if s.b, err = s.start(ctx, "B"); err != nil {
		return nil, err
	}
	defer func() { s.end(ctx, cancel, s.b, err) }()
	return s.ways(ctx)
}

// start starts a writer, and returns when it is ready.
func (s *simulation) start(ctx context.Context, name string) (*process, error) {
	setup := s.servers.setup
	setup.Name = name
	ctx, cancel := subprocess.Within(ctx, s.limit())
	defer cancel()
	started, _, err := subprocess.Open[Event](ctx, subprocess.Command{Name: "writer " + name, Argv: s.options.Writer}, setup)
	return &process{started, name}, err
}

// end ends a writer. After an error it does not wait for a writer that works or is stopped.
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

// order sends an order to p, and waits for the expected event.
func (s *simulation) order(ctx context.Context, r *Round, p *process, amount int64, expected Kind) error {
	err := p.Send(order{Way: r.Way, Resource: r.Resource, Amount: amount, Stop: p == s.a})
	if err != nil {
		return err
	}
	_, err = s.until(ctx, r, p, expected)
	return err
}

// until notes p's events up to one of an expected kind, which it returns. It returns an error
// for an answer of another kind.
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

// The increments differ, so that a missing increment identifies its writer.
const (
	amountA = 50
	amountB = 20
)

// Round is one round.
type Round struct {
	Way      Way
	Resource string
	Events   []Event
	Final    int64 // the balance at the end

	row     account       // at the end
	reads   []balanceRead // by the parent
	answerA Event
}

// round runs one round. If a step differs from the drawing in the package comment, it
// returns an error that names the resource.
func (s *simulation) round(ctx context.Context, way Way, number int) (*Round, error) {
	r := &Round{Way: way, Resource: fmt.Sprintf("account/%s-%d", way, number)}
	if err := s.servers.store.insert(ctx, r.Resource); err != nil {
		return nil, err
	}
	err := subprocess.Round{
		Pause:  func(ctx context.Context) error { return s.stopA(ctx, r) },
		Act:    func(ctx context.Context) error { return s.sendB(ctx, r) },
		Resume: func(ctx context.Context) error { return s.continueA(ctx, r) },
	}.Run(ctx, s.limit())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.Resource, err)
	}
	return r, r.checkOrder()
}

// limit bounds one step, which waits for one lease at most.
func (s *simulation) limit() time.Duration { return 3*s.options.TTL + stepTimeout }

func (s *simulation) stopA(ctx context.Context, r *Round) error {
	if err := s.order(ctx, r, s.a, amountA, Pauses); err != nil {
		return err
	}
	if err := s.a.Suspend(ctx, s.servers.setup.Pause); err != nil {
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
	r.reads = append(r.reads, balanceRead{time.Now(), row.balance})
	if !row.has(s.b.name, amountB) {
		return fmt.Errorf("simulate: B's write was acknowledged, and the row does not have it: %q", row.increments)
	}
	return nil
}

func (s *simulation) continueA(ctx context.Context, r *Round) error {
	s.note(r, Event{At: time.Now(), Writer: s.a.name, Kind: Continued})
	if err := s.a.Resume(s.servers.setup.Pause); err != nil {
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
	r.reads = append(r.reads, balanceRead{time.Now(), r.Final})
	return nil
}

// checkOrder returns an error unless A had the older token: otherwise A's write was not
// stale.
func (r *Round) checkOrder() error {
	a, b := r.number("A"), r.number("B")
	if a == 0 || b == 0 || a >= b {
		return fmt.Errorf("simulate: %s: B's token %d is not newer than A's %d", r.Resource, b, a)
	}
	return nil
}

// Lost returns the acknowledged increments that the row does not have at the end, as "B+20".
func (r *Round) Lost() []string {
	var lost []string
	if r.answerA.Kind == Accepted && !r.row.has("A", amountA) {
		lost = append(lost, increment("A", amountA))
	}
	if !r.row.has("B", amountB) { // sendB has checked that it was acknowledged
		lost = append(lost, increment("B", amountB))
	}
	return lost
}

// number returns the number of the writer's last token.
func (r *Round) number(writer string) (number int64) {
	for _, e := range r.Events {
		if e.Writer == writer && e.Kind == Holds {
			number = e.Number
		}
	}
	return number
}
