package picture

import (
	"cmp"

	"github.com/fencepost/fencepost/simulations/history"
)

// draw draws the plot, from the ground up.
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

// drawLane draws what a writer asked for, down to where it arrived.
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

// ring marks what breaks the rule.
func (f *figure) ring(c *canvas, op *history.Op, x, y float64) {
	if f.isBad(op) {
		c.add(`<circle class="ring" cx="%v" cy="%v" r="10"/>`, x, y)
	}
}

// drawOp draws on the lane itself.
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

// drawLooks draws what others saw at the resource.
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
