package picture

import "github.com/fencepost/fencepost/simulations/history"

// glyph draws what became of an op, as a shape: a write is round, a claim a
// triangle, what asks the lock a square, and what only looks a diamond. Filled is accepted, crossed is refused,
// open is unknown, and barred failed.
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

// outline is a path around where it begins.
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

// dot is a small mark on a lane: something was asked for there.
func (c *canvas) dot(x, y float64) { c.add(`<circle class="dot" cx="%v" cy="%v" r="2.6"/>`, x, y) }
