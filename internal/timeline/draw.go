package timeline

import (
	"cmp"
	"slices"

	"github.com/fencepost/fencepost/internal/history"
)

// draw draws the plot, background first.
func (f *figure) draw(c *canvas) {
	for _, l := range f.lanes {
		c.line("life", 0, f.middle(l), f.width, f.middle(l))
	}
	f.drawFence(c)
	for _, l := range f.held {
		c.group(f.laneOf[l.writer].hue, func() { f.drawLease(c, l) })
	}
	for _, op := range f.shown {
		if op.Kind == history.Fault {
			f.drawFault(c, op)
		}
	}
	f.callout.draw(f, c)
	for _, l := range f.lanes {
		c.group(l.hue, func() { f.drawLane(c, l) })
	}
	f.drawLooks(c)
	for _, l := range f.labels {
		c.group(l.hue-1, func() { c.text(l.class, f.scale.x[l.at]+l.dx, l.y, l.text) })
	}
	f.drawAxis(c)
}

// half is half the height of a lease.
func (f *figure) half() float64 {
	if f.crowded() {
		return 6
	}
	return 9
}

// drawLane draws the requests of a writer, with lines to the resource.
func (f *figure) drawLane(c *canvas, l *lane) {
	for _, i := range l.ops {
		op := f.shown[i]
		if op.Kind == history.Fault {
			continue
		}
		c.add("<g>")
		if f.lands(op) {
			f.drawRequest(c, l, op)
		} else {
			f.drawOp(c, l, op)
		}
		c.add("<title>%s</title></g>", escaped(f.sentence(op)))
	}
}

// ring marks an op that breaks the rule.
func (f *figure) ring(c *canvas, op *history.Op, x, y float64) {
	if f.isBad(op) {
		c.add(`<circle class="ring" cx="%v" cy="%v" r="10"/>`, x, y)
	}
}

// drawOp draws an op on its lane.
func (f *figure) drawOp(c *canvas, l *lane, op *history.Op) {
	x, end, y := f.scale.of(op.Began), f.scale.of(op.Ended), f.middle(l)
	switch op.Kind {
	case history.Unit:
		c.line("unit", x, y+f.half()+4, end, y+f.half()+4)
		return
	case history.Acquire:
		if end > x {
			c.line("waits", x, y, end, y)
		}
	}
	c.dot(x, y)
	if op.Outcome != history.Accepted && op.Kind != history.Release {
		c.glyph(op.Kind, op.Outcome, end, y)
	}
	f.ring(c, op, cmp.Or(end, x), y)
}

// drawLooks draws reads of the resource by writers without a lane.
func (f *figure) drawLooks(c *canvas) {
	for _, op := range f.shown {
		if f.laneOf[op.Writer] != nil || op.Kind == history.Fault {
			continue
		}
		x, y := f.scale.of(op.Ended), f.fence.ground()+20
		if op.Kind == history.Mark {
			y = f.fence.y(op.Number)
		}
		c.add("<g>")
		f.ring(c, op, x, y)
		c.glyph(op.Kind, op.Outcome, x, y)
		c.add("<title>%s</title></g>", escaped(f.sentence(op)))
	}
}

func (f *figure) drawLease(c *canvas, l lease) {
	y, half := f.middle(f.laneOf[l.writer]), f.half()
	x, end := f.scale.of(max(l.from, f.from)), f.width
	ends := l.until <= f.to
	if ends {
		end = f.scale.of(l.until)
	}
	class := "lease"
	if l.unconfirmed {
		class = "lease unconfirmed"
	}
	c.rect(class, x, y-half, max(end-x, 1), 2*half)
	if l.from >= f.from {
		c.line("edge", x, y-half, x, y+half)
	}
	if ends {
		c.line("edge", end, y-half, end, y+half)
	}
}

func (f *figure) drawFault(c *canvas, op *history.Op) {
	y, half := f.middle(f.laneOf[op.Writer]), f.half()
	x, end := f.scale.of(op.Began), f.scale.of(op.Ended)
	c.add("<g>")
	if end > x {
		c.hatch(x, y, end-x, 2*half+4)
	} else {
		c.add(`<path class="shock" d="M%v %vl4 -9h-8z"/>`, x, y+2)
	}
	c.add("<title>%s</title></g>", escaped(f.sentence(op)))
}

// lands reports whether op is drawn at the resource: it requested a change there.
func (f *figure) lands(op *history.Op) bool {
	return op.Kind == history.Claim || op.Kind == history.Write || f.bare[op]
}

// bareUnits returns the units of work without recorded writes, such as units that were
// refused before they wrote.
func bareUnits(ops []*history.Op) map[*history.Op]bool {
	bare := map[*history.Op]bool{}
	for i, unit := range ops {
		if unit.Kind != history.Unit {
			continue
		}
		bare[unit] = true
		for _, op := range ops[i:] {
			if op.Began > unit.Ended {
				break
			}
			if op.Kind == history.Write && op.Writer == unit.Writer {
				bare[unit] = false
			}
		}
	}
	return bare
}

