package kernel

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Plan says which runs to explore.
type Plan struct {
	Seed      uint64 // the first; the others follow it
	Schedules uint64 // how many
	Faults    Faults
	// WithoutControl leaves out half of the work, where another plan has shown that
	// the control goes wrong.
	WithoutControl bool
	Mutant         *Mutant // nil: the code as it is
}

// Setting is that of a plan's runs: guarded, or of the control.
func (p Plan) Setting(observe bool) Setting {
	return Setting{Faults: p.Faults, Observe: observe, Mutant: p.Mutant}
}

// chunk is how many seeds one core takes at a time.
const chunk = 64

// Explore plays all runs of a plan on all cores. It ends early, with its cause,
// when ctx ends. The report does not depend on the number of cores. done is told
// how many have been played, now and then.
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
		if run.Lost > 0 { // a lost write that nobody was told of breaks no rule
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
