package picture

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// figure is a scene as it is drawn.
type figure struct {
	cutting
	scene    Scene
	numbers  numbers
	lanes    []*lane
	laneOf   map[string]*lane
	held     []lease
	from, to time.Duration // the first and the last instant
	scale    scale
	labels   labels
	fence    fence
	bare     map[*history.Op]bool // see bareUnits
	callout  callout

	top, height, width, gutter float64
}

// Widths of a figure, which only grows beyond them where instants themselves
// have no room.
const (
	widest, widestSmall = 1130.0, 545.0
	narrowest           = 420.0
	laneHeight, narrow  = 56.0, 24.0
)

func newFigure(c cutting, s Scene) *figure {
	f := &figure{cutting: c, scene: s}
	if len(f.shown) == 0 {
		return f
	}
	f.lanes, f.bare = lanesOf(f.shown), bareUnits(f.shown)
	f.laneOf = map[string]*lane{}
	for _, l := range f.lanes {
		f.laneOf[l.name] = l
	}
	f.bound()
	f.hold()
	instants := f.instants()
	f.numbers = newNumbers(f.known())
	f.fence = newFence(f, instants)
	f.stack()
	f.measure()
	f.scale.at = instants
	f.label()
	f.spread(instants)
	return f
}

// stack sets everything one below the other.
func (f *figure) stack() {
	f.callout = newCallout(f)
	f.top = f.callout.height()
	y := f.top
	for _, l := range f.lanes {
		l.top = y
		y += f.lane()
	}
	f.fence.top = y + 14
	f.height = f.fence.bottom() + 40
}

// crowded says that lanes have no room for words.
func (f *figure) crowded() bool { return len(f.lanes) > 14 }

func (f *figure) lane() float64 {
	if f.crowded() {
		return narrow
	}
	return laneHeight
}

// spread finds the places of all instants, with as many labels as there is room
// for.
func (f *figure) spread(instants []time.Duration) {
	width := widest - f.gutter
	if f.scene.Small {
		width = widestSmall - f.gutter
	}
	focus := 0
	if f.callout.rule != "" {
		focus = f.scale.index(f.callout.at)
	}
	last := len(instants) - 1
	f.labels = f.labels.fitting(instants, width, focus)
	f.scale = newScale(instants, f.labels.rods(last), width)
	f.width = max(f.scale.end(), narrowest)
	if f.callout.rule != "" {
		f.width = max(f.width, 2*f.callout.room()+20)
	}
}

// isBad says whether op is one of those that break the rule.
func (f *figure) isBad(op *history.Op) bool { return f.bad[op] }
