package pglock

import (
	"context"
	"fmt"

	"github.com/fencepost/fencepost/bench/cost"
	"github.com/fencepost/fencepost/bench/measure"
)

// The most that a lock may cost beside two updates, and in round trips.
const (
	most           = 0.95
	mostClaimed    = 1.0
	mostRoundTrips = 2
)

// counted is what does not depend on the machine.
func (g *Group) counted() []measure.Figure {
	var figures []measure.Figure
	for _, f := range []measure.Figure{
		{Name: "a row", Ours: issued(g.issuer), Target: mostRoundTrips},
		{Name: "a row, claimed", Ours: claimed(g.claiming), Target: mostRoundTrips},
		{Name: "a row, Hold", Ours: hold(g.issuer)},
		{Name: "advisory", Ours: issued(g.advisory)},
	} {
		f.Name, f.Baseline = f.Name+": round trips", "SELECT 1"
		f.Plain, f.Cost = g.ask, cost.Counted(g.sent.Packets)
		figures = append(figures, f)
	}
	return figures
}

func (g *Group) ask(ctx context.Context, _ int) error {
	_, err := g.pool.Exec(ctx, "SELECT 1")
	return err
}

// timed begins with the noise.
func (g *Group) timed(workers int) []measure.Figure {
	figures := []measure.Figure{
		{Name: "a/a", Ours: g.updates},
		{Name: "a row", Ours: issued(g.issuer), Target: most},
		{Name: "a row, claimed", Ours: claimed(g.claiming), Target: mostClaimed},
		{Name: "a row, Hold", Ours: hold(g.issuer)},
		{Name: "advisory", Ours: issued(g.advisory)},
	}
	for i := range figures {
		figures[i].Baseline, figures[i].Plain, figures[i].Workers = "two updates", g.updates, workers
		if workers > 1 {
			figures[i].Name += fmt.Sprintf(", %d goroutines", workers)
			figures[i].Target = 0
		}
	}
	return figures
}
