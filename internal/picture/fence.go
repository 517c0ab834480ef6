package picture

import (
	"slices"
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// fence is the resource's lane: a row for each number, the greatest on top, and
// the mark as a staircase over them. What lies below it is stale.
type fence struct {
	top    float64
	levels []int64 // from the greatest down
	row    float64 // height of one
	steps  []step  // at instants of the figure
	start  int64   // the mark at the first of them
	looks  bool    // somebody counted
}

func newFence(f *figure, instants []time.Duration) fence {
	all := f.story.steps
	n := fence{start: levelAt(all, f.from-1)}
	level := n.start
	n.levels = append(n.levels, level)
	for _, at := range instants {
		if now := levelAt(all, at); now != level {
			n.steps = append(n.steps, step{at, now, now < level})
			n.levels = append(n.levels, now)
			level = now
		}
	}
	for _, op := range f.shown {
		if f.lands(op) || op.Kind == history.Mark {
			n.levels = append(n.levels, op.Number)
		}
		n.looks = n.looks || looks(f, op)
	}
	slices.Sort(n.levels)
	n.levels = slices.DeleteFunc(slices.Compact(n.levels), func(number int64) bool { return number == 0 })
	slices.Reverse(n.levels)
	n.row = min(max(120/float64(max(len(n.levels), 1)), 6), 26)
	return n
}

// looks says that op is a look at the resource by somebody without a lane.
func looks(f *figure, op *history.Op) bool {
	return op.Kind == history.Read && f.laneOf[op.Writer] == nil
}

// y is the height of a number; 0 lies on the ground.
func (n fence) y(number int64) float64 {
	i := slices.Index(n.levels, number)
	if number == 0 || i < 0 {
		return n.ground()
	}
	return n.top + 24 + n.row*float64(i)
}

func (n fence) ground() float64 { return n.top + 30 + n.row*float64(len(n.levels)) }

func (n fence) bottom() float64 {
	if n.looks {
		return n.ground() + 28
	}
	return n.ground()
}

// group joins rows that are too low for labels of their own.
func (n fence) group(number int64) int { return int((n.y(number) - n.top) / 13) }
