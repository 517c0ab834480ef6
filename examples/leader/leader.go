package leader

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/sqlguard"
)

// Schema makes the table of the plan.
const Schema = "CREATE TABLE plans (id int PRIMARY KEY, by text NOT NULL, version int NOT NULL)"

// Planner is one of several instances. The one that leads writes the plan.
type Planner struct {
	Candidate *lock.Candidate // its Value is the address of this instance
	Fence     *sqlguard.Guard
	Every     time.Duration
}

// Run plans whenever this instance is elected, until ctx ends or a write fails.
func (p *Planner) Run(ctx context.Context) error { return p.Candidate.Run(ctx, p.lead) }

// lead writes plans until its term ends. If a write is refused, Run campaigns again.
func (p *Planner) lead(ctx context.Context) error {
	plans := p.Fence.On(p.Candidate.Resource)
	for {
		_, err := plans.Exec(ctx, `INSERT INTO plans VALUES (1, $1, 1) ON CONFLICT (id)
			DO UPDATE SET by = EXCLUDED.by, version = plans.version + 1`, p.Candidate.Value)
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(p.Every):
		}
	}
}

// Follow calls set with the address of each leader, and with "" while there is none or it
// is not known, until ctx ends. Requests that reach a former leader are not answered wrongly:
// what it writes is refused.
func Follow(ctx context.Context, observer *lock.Observer, set func(address string)) {
	for leader, err := range observer.All(ctx) {
		if err != nil {
			slog.WarnContext(ctx, "leader: the leader is not known", "error", err)
		}
		set(leader.Value)
	}
}
