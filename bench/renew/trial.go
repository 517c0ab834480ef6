package renew

import (
	"time"

	"github.com/fencepost/fencepost/bench/measure"
)

const (
	wheeled = "one wheel"
	single  = "one by one"
)

// The most that keeping all leases may take.
const (
	mostClient  = 15  // ms of CPU a second
	mostPackets = 25  // a second
	mostState   = 128 // bytes a lease
)

// Trials are in the order in which they are to be measured.
func (g *Group) Trials() []measure.Trial {
	steady := measure.Trial{
		Name: "evenly", Shortest: g.period(), Longest: 2 * g.period(), Rounds: 1,
		Sides: []measure.Side{
			{Name: wheeled, Run: g.steady(newWheel)}, {Name: single, Run: g.steady(newOneByOne)},
		},
	}
	for _, r := range []struct {
		quantity, unit string
		target         float64
	}{
		{client, "1 ms a second", mostClient}, {server, "1 ms a second", 0},
		{packets, "one a second", mostPackets}, {state, "1 byte a lease", mostState},
	} {
		steady.Ratios = append(steady.Ratios, compared(r.quantity, r.unit, r.target)...)
	}
	late := measure.Trial{
		Name: "due at once", Shortest: time.Second, Rounds: 1,
		Sides: []measure.Side{
			{Name: wheeled, Run: g.late(newWheel)}, {Name: single, Run: g.late(newOneByOne)},
		},
		Ratios: compared(lateness, "1 ms", 0),
	}
	return []measure.Trial{steady, late}
}

// compared is a quantity of the wheel, in its unit, and beside that of the twin,
// which is shown too.
func compared(quantity, unit string, target float64) []measure.Ratio {
	ours, twin := measure.Value{Side: wheeled, Quantity: quantity}, measure.Value{Side: single, Quantity: quantity}
	return []measure.Ratio{
		{Name: wheeled + ": " + quantity, Baseline: unit, Of: ours, Target: target},
		{Name: single + ": " + quantity, Baseline: unit, Of: twin},
		{Name: quantity, Baseline: single, Of: ours, Over: twin},
	}
}
