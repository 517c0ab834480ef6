package picture

import (
	"time"

	"github.com/fencepost/fencepost/simulations/history"
)

// callout says at the top of a figure what went wrong, at the instant at which
// it did.
type callout struct {
	rule  string
	lines []string
	at    time.Duration
}

const (
	calloutSize  = 12.0
	calloutWidth = 340.0
	calloutSmall = 200.0
	calloutLine  = 16.0
)

func newCallout(f *figure) callout {
	v := f.broken
	if v == nil || len(v.Ops) == 0 {
		return callout{}
	}
	text := visible(f.numbers.in(v.Why))
	width := calloutWidth
	if f.scene.Small {
		width = calloutSmall
	}
	return callout{visible("broken: " + v.Rule.ID), balanced(text, calloutSize, width, 5), corruption(v)}
}

// corruption is when the last of the ops that break the rule ended.
func corruption(v *history.Violation) time.Duration { return v.Ops[len(v.Ops)-1].Ended }

func (c callout) height() float64 {
	if c.rule == "" {
		return 4
	}
	return calloutLine*float64(len(c.lines)+1) + 12
}

// draw draws the words and the line through everything.
func (c callout) draw(f *figure, out *canvas) {
	if c.rule == "" {
		return
	}
	x := f.scale.of(c.at)
	side, dx := "", 9.0
	if x+c.room() > f.width && x > c.room() {
		side, dx = " end", -9.0
	}
	out.line("broken", x, 4, x, f.height-24)
	out.text("rule"+side, x+dx, 16, c.rule)
	for i, line := range c.lines {
		out.text("why"+side, x+dx, 16+calloutLine*float64(i+1), line)
	}
}

// room is how wide the words are, on either side of the line.
func (c callout) room() float64 {
	widest := wide(c.rule, calloutSize)
	for _, line := range c.lines {
		widest = max(widest, wide(line, calloutSize))
	}
	return widest + 9
}