func (f *figure) drawRequest(c *canvas, l *lane, op *history.Op) {
	x, y := f.scale.of(op.Began), f.middle(l)
	toX, toY := f.scale.of(f.arrival(op)), f.fence.y(op.Number)
	class := "request"
	if op.Outcome == history.Unknown {
		class = "request unknown"
	}
	c.line(class, x, y, toX, toY)
	c.dot(x, y)
	f.ring(c, op, toX, toY)
	c.glyph(op.Kind, op.Outcome, toX, toY)
}

// drawFence draws the mark as a staircase, and the places where it falls.
func (f *figure) drawFence(c *canvas) {
	n := f.fence
	y := n.y(n.start)
	var path, falls canvas
	path.add("M%v %v", 0.0, y)
	for _, s := range n.steps {
		x := f.scale.of(s.at)
		path.add("H%vV%v", x, n.y(s.number))
		if s.fell {
			falls.add("M%v %vV%v", x, y, n.y(s.number))
		}
		y = n.y(s.number)
	}
	path.add("H%v", f.width)
	c.add(`<path class="below" d="%sV%vH0z"/>`, path.String(), n.ground()+6)
	c.add(`<path class="mark" d="%s"/>`, path.String())
	if falls.Len() > 0 {
		c.add(`<path class="fall" d="%s"/>`, falls.String())
	}
}

// boldSize and boldSmall are the sizes with which bold texts of 13 and 11 pixels are
// measured.
const boldSize, boldSmall = 14.2, 12.0

// drawGutter draws the names of the lanes, which stay in place when the plot is scrolled.
func (f *figure) drawGutter(c *canvas) {
	x := f.gutter - 10
	for _, l := range f.lanes {
		c.group(l.hue, func() {
			c.add("<g>")
			c.text("name end", x, f.middle(l)+4, fit(visible(l.name), boldSize, f.gutter-14))
			c.add("<title>%s</title></g>", escaped(l.name))
		})
	}
	c.text("place end", x, f.fence.top+8, fit(visible(f.resource), boldSmall, f.gutter-14))
	f.drawLevels(c, x)
	if f.fence.looks {
		c.text("soft end", x, f.fence.ground()+24, "seen")
	}
	c.text("soft end", x, f.height-7, "ms")
}

// drawLevels draws as many numbers as fit, those of the violation first.
func (f *figure) drawLevels(c *canvas, x float64) {
	var kept []float64
	draw := func(number int64) {
		y := f.fence.y(number)
		if slices.ContainsFunc(kept, func(other float64) bool { return abs(int(y-other)) < 12 }) {
			return
		}
		kept = append(kept, y)
		c.group(f.hueOf(number), func() { c.text("level end", x, y+4, f.numbers.short(number)) })
	}
	for _, op := range f.shown {
		if f.isBad(op) && f.lands(op) {
			draw(op.Number)
		}
	}
	for _, number := range f.fence.levels {
		draw(number)
	}
	c.text("soft end", x, f.fence.ground()+4, "mark")
}

// hueOf returns the hue of the writer that was granted the number.
func (f *figure) hueOf(number int64) int {
	for _, l := range f.held {
		if l.number == number {
			return f.laneOf[l.writer].hue
		}
	}
	for _, op := range f.shown {
		if op.Number == number && f.laneOf[op.Writer] != nil {
			return f.laneOf[op.Writer].hue
		}
	}
	return -1
}

// measure computes the width of the names.
func (f *figure) measure() {
	f.gutter = 62
	for _, l := range f.lanes {
		f.gutter = max(f.gutter, wide(visible(l.name), boldSize)+20)
	}
	for _, number := range f.fence.levels {
		f.gutter = max(f.gutter, wide(f.numbers.short(number), 11)+20)
	}
	f.gutter = min(max(f.gutter, min(wide(visible(f.resource), boldSmall)+20, 96)), 132)
}

// glyph draws the outcome of an op as a shape: a write is a circle, a claim a triangle, a
// request to the lock a square, and a read a diamond. Filled means accepted, crossed
// refused, empty unknown, and barred failed.
func (c *canvas) glyph(kind history.Kind, outcome history.Outcome, x, y float64) {
	class := "glyph"
	if outcome == history.Accepted {
		class = "glyph full"
	}
	c.add(`<path class="%s" d="M%v %v%s"/>`, class, x, y, outline(kind))
	switch outcome {
	case history.Refused:
		c.add(`<path class="cross" d="M%v %vl7 7m0-7l-7 7"/>`, x-3.5, y-3.5)
	case history.Failed:
		c.add(`<path class="cross" d="M%v %vh7"/>`, x-3.5, y)
	}
}

// outline returns a closed path that begins at the current point.
func outline(kind history.Kind) string {
	switch kind {
	case history.Acquire, history.Renew, history.Release:
		return "m-5-5h10v10h-10z"
	case history.Claim:
		return "m0-6.5l6 10.5h-12z"
	case history.Read, history.Mark:
		return "m0-5l5 5l-5 5l-5-5z"
	}
	return "m-5.5 0a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0z"
}

// dot draws a small mark on a lane: a request was sent there.
func (c *canvas) dot(x, y float64) { c.add(`<circle class="dot" cx="%v" cy="%v" r="2.6"/>`, x, y) }
