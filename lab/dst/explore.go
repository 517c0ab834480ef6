package dst

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/fencepost/fencepost/internal/history"
)

// Plan is a set of runs to explore.
type Plan struct {
	Seed      uint64 // the first seed; the others follow it
	Schedules uint64 // the number of seeds
	Faults    Faults
	// WithoutControl leaves out the control, which is half of the work. Another plan
	// should have shown that the control breaks a rule.
	WithoutControl bool
	Mutant         *Mutant // nil: the production code
}

// Setting returns the setting of a plan's guarded runs, or of its control.
func (p Plan) Setting(ignoreRefusals bool) Setting {
	return Setting{Faults: p.Faults, IgnoreRefusals: ignoreRefusals, Mutant: p.Mutant}
}

// chunk is how many seeds one core takes at a time.
const chunk = 64

// Explore plays all runs of a plan on all cores. If ctx ends, it returns early with the
// cause of ctx. The report does not depend on the number of cores. done is called from
// time to time with the number of schedules played so far.
func Explore(ctx context.Context, p Plan, done func(schedules uint64)) (Report, error) {
	sum := Report{Seed: p.Seed}
	var next atomic.Uint64
	var mu sync.Mutex
	var failed error
	var working sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		working.Go(func() {
			var guarded, control Player
			for ctx.Err() == nil {
				from := next.Add(chunk) - chunk
				if from >= p.Schedules {
					return
				}
				part, err := p.explore(from, min(from+chunk, p.Schedules), &guarded, &control)
				mu.Lock()
				sum.add(part)
				if err != nil && failed == nil {
					failed = err
					next.Store(p.Schedules)
				}
				done(sum.Schedules)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	if failed == nil && sum.Schedules < p.Schedules {
		failed = context.Cause(ctx)
	}
	return sum, failed
}

func (p Plan) explore(from, to uint64, guarded, control *Player) (r Report, err error) {
	for i := from; i < to; i++ {
		seed := p.Seed + i
		run, err := guarded.Play(seed, p.Setting(false))
		if err != nil {
			return r, err
		}
		r.Acknowledged += uint64(run.Acknowledged)
		r.Lost += uint64(run.Lost)
		r.Violations, r.Broken = count(r.Violations, r.Broken, run)
		if run.Lost > 0 { // a lost write that was never acknowledged breaks no rule
			r.Broken = lower(r.Broken, seed)
		}
		r.Schedules++
		if p.WithoutControl {
			continue
		}
		run, err = control.Play(seed, p.Setting(true))
		if err != nil {
			return r, err
		}
		r.ControlLost += uint64(run.Lost)
		r.ControlViolations, r.ControlBroken = count(r.ControlViolations, r.ControlBroken, run)
	}
	return r, nil
}

// MutantResult is the result for one mutant.
type MutantResult struct {
	Name string `json:"name"`
	// Place is where the mistake is made: lock, holder, guard or service.
	Place string `json:"place"`
	// Seed is the first seed that finds the mutant. Zero means that no seed does.
	Seed uint64 `json:"killed_by_seed"`
	// Rule is the id of the first rule that it broke.
	Rule string `json:"rule,omitempty"`
}

// Kill plays a mutant until it breaks a rule, with at most p.Schedules seeds. If no rule
// is broken, [MutantResult.Seed] is 0.
func Kill(ctx context.Context, m Mutant, p Plan) (MutantResult, error) {
	d := MutantResult{Name: m.Name, Place: m.Place}
	p.Mutant = &m
	var player Player
	for i := range p.Schedules {
		if ctx.Err() != nil {
			return d, context.Cause(ctx)
		}
		run, err := player.Play(p.Seed+i, p.Setting(false))
		if err != nil {
			return d, fmt.Errorf("mutant %q, seed %d: %w", m.Name, p.Seed+i, err)
		}
		if len(run.Violations) > 0 {
			d.Seed, d.Rule = run.Seed, run.Violations[0].Rule.ID
			return d, nil
		}
	}
	return d, nil
}

// Run is the result of one seed.
type Run struct {
	Seed         uint64
	History      history.History
	Acknowledged int // units of work
	Lost         int // applied, and overwritten without being read; acknowledged or not
	Violations   []history.Violation
}

// Player plays one seed after another in the same memory: a Play overwrites the result of
// the Play before. The zero Player is ready for use.
type Player struct {
	eventQueue eventQueue
	ops        []history.Op
}

// Play runs one seed and judges it. An error means a mistake in the simulator.
func (p *Player) Play(seed uint64, s Setting) (Run, error) {
	w := newWorld(seed, s)
	w.eventQueue, w.record.ops = p.eventQueue.emptied(), p.ops[:0]
	w.begins()
	ended := w.run()
	p.eventQueue, p.ops = w.eventQueue, w.record.ops
	r := Run{Seed: seed, History: history.History{TTL: ttl, Slack: slack, Ops: w.record.ops}}
	r.Acknowledged, r.Lost = w.count()
	var err error
	r.Violations, err = history.CheckOnly(r.History, w.judges)
	return r, errors.Join(ended, err)
}

// Report is the sum of many runs. Each seed is played twice: guarded, and as the
// control, in which nothing is refused.
type Report struct {
	Schedules         uint64 `json:"schedules"`
	Violations        uint64 `json:"violations"`         // runs that broke a rule
	ControlViolations uint64 `json:"control_violations"` // the same of the control
	Seed              uint64 `json:"seed"`               // the first
	Acknowledged      uint64 `json:"acknowledged"`       // units of work, guarded
	Lost              uint64 `json:"lost"`               // applied and overwritten, guarded
	ControlLost       uint64 `json:"control_lost"`

	// The lowest seeds that broke a rule, or lost a write while guarded. Zero means that
	// there is none.
	Broken        uint64 `json:"broken_seed,omitempty"`
	ControlBroken uint64 `json:"control_broken_seed,omitempty"`
}

// Proven reports whether the guarded runs broke no rule and lost nothing, and the
// control broke a rule.
func (r *Report) Proven() bool { return r.Violations+r.Lost == 0 && r.ControlViolations > 0 }

func count(violations, least uint64, run Run) (uint64, uint64) {
	if len(run.Violations) == 0 {
		return violations, least
	}
	return violations + 1, lower(least, run.Seed)
}

// add adds the counts of part.
func (r *Report) add(part Report) {
	r.Schedules += part.Schedules
	r.Violations += part.Violations
	r.ControlViolations += part.ControlViolations
	r.Acknowledged += part.Acknowledged
	r.Lost += part.Lost
	r.ControlLost += part.ControlLost
	r.Broken = lower(r.Broken, part.Broken)
	r.ControlBroken = lower(r.ControlBroken, part.ControlBroken)
}

// lower returns the lesser of two seeds, where 0 means none.
func lower(a, b uint64) uint64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Setting is what the runs of many seeds have in common.
type Setting struct {
	Faults         Faults
	IgnoreRefusals bool    // the unguarded control: all writes are judged, none refused
	Mutant         *Mutant // nil: the production code
}

func (s Setting) decisions() *decisions {
	l := production
	if s.Mutant != nil {
		s.Mutant.change(&l)
	}
	return &l
}
