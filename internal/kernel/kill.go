package kernel

import (
	"context"
	"fmt"
)

// Death is what became of a mutant.
type Death struct {
	Name string `json:"name"`
	// Place is whose mistake it is: lock, holder, guard or service.
	Place string `json:"place"`
	// Seed is the first that killed it; 0: none, it has survived.
	Seed uint64 `json:"killed_by_seed"`
	// Rule is the first that it broke, by its id.
	Rule string `json:"rule,omitempty"`
}

// Kill plays a mutant from a seed on, at most so many seeds, until it breaks a
// rule. Where it does not, [Death.Seed] is 0.
func Kill(ctx context.Context, m Mutant, p Plan) (Death, error) {
	d := Death{Name: m.Name, Place: m.Place}
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
