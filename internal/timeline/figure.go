package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/fencepost/fencepost/internal/history"
)

// figure is a chart with the positions of its parts.
type figure struct {
	cutting
	chart    Chart
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

// widest and widestSmall are the widths of a figure. It is wider only if its instants
// need more room.
const (
	widest, widestSmall = 1130.0, 545.0
	narrowest           = 420.0
	laneHeight, narrow  = 56.0, 24.0
)

func newFigure(c cutting, s Chart) *figure {
	f := &figure{cutting: c, chart: s}
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

// stack computes the heights of all parts, from the top down.
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

// crowded reports whether lanes have no room for words.
func (f *figure) crowded() bool { return len(f.lanes) > 14 }

func (f *figure) lane() float64 {
	if f.crowded() {
		return narrow
	}
	return laneHeight
}

// spread computes the positions of all instants, with as many labels as fit.
func (f *figure) spread(instants []time.Duration) {
	width := widest - f.gutter
	if f.chart.Small {
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
		f.width = max(f.width, 2*f.callout.textWidth()+20)
	}
}

// isBad reports whether op is one of those that break the rule.
func (f *figure) isBad(op *history.Op) bool { return f.bad[op] }

// bound finds the first and the last instant.
func (f *figure) bound() {
	f.from = f.shown[0].Began
	for _, op := range f.shown {
		f.to = max(f.to, op.Ended)
	}
	f.to = max(f.to, f.from)
}

// hold keeps the leases under which a shown op ran.
func (f *figure) hold() {
	known := map[int64]bool{}
	for _, op := range f.shown {
		known[op.Number] = true
	}
	for _, l := range f.story.leases {
		if known[l.number] && f.laneOf[l.writer] != nil && l.from <= f.to && l.until > f.from {
			f.held = append(f.held, l)
		}
	}
}

// instants returns all instants that have a position, each once, and one more at the end.
func (f *figure) instants() []time.Duration {
	var all []time.Duration
	for _, op := range f.shown {
		all = append(all, op.Began, op.Ended)
	}
	for _, l := range f.held {
		if l.until <= f.to {
			all = append(all, l.until)
		}
	}
	slices.Sort(all)
	return append(slices.Compact(all), f.to+1)
}

// known returns the numbers that the figure names.
func (f *figure) known() []int64 {
	var all []int64
	for _, op := range f.shown {
		all = append(all, op.Number)
	}
	for _, l := range f.held {
		all = append(all, l.number)
	}
	return all
}

// lane is the row of one writer, or of another process that had faults.
type lane struct {
	name string
	hue  int // -1: no writer
	top  float64
	ops  []int // indexes of shown
}

// middle returns the height of a lane's lease.
func (f *figure) middle(l *lane) float64 {
	if f.crowded() {
		return l.top + 13
	}
	return l.top + 32
}

// lanesOf returns the lanes from the top down: processes that only had faults, then the
// writers in the order in which they appeared. Writers that only read have no lane.
func lanesOf(ops []*history.Op) []*lane {
	var faulty, writers []*lane
	byName := map[string]*lane{}
	for i, op := range ops {
		l := byName[op.Writer]
		if l == nil {
			l = &lane{name: op.Writer, hue: -1}
			byName[op.Writer] = l
		}
		l.ops = append(l.ops, i)
	}
	for i, op := range ops {
		l := byName[op.Writer]
		if l.ops[0] != i {
			continue
		}
		switch role(ops, l) {
		case "writer":
			l.hue = len(writers) % hues
			writers = append(writers, l)
		case "faulty":
			faulty = append(faulty, l)
		}
	}
	return slices.Concat(faulty, writers)
}

func role(ops []*history.Op, l *lane) string {
	role := "observer"
	for _, i := range l.ops {
		switch ops[i].Kind {
		case history.Fault:
			role = "faulty"
		case history.Read, history.Mark:
		default:
			return "writer"
		}
	}
	return role
}

// fence is the resource's lane: a row for each number, the greatest on top, and the mark
// as a staircase over them. Tokens below it are stale.
type fence struct {
	top    float64
	levels []int64 // from the greatest down
	row    float64 // height of one
	steps  []step  // at instants of the figure
	start  int64   // the mark at the first of them
	looks  bool    // the resource was read
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

// looks reports whether op is a read of the resource by a writer without a lane.
func looks(f *figure, op *history.Op) bool {
	return op.Kind == history.Read && f.laneOf[op.Writer] == nil
}

// y returns the height of a number. 0 is the ground.
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

// group returns the same value for rows that are too low for labels of their own.
func (n fence) group(number int64) int { return int((n.y(number) - n.top) / 13) }

// arrival returns when op is drawn at the resource: at its end, or at the first step of
// the mark beyond it in the meantime, since op came before that.
func (f *figure) arrival(op *history.Op) time.Duration {
	if op.Outcome != history.Accepted {
		return op.Ended
	}
	for _, s := range f.fence.steps {
		if s.at > op.Began && s.at < op.Ended && s.number > op.Number {
			return s.at
		}
	}
	return op.Ended
}

// labelArrival labels the outcome of op at the resource.
func (f *figure) labelArrival(op *history.Op) {
	at := f.scale.index(f.arrival(op))
	switch {
	case looks(f, op):
		f.labels.add(label{row: "looks", at: at, rank: 1, class: "word", dx: 9, y: f.fence.ground() + 24, text: cmp.Or(brief(op.Note, 40), fmt.Sprintf("counted %d", op.Counted))})
	case f.lands(op):
		l := label{row: fmt.Sprint("level ", f.fence.group(op.Number)), at: at, rank: 1, class: "word", dx: 10, y: f.fence.y(op.Number) + 4, text: string(op.Outcome)}
		if op.Outcome == history.Accepted {
			l.rank, l.y = leastRank, l.y-10
			if op.Made > 0 {
				l.text = fmt.Sprintf("v%d", op.Made)
			}
		}
		if f.isBad(op) {
			l.rank, l.class = 0, "word bad"
		} else if f.fence.row < 20 {
			l.until = f.scale.index(f.nextArrival(l.at))
		}
		f.labels.add(l)
	}
}

// nextArrival returns when the next op after at arrives at the resource.
func (f *figure) nextArrival(at int) time.Duration {
	next := f.to + 1
	for _, op := range f.shown {
		if arrived := f.arrival(op); f.lands(op) && arrived > f.scale.at[at] {
			next = min(next, arrived)
		}
	}
	return next
}
