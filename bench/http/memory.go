package http

import (
	"slices"

	"github.com/fencepost/fencepost/bench/cost"
	"github.com/fencepost/fencepost/bench/measure"
)

// The most that a request that is admitted may cost in memory, the window included.
const (
	mostAllocations = 6
	mostNanoseconds = 600
)

// Operations in a block. Few enough that most blocks are not interrupted, and where
// objects are counted enough that what a block itself allocates is nothing.
const (
	timed   = 500
	counted = 4000
)

// inMemory begins with what is counted. What a handler itself does is left out: it
// answers, and that is all.
func (g *Group) inMemory() []measure.Figure {
	admitted := called(guarded(silent, &g.marks, nil), g.current)
	sealed := called(guarded(silent, &g.marks, g.ring), g.sealed)
	alone := called(silent, g.current)
	floor := called(carrying, g.current)
	figures := []measure.Figure{
		{Name: "allocations", Baseline: "one allocation", Plain: cost.One, Ours: admitted, Cost: cost.Allocated, Size: counted, Target: mostAllocations},
		{Name: "allocations, sealed", Baseline: "one allocation", Plain: cost.One, Ours: sealed, Cost: cost.Allocated, Size: counted},
		{Name: "in memory", Baseline: "the handler alone", Plain: alone, Ours: admitted, Cost: cost.Elapsed, Size: timed, Extra: mostNanoseconds},
		{Name: "in memory, beside", Baseline: "a context value and a copy", Plain: floor, Ours: admitted, Cost: cost.Elapsed, Size: timed},
		{Name: "in memory, sealed", Baseline: "in memory", Plain: admitted, Ours: sealed, Cost: cost.Elapsed, Size: timed},
	}
	figures = slices.Insert(figures, 2, figures[3].AA("in memory, a/a"))
	for i := range figures {
		figures[i].Setup = g.claim
	}
	return figures
}
